"""The meaning of a word of the command line, by the kind of its option. A word that means nothing is an
ArgumentTypeError: argparse puts the name of the option before its message.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

from regatta_protocol.cards import Option, listed
from workloads.common.storage.places import is_remote


def text(option: Option, word: str) -> str:
    """The word as it is."""
    return word


def path(option: Option, word: str) -> str:
    """The path as it is, or that of this run."""
    return of_this_run(word) if option.of_run else word


def whole_number(option: Option, word: str) -> int:
    """An integer within the option's bounds."""
    try:
        value = int(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid whole number: {word!r}") from None
    _within(option, word, value)
    return value


def ranks(option: Option, word: str) -> int:
    """A number of ranks, from 1 on."""
    value = whole_number(option, word)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{word} is less than 1")
    return value


def number(option: Option, word: str) -> float:
    """A finite number within the option's bounds."""
    try:
        value = float(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid number: {word!r}") from None
    _within(option, word, value)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{word} is not a finite number")
    return value


def separated(option: Option, word: str) -> tuple[str, ...]:
    """Texts that commas separate, none of them empty; one with a comma has quotes around it."""
    items = listed(word)
    if items is None:
        raise argparse.ArgumentTypeError(f"a quote that does not end, or text after it, in {word!r}")
    if not items or not all(items):
        raise argparse.ArgumentTypeError(f"an empty item in {word!r}")
    return tuple(items)


def of_this_run(word: str) -> str:
    """A path that means the same in every process of this run; ``{run}`` becomes the run's id.

    Of a run that continues without lost hosts it is the first one's.
    """
    run = os.environ.get("REGATTA_FIRST_RUN") or os.environ.get("REGATTA_RUN_ID") or "by-hand"
    own = word.replace("{run}", run)
    return own if is_remote(own) else str(Path(own).absolute())


def shown(value: str | float | tuple[str, ...]) -> str:
    """A value as a person would type it."""
    if isinstance(value, float):
        return f"{value:g}".replace("e-0", "e-").replace("e+0", "e")
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _within(option: Option, word: str, value: float) -> None:
    """Raise ArgumentTypeError for a value outside the option's bounds; NaN is outside of all."""
    least, above, below = option.least, option.above, option.below
    wrong = None
    if above is not None and below is not None:
        wrong = None if above < value < below else f"not between {shown(above)} and {shown(below)}"
    elif above is not None and not value > above:
        wrong = f"not more than {shown(above)}" if above else "not a positive number"
    elif below is not None and not value < below:
        wrong = f"not less than {shown(below)}"
    if least is not None and not value >= least:
        wrong = f"less than {shown(least)}"
    if wrong:
        raise argparse.ArgumentTypeError(f"{word} is {wrong}")
