"""Seven additions as a chain and a tree, and what Ray costs (docs/reference/workloads/graphs-of-tasks.md)."""
