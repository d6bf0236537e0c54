"""Text from elsewhere, made fit to be shown to a person."""

import re

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]*[0-~]"
)
_BUT_TAB_AND_LINE_END = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_LINES = re.compile(f"[{_BUT_TAB_AND_LINE_END}]")
_CONTROLS = re.compile(f"[\n{_BUT_TAB_AND_LINE_END}]")


def fit(text: str) -> str:
    """`text` that does nothing to a terminal but begin lines: ANSI codes removed, other controls shown as escapes."""
    if not _IN_LINES.search(text):
        return text
    return _IN_LINES.sub(_escape, _ESCAPES.sub("", text.replace("\r\n", "\n")))


def clean(text: str) -> str:
    """One line that does nothing to a terminal: ANSI codes removed, other control characters shown as escapes.

    Of parts separated by carriage returns the last one is left, as on a terminal.
    """
    parts = [part for part in _ESCAPES.sub("", text).split("\r") if part]
    return _CONTROLS.sub(_escape, parts[-1] if parts else "")


def owner(name: str) -> str:
    """An owner of runs as tables show it: the account, and the beginning of its key's fingerprint."""
    account, mark, key = name.rpartition(" SHA256:")
    return clean(f"{account} ({key[:8]})" if mark else name)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def shown(path: str) -> str:
    """A path on one line, whatever bytes its name has."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in path)
