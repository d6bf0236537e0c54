"""Personalised PageRank of some sources of a graph, the sources spread over the ranks."""
