"""The error that the node's side shows to a person in one sentence."""

from __future__ import annotations


class Problem(Exception):
    """The place, the cause, and what to do; shown as it is."""
