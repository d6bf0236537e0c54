"""Becomes `sitecustomize` of a Ray or Spark run's processes: its workers start in the run's working directory.

Ray starts its workers (those of tasks, actors, Train) wherever its daemons are, and so does Spark. Processes that a
worker starts, and one that was given its own `working_dir` by `runtime_env`, stay where they are. Both tell the
variables of a job to whoever asks: hidden ones come from the run's own folder. A program without a main guard ends, see
`spawn_guard`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys

WORKERS = ("default_worker.py", "pyspark.daemon", "pyspark.worker")
HIDDEN = "hidden.json"
BELOW = "below.txt"
"""Has the folder of the tree in which the program begins."""
PACKAGES = "/runtime_resources/working_dir_files/"


def enter(argv: list[str], folder: str) -> None:
    """Go to where the program begins, in `work` next to the folder that this file is in, in a worker of Ray or Spark.

    `argv` tells whether it is one.
    """
    with contextlib.suppress(OSError):
        if any(os.path.basename(word) in WORKERS for word in argv) and PACKAGES not in os.getcwd() + "/":
            os.chdir(os.path.join(os.path.dirname(folder), "work", _below(folder)))


def _below(folder: str) -> str:
    with contextlib.suppress(OSError), open(os.path.join(folder, BELOW)) as file:
        return file.read()
    return ""


def take_hidden(folder: str) -> None:
    """Take the variables in the file next to the folder that this file is in."""
    with contextlib.suppress(OSError), open(os.path.join(os.path.dirname(folder), HIDDEN)) as file:
        os.environ.update(json.load(file))


take_hidden(os.path.dirname(os.path.abspath(__file__)))
enter(sys.orig_argv, os.path.dirname(os.path.abspath(__file__)))
with contextlib.suppress(ImportError):
    importlib.import_module("regatta_spawn_guard").watch(sys.orig_argv)
for name in ("rayspark", "sparkpandas", "sparkmaster", "sparkpaths", "raystorage", "raycluster"):
    with contextlib.suppress(ImportError):
        importlib.import_module(f"regatta_{name}").watch()
