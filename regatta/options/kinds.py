"""Kinds of options: how a word of the command line becomes a value, and which values a TOML file may have.

`where` names the place in errors: `--workers`, or the key of a file. All raise UsageError for what is no such value.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from regatta.errors import UsageError

NOTHING = "none"
"""As a pattern of files: none of them."""


class Kind:
    """Text, as it is. `about`: what it is called in the reference.

    `switch`: it takes no value; `many`: its flag may be given more than once.
    """

    switch, many = False, False

    def __init__(self, about: str = "text") -> None:
        self.about = about

    def word(self, where: str, typed: Any) -> Any:
        """The value of what was typed: a word, a list of them where there may be `many`, true of a switch."""
        return typed

    def value(self, where: str, given: object) -> Any:
        """The value that a file gives."""
        if not isinstance(given, str) or not given:
            _refuse(where, self.about, given)
        return self.word(where, given)


class Choice(Kind):
    """One of some words."""

    def __init__(self, *words: str) -> None:
        super().__init__(", ".join(words))
        self.words = words

    def word(self, where: str, typed: Any) -> str:
        """See `Kind`."""
        if typed not in self.words:
            raise UsageError(f"{where} must be one of {self.about}, not '{typed}'")
        return str(typed)


class Switch(Kind):
    """True where it is given."""

    switch = True

    def value(self, where: str, given: object) -> bool:
        """See `Kind`."""
        if not isinstance(given, bool):
            _refuse(where, self.about, given)
        return given


class Place(Kind):
    """The path of a file."""

    def word(self, where: str, typed: Any) -> Path:
        """See `Kind`."""
        return Path(typed)


class Whole(Kind):
    """A whole number of at least `least`."""

    def __init__(self, least: int = 1) -> None:
        super().__init__("whole number")
        self.least = least

    def word(self, where: str, typed: Any) -> int:
        """See `Kind`."""
        try:
            value = int(typed)
        except ValueError:
            raise UsageError(f"{where} takes a whole number, not '{typed}'") from None
        if value < self.least:
            raise UsageError(f"{where} must be at least {self.least}, not {value}")
        return value

    def value(self, where: str, given: object) -> int:
        """See `Kind`."""
        if isinstance(given, bool) or not isinstance(given, int) or given < self.least:
            _refuse(where, f"a whole number of at least {self.least}", given)
        return given


class Amount(Kind):
    """A finite number above 0; `about` says of what."""

    def word(self, where: str, typed: Any) -> float:
        """See `Kind`."""
        try:
            value = float(typed)
        except ValueError:
            raise UsageError(f"{where} takes {self.about}, not '{typed}'") from None
        if not 0 < value < float("inf"):
            raise UsageError(f"{where} must be more than 0, not {typed}")
        return value

    def value(self, where: str, given: object) -> float:
        """See `Kind`."""
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
            _refuse(where, "a number above 0", given)
        return float(given)


class Words(Kind):
    """A list of words: `split` takes a typed word apart, `check` makes them the value."""

    def __init__(
        self,
        about: str = "words",
        split: Callable[[str], Sequence[str]] = lambda text: [text],
        check: Callable[[Iterable[str], str], tuple[str, ...]] = lambda words, where: tuple(words),
        *,
        many: bool = True,
    ) -> None:
        super().__init__(about)
        self.split, self.check, self.many = split, check, many

    def word(self, where: str, typed: Any) -> tuple[str, ...]:
        """See `Kind`."""
        return self.check(
            [one for text in ([typed] if isinstance(typed, str) else typed) for one in self.split(text)], where
        )

    def value(self, where: str, given: object) -> tuple[str, ...]:
        """See `Kind`."""
        if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
            _refuse(where, 'a list of words, as ["a", "b"]', given)
        return self.check(given, where)


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d\d)")


class Duration(Amount):
    """Seconds, also as 90s, 5m, 1.5h, 2d, or H:MM:SS and M:SS."""

    def word(self, where: str, typed: Any) -> float:
        """See `Kind`."""
        text = str(typed).strip().lower()
        if found := _CLOCK.fullmatch(text):
            hours, minutes, seconds = (int(part or 0) for part in found.groups())
            return super().word(where, hours * 3600 + minutes * 60 + seconds)
        if text[-1:] in _UNITS and (amount := text[:-1]).replace(".", "", 1).isdigit():
            return super().word(where, float(amount) * _UNITS[text[-1]])
        return super().word(where, typed)


class Percent(Amount):
    """A part, as 2% or 0.02."""

    def word(self, where: str, typed: Any) -> float:
        """See `Kind`."""
        text = str(typed).strip()
        if text.removesuffix("%").strip("0.") == "" and "0" in text:
            return 0.0
        part = super().word(where, text.removesuffix("%"))
        return part / 100 if text.endswith("%") else part


def folders(words: Iterable[str], where: str = "--keep") -> tuple[str, ...]:
    """The folders as paths relative to the working directory. UsageError for one that is elsewhere, or in another."""
    made = {os.path.normpath(word) if word.strip() else "" for word in words}
    for path in sorted(made):
        if not path or path == "." or path.startswith(("/", "..")) or not path.isprintable():
            raise UsageError(f"{where}: '{path}' is no folder below the run's working directory, as out/")
        if outer := next((one for one in made if path.startswith(f"{one}/")), None):
            raise UsageError(f"{where}: {path} is in {outer}, which is kept already: leave it out")
    return tuple(sorted(made))


def patterns(words: Iterable[str], where: str = "PATTERN") -> tuple[str, ...]:
    """Patterns as nodes take them. UsageError for one that leads out of the working directory."""
    made = []
    for word in words:
        pattern = os.path.normpath(word) if word else ""
        if not pattern or pattern.startswith(("/", "..")):
            raise UsageError(
                f"{where}: '{word}': a pattern is relative to the run's working directory, as out/*.pt or logs"
            )
        made.append("**" if pattern == "." else pattern)
    return tuple(made)


def urls(words: Iterable[str], where: str = "--notify") -> tuple[str, ...]:
    """URLs, or `env:NAME` for the variable that has one. UsageError for what is none."""
    for word in (made := tuple(words)):
        if not re.fullmatch(r"env:[A-Za-z_]\w*|[a-z][a-z0-9+]*://\S+", word):
            raise UsageError(f"{where}: '{word}' is no URL, as https://example.org/key, mailto://... or env:NAME")
    return made


def sweep(words: Iterable[str], where: str = "--sweep") -> tuple[str, ...]:
    """Names with their values, as `lr=0.1,0.01`. UsageError for one without values."""
    for word in (made := tuple(words)):
        name, _, values = word.partition("=")
        if not re.fullmatch(r"[A-Za-z_][\w-]*", name) or not all(values.split(",")):
            raise UsageError(f"{where}: '{word}' is no name with one value or more, as lr=0.1,0.01")
    return made


def _patterns(text: str) -> list[str]:
    return [] if text == NOTHING else [word for word in text.split(",") if word]


def _requirements(text: str) -> list[str]:
    """Requirements with commas between: not those in the extras or the range of one."""
    return [one.strip() for one in re.split(r",(?=\s*[A-Za-z])(?![^\[]*\])", text) if one.strip()]


def _refuse(where: str, wanted: str, given: object) -> NoReturn:
    raise UsageError(f"{where}: must be {wanted}, not {given!r}")


TEXT = Kind()
SWITCH = Switch("true or false")
PATH = Place("path")
WHOLE = Whole()
COUNT = Whole(0)
SECONDS = Duration("seconds, or a time as 5m or 1:00:00")
GIGABYTES = Amount("a number of gigabytes")
PERCENT = Percent("a part, as 2% or 0.02")
LIST = Words()
REQUIREMENTS = Words("requirements", split=_requirements)
NAMES = Words("names", split=lambda text: text.split(","))
FOLDERS = Words("folders", split=lambda text: text.split(","), check=folders)
URLS = Words("URLs", check=urls)
SWEEP = Words("names with values", check=sweep)
PATTERNS = Words("patterns of files", many=False, split=_patterns, check=patterns)
