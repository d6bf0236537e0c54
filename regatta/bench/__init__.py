"""Plans of many runs: what a plan says, what it becomes on a cluster, and how it is run."""
