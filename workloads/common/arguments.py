"""Shared by command lines of workloads, also of programs that have no card."""

from __future__ import annotations

import argparse
from typing import NoReturn

from workloads.common import events


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are events too."""

    def error(self, message: str) -> NoReturn:
        """Print the usage, emit `message` as event ``error`` and end the process with status 2."""
        self.print_usage()
        events.bad_input(message)


def positive(word: str) -> int:
    """An integer from 1 on. Raises ValueError or ArgumentTypeError for all else: argparse names the option."""
    return _at_least(1, word)


def not_negative(word: str) -> int:
    """An integer from 0 on. Raises ValueError or ArgumentTypeError for all else."""
    return _at_least(0, word)


def _at_least(least: int, word: str) -> int:
    value = int(word)
    if value < least:
        raise argparse.ArgumentTypeError(f"{word} is less than {least}")
    return value
