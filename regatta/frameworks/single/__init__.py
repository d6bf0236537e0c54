"""The single process."""
