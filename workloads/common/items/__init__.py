"""Workloads of items: a function is applied to each, in whatever process; the results come back in their order."""
