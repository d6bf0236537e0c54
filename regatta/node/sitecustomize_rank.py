"""Becomes `sitecustomize` of a run's ranks: whole lines, torch that comes and goes sooner, no endless waiting.

Ranks that torchrun starts share one pipe, and an unbuffered `print` writes its text and its newline one after the
other, so that two ranks' lines get mixed. Here each line is written at once, and as soon as it is complete.

torch makes a quarter of a million objects that stay. Looking for garbage among them costs 0.15 s of CPU while it is
imported and 0.35 s when Python ends, in every rank; numba's cost 0.1 s.
A program without a main guard ends, see `spawn_guard`.
torch waits 30 minutes for a peer whose link is cut; a script that says nothing gets REGATTA_PG_TIMEOUT seconds.
A script that sets another meeting place than the given one is warned of, see `meeting`.
Libraries of ranks share the work, see `regatta.frameworks.torch.run.torchranks`.
All this happens when the script imports these, which are not imported for it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import sys
from typing import Any, Iterator


@contextlib.contextmanager
def without_garbage(_: Any) -> Iterator[None]:
    """Collect nothing while a module is loaded, and never look at what it made."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was:
            gc.enable()


@contextlib.contextmanager
def limited_waiting(module: Any) -> Iterator[None]:
    """Set the default timeout of process groups made later, and watch where they are to meet."""
    yield
    from datetime import timedelta

    with contextlib.suppress(ImportError, AttributeError):
        meeting = importlib.import_module("regatta_meeting")
        module.init_process_group = meeting.watched(module.init_process_group, GIVEN)
    with contextlib.suppress(KeyError, ValueError):
        module.default_pg_timeout = timedelta(seconds=float(os.environ["REGATTA_PG_TIMEOUT"]))


GIVEN = dict(os.environ)
for stream in (sys.stdout, sys.stderr):
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(line_buffering=True, write_through=False)
with contextlib.suppress(ImportError):
    importlib.import_module("regatta_spawn_guard").watch(sys.orig_argv)
with contextlib.suppress(ImportError):
    importlib.import_module("regatta_torchranks").watch()
if os.environ.get("REGATTA_PG_TIMEOUT"):
    around = {"torch": without_garbage, "numba": without_garbage, "torch.distributed.distributed_c10d": limited_waiting}
    importlib.import_module("regatta_imports").watch(around)
