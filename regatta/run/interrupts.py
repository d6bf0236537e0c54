"""Ctrl-C while something is being ended that must not be left half-way."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Let Ctrl-C wait until this has ended; it counts then, unless an earlier one is what this deals with."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed and not isinstance(sys.exc_info()[1], KeyboardInterrupt):
        raise KeyboardInterrupt
