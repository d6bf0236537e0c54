"""Answers requests about it on a node: the standard library only."""
