"""One run from its request to its record; the runs and services of a cluster."""
