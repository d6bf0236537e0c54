"""Seven additions as a chain and as a tree; what tasks, actors and objects of Ray cost: see docs/workloads.md."""
