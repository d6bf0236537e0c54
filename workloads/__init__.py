"""Workloads, which run on the nodes: they say what they did in events, and never import fabric, ansible or regatta."""
