"""A person's project."""
