"""Ctrl-C that is not lost: Python drops an exception that rises in what it calls when it frees objects."""

import signal
import sys
import threading
from typing import Any

AGAIN_SECONDS = 0.02


def install() -> None:
    """Send Ctrl-C again where Python has dropped it, as in a garbage collection; a second time changes nothing."""
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
