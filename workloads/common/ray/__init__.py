"""The driver and the ranks of a Ray run: the cluster, and parts in actors or as workers of Ray Train."""
