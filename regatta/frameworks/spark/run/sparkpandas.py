"""Spark warns at each data frame that it does not fully support pandas 3 yet: here it warns once a process.

A filter of warnings cannot do that: whatever sets filters for a while, as pandas does, lets all be said again. The
start of Python in a run under Spark calls `watch`; nothing happens before the program uses pandas with Spark.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any, Iterator

MODULE = "pyspark.sql.pandas.utils"
CHECK = "require_minimum_pandas_version"


def watch() -> None:
    """Let Spark look at the version of pandas once, as soon as it is loaded."""
    importlib.import_module("regatta_imports").watch({MODULE: once})


@contextlib.contextmanager
def once(module: Any) -> Iterator[None]:
    """Load Spark's module, and keep what it has found of a pandas that is there."""
    yield
    if check := getattr(module, CHECK, None):
        setattr(module, CHECK, functools.cache(check))
