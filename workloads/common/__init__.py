"""Shared by all workloads: events, ranks, one copy of the input a host, and the frameworks that run it."""
