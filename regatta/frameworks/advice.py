"""Advice on the last words of a failed run: rows of `advice.toml`, each a pattern with its cause and advice.

Which Debian package has a shared library that a program lacks, is in `libraries.toml`.
"""

import functools
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from regatta.program import hint

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE, LIBRARIES = "advice.toml", "libraries.toml"
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
            text = text.replace("\\package", _about_library(found[1]))
        return _COMMAND.sub(lambda one: hint(one[1], *one[2].split()), text)


@functools.cache
def rows() -> tuple[Row, ...]:
    """Return the rows, of which earlier ones come first where a line fits several."""
    return tuple(
        Row(one["of"], re.compile(one["pattern"]), one.get("cause", ""), one["advice"], one["example"])
        for one in _read(FILE)["row"]
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


def _read(file: str) -> dict[str, Any]:
    return dict(tomllib.loads(resources.files(__package__).joinpath(file).read_text(encoding="utf-8")))


@functools.cache
def _libraries() -> dict[str, dict[str, str]]:
    return _read(LIBRARIES)


def package(library: str) -> str | None:
    """Return the Debian package of a library (libGL.so.1, also libGL.so); None where that is not known."""
    tables = _libraries()
    by_prefix = (name for prefix, name in tables["prefix"].items() if library.startswith(prefix))
    without_number = (name for one, name in tables["package"].items() if one.startswith(f"{library}."))
    return tables["package"].get(library) or next(by_prefix, None) or next(without_number, None)


def _about_library(library: str) -> str:
    """Return what to do about a library that is missing."""
    name = package(library)
    if name is None:
        return f"write its Debian package into regatta.toml, apt = [...] ('apt-file search {library}' names it)"
    return f'it is in Debian\'s package {name}: write apt = ["{name}"] into regatta.toml, and the next run has it'
