"""Frames of a film, each rendered by itself: see docs/reference/workloads/films.md."""
