"""Asks a person before something is removed or trusted."""

import os
import sys

from regatta.errors import UsageError
from regatta.program import in_checkout
from regatta.terminal import screen


def confirmed(what: str, yes: bool) -> bool:
    """Whether the person wants `what` (a sentence's end, such as "remove 3 files"): --yes, CONFIRM=yes, or asked.

    UsageError where there is no one to ask.
    """
    if yes or os.environ.get("CONFIRM") == "yes":
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"this would {what}: say --yes{' (or CONFIRM=yes)' if in_checkout() else ''}")
    return screen.ask(f"{what[0].upper()}{what[1:]}? Type yes:").strip() == "yes"
