"""A plan of timed runs, carried out: checked against a cluster, ordered, estimated, run, and summed up."""
