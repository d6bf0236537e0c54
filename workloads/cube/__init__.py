"""The sum of i x j x k over a cube, or over a corner of it: see docs/reference/workloads/items.md."""
