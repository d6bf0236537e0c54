"""Text from elsewhere, made fit to be shown on one line."""

import re

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """One line that does nothing to a terminal: ANSI codes removed, other control characters shown as escapes.

    Of parts separated by carriage returns the last one is left, as on a terminal.
    """
    parts = [part for part in _ESCAPES.sub("", text).split("\r") if part]
    return _CONTROLS.sub(lambda m: m[0].encode("unicode_escape").decode("ascii"), parts[-1] if parts else "")


def shown(path: str) -> str:
    """A path on one line, whatever bytes its name has."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in path)
