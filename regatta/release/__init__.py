"""The same source tree and input files on every node of a cluster."""
