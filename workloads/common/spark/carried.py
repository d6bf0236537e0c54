"""Data that the driver hands to all executors at once, also where Spark encrypts what it writes.

Pickle gives a large array to its stream as a buffer that has no length, and Spark's encrypted stream asks for one.
Bytes have one.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any


class Carried:
    """A value as bytes; whoever unpickles it gets the value."""

    def __init__(self, value: object) -> None:
        self._packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        """See :mod:`pickle`."""
        return pickle.loads, (self._packed,)


def to_all(context: Any, value: object) -> Any:
    """A broadcast of Spark's whose `value` is that of here, on each executor."""
    return context.broadcast(Carried(value))
