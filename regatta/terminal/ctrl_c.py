"""Ctrl-C that is not lost, and that waits while something is ended that must not be left half-way."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

AGAIN_SECONDS = 0.02


def install() -> None:
    """Send Ctrl-C again where Python has dropped it, as it does in what it calls when it frees objects.

    A second time changes nothing.
    """
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _again


def _again(dropped: Any) -> None:
    if dropped.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(dropped)
        return
    again = (threading.main_thread().ident, signal.SIGINT)
    timer = threading.Timer(AGAIN_SECONDS, signal.pthread_kill, again)  # not from here, where it would be dropped, too
    timer.daemon = True
    timer.start()


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
