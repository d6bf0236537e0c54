"""Monte Carlo pi: see docs/workloads.md."""
