"""Says which paths of a driver are HDFS's, where its script gives no scheme, and brings what was written there.

Where the cluster has HDFS, `df.write.csv("out")` writes to the account's folder there, and not to the run's working
directory. When a script ends, the files that it has written by a relative path are copied there, if they are not large:
the run's outputs are what is in its working directory.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import sys
from typing import Any, Dict, Iterator, Set

READERS = ("load", "json", "parquet", "text", "csv", "orc")
WRITERS = ("save", "json", "parquet", "text", "csv", "orc")
SCHEME = "hdfs"
MOST_BYTES = 256 << 20
_told: Dict[str, str] = {}
_written: Set[str] = set()


def watch() -> None:
    """Look at paths as soon as the program imports what takes them."""
    modules = {"pyspark.sql.readwriter": tables, "pyspark.core.rdd": collections}
    importlib.import_module("regatta_imports").watch(modules)


@contextlib.contextmanager
def tables(module: Any) -> Iterator[None]:
    """Load Spark's module, and look at the paths of data frames."""
    yield
    for kind, names, written in (("DataFrameReader", READERS, False), ("DataFrameWriter", WRITERS, True)):
        for name in names:
            _look(getattr(module, kind), name, written)


@contextlib.contextmanager
def collections(module: Any) -> Iterator[None]:
    """Load Spark's module, and look at the paths that RDDs are saved to."""
    yield
    _look(module.RDD, "saveAsTextFile", True)


def _look(kind: Any, name: str, written: bool) -> None:
    work = getattr(kind, name)

    @functools.wraps(work)
    def looked(self: Any, path: Any = None, *args: Any, **more: Any) -> Any:
        for one in [path] if isinstance(path, str) else path if isinstance(path, list) else []:
            with contextlib.suppress(Exception):
                tell(one, written)
        return work(self, *((path,) if path is not None or args else ()), *args, **more)

    setattr(kind, name, looked)


def tell(path: str, written: bool) -> None:
    """Say once what a relative path means, and remember what is written there."""
    if not path or path.startswith("/") or ":" in path.partition("/")[0]:
        return
    context = importlib.import_module("pyspark").SparkContext._active_spark_context
    settings = context._jsc.hadoopConfiguration()
    place = context._jvm.org.apache.hadoop.fs.Path(path)
    system = place.getFileSystem(settings)
    if system.getScheme() != SCHEME:
        return
    if path not in _told:
        _told[path] = str(system.makeQualified(place).toString())
        say(f"{path} is {_told[path]}: under Spark a path without a scheme is one of HDFS")
    if written and path not in _written:
        _written.add(path)
        atexit.register(bring, path, system, place, context._jvm)


def bring(path: str, system: Any, place: Any, jvm: Any) -> None:
    """Copy what was written into the working directory, where nothing is in its way and it is not large."""
    with contextlib.suppress(Exception):
        size = system.getContentSummary(place).getLength()
        target = os.path.abspath(path)
        if size > MOST_BYTES:
            say(f"{path} has {size / 1e6:.0f} MB in HDFS, and stays there; 'regatta data-get' brings it")
        elif not os.path.lexists(target) and target.startswith(os.getcwd() + os.sep):
            local = jvm.org.apache.hadoop.fs.Path(f"file://{target}")
            system.copyToLocalFile(False, place, local, True)
            say(f"{path} is copied from HDFS into the run's working directory, where ls and fetch find it")


def say(text: str) -> None:
    """Print a line of Regatta's own."""
    sys.stderr.write(f"regatta: {text}\n")
