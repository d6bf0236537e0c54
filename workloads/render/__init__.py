"""Frames of a film, each rendered by itself: see docs/workloads.md."""
