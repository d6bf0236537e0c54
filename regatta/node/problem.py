"""What the node's side says to a person in one sentence."""

from __future__ import annotations


class Problem(Exception):
    """Where, what, and what to do; shown as it is."""
