"""Asks a person: before something is removed or trusted, and what they want."""

import os
import sys
from collections.abc import Callable
from typing import TypeVar

from regatta.errors import RegattaError, UsageError
from regatta.program import in_checkout
from regatta.terminal import screen

_Answer = TypeVar("_Answer")


def confirmed(what: str, yes: bool) -> bool:
    """Whether the person wants `what` (a sentence's end, such as "remove 3 files"): --yes, CONFIRM=yes, or asked.

    UsageError where there is no one to ask.
    """
    if yes or os.environ.get("CONFIRM") == "yes":
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"this would {what}: add --yes{' (or CONFIRM=yes)' if in_checkout() else ''}")
    return screen.ask(f"{what[0].upper()}{what[1:]}? Type yes:").strip() == "yes"


class Questions:
    """Asks for one thing after the other. `yes`: no one is asked, and what is offered is the answer."""

    def __init__(self, *, yes: bool) -> None:
        self._yes = yes

    def answer(
        self, question: str, read: Callable[[str], _Answer], offered: str | None = None, given: str | None = None
    ) -> _Answer:
        """The value that `read` makes of an answer: of the one `given`, or else of a person's.

        A wrong one is asked again, with the reason; nothing typed is what is `offered`. Raises EOFError at the end of
        input, and what `read` raises where no one was asked.
        """
        if given is not None or self._yes:
            return read(str(offered or "") if given is None else given)
        while True:
            typed = screen.ask(f"{question}{f' [{offered}]' if offered else ''}:").strip()
            try:
                return read(typed or offered or "")
            except RegattaError as error:
                print(f"  {error}")
