"""A queue of ZeroMQ."""
