"""Marks a run whose driver has come to Spark's master: the supervisor warns of a missing mark."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
from typing import Any, Iterator

MODULE = "pyspark.core.context"
MARK = ".master"
LOCAL = re.compile(r"local(\[.*\])?$")
"""Masters in the driver itself."""


def watch() -> None:
    """Look at the master as soon as a session has begun."""
    importlib.import_module("regatta_imports").watch({MODULE: marked})


@contextlib.contextmanager
def marked(module: Any) -> Iterator[None]:
    """Load Spark's module, and mark the run once a context has a master outside of the driver."""
    yield
    begin = module.SparkContext._do_init

    @functools.wraps(begin)
    def begun(self: Any, *args: Any, **more: Any) -> None:
        begin(self, *args, **more)
        if not LOCAL.match(str(self.master)):
            with contextlib.suppress(OSError, KeyError), open(os.path.join(os.environ["REGATTA_SCRATCH"], MARK), "w"):
                pass

    module.SparkContext._do_init = begun
