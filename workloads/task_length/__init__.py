"""Items that each take a given time of a processor: what spreading them costs, see docs/workloads.md."""
