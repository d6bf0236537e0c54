"""Monte Carlo pi: see docs/reference/workloads/items.md."""
