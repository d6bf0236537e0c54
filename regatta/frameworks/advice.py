"""Advice on the last words of a failed run: rows of `advice.toml`, each a pattern with its cause and advice."""

import functools
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from regatta.frameworks import libraries
from regatta.program import hint

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "advice.toml"
_TRACEBACK = "Traceback (most recent call last)"
_CHAINED = ("direct cause of the following exception", "During handling of the above exception")
_OURS = "regatta: "
"""So a line begins that Regatta itself prints in a rank; it counts wherever it is."""
_END = 20
"""Lines of a program that has printed no traceback."""
_COMMAND = re.compile(r"\{([a-z-]+)((?: [A-Z/]+)*)\}")


@dataclass(frozen=True)
class Row:
    """Lines that fit the `pattern`, words of the library `of`, have this cause; `example` is such a line."""

    of: str
    pattern: re.Pattern[str]
    cause: str
    advice: str
    example: str

    def words(self, found: re.Match[str]) -> str:
        """Return cause and advice about a line that fits, in one sentence."""
        text = ": ".join(filter(None, (self.cause, self.advice)))
        for number, value in enumerate(found.groups(default=""), 1):
            text = text.replace(f"\\{number}", value)
        if "\\package" in text:
            text = text.replace("\\package", libraries.advice(found[1]))
        return _COMMAND.sub(lambda one: hint(one[1], *one[2].split()), text)


@functools.cache
def rows() -> tuple[Row, ...]:
    """Return the rows, of which earlier ones come first where a line fits several."""
    text = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return tuple(
        Row(one["of"], re.compile(one["pattern"]), one.get("cause", ""), one["advice"], one["example"])
        for one in tomllib.loads(text)["row"]
    )


def about(lines: Sequence[str]) -> str:
    """Return what to do about the last line for which there is a row; '' where there is none."""
    ours = [line for line in lines if line.startswith(_OURS)]
    for line in [*reversed(_last_error(lines)), *ours]:
        for row in rows():
            if found := row.pattern.search(line):
                return row.words(found)
    return ""


def _last_error(lines: Sequence[str]) -> Sequence[str]:
    """Return the last traceback, with those that led to it, and what comes after it; else the end of the lines."""
    starts = [place for place, line in enumerate(lines) if _TRACEBACK in line]
    if not starts:
        return lines[-_END:]
    start = starts.pop()
    while starts and any(words in line for line in lines[max(start - 3, 0) : start] for words in _CHAINED):
        start = starts.pop()
    return lines[start:]
