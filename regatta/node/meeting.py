"""Warns at once of a program that leads its ranks to another place than the one where Regatta lets them meet.

A script for one machine sets MASTER_ADDR to localhost, or a rank's number: on several hosts its ranks wait for each
other until they time out. The first file of Python in a run calls `watched`.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
from typing import Any, Callable, Dict, Iterator

GIVEN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LOCAL = ("localhost", "127.", "[::1]", "::1")
ADVICE = "Leave RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as they are, and give init_process_group no address"


def watched(begin: Callable[..., Any], first: Dict[str, str]) -> Callable[..., Any]:
    """A function by which ranks meet, which first says what the program has changed of the variables `first`."""

    @functools.wraps(begin)
    def begins(*args: Any, **options: Any) -> Any:
        with contextlib.suppress(Exception):
            for text in changes(first, args, options, sys._getframe(1)):
                sys.stderr.write(f"regatta: {text}. {ADVICE}\n")
                sys.stderr.flush()
        return begin(*args, **options)

    return begins


def changes(first: Dict[str, str], args: Any, options: Dict[str, Any], frame: Any) -> Iterator[str]:
    """Yield what a program has set otherwise, and where; `frame`: that of the call."""
    several = first.get("WORLD_SIZE") != first.get("LOCAL_WORLD_SIZE")
    at = f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"
    for name in GIVEN:
        now = os.environ.get(name)
        if name in first and now != first[name] and (several or not name.startswith("MASTER")):
            where = _line(frame.f_code.co_filename, name) or at
            yield f"{where} sets {name}={now}, and rank {first.get('RANK')} was given {name}={first[name]}"
    for name in ("rank", "world_size"):
        number, expected = options.get(name, -1), first.get(name.upper())
        if expected is not None and number not in (-1, int(expected)):
            yield f"{at} gives {name}={number}, and rank {first.get('RANK')} was given {name.upper()}={expected}"
    address = str((args[1:2] or (options.get("init_method"),))[0] or "")
    host = address.partition("://")[2]
    if several and address.startswith("tcp:") and host.startswith(LOCAL):
        yield f"{at} lets ranks of several hosts meet at {address}, which is another place on each host"


def _line(file: str, name: str) -> str:
    """`train.py:7`, the first line of a file that names a variable; empty: none does."""
    lines = linecache.getlines(file)
    found = next((number for number, line in enumerate(lines, 1) if f'"{name}"' in line or f"'{name}'" in line), None)
    return f"{os.path.relpath(file)}:{found}" if found else ""
