"""Items that each take a given time of a processor, to see what spreading costs: docs/reference/workloads/items.md."""
