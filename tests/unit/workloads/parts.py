"""Parts of workloads that go wrong, or tell what they see: ``python parts.py KIND FRAMEWORK``."""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from workloads.common import events, framework
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder


class Odd:
    """Rank 1 does what `kind` says; the others wait for long."""

    def __init__(self, kind: str, ranks: Ranks) -> None:
        self._kind, self._ranks = kind, ranks

    def load(self, folder: HostFolder | None) -> None:
        if self._kind == "refuse":
            raise events.BadInput("this is no input")

    def compute(self) -> None:
        if self._kind == "look":
            return
        if self._ranks.rank == 1 and self._kind == "progress":
            events.progress("steps", 1, 4)
        if self._ranks.rank != 1 or self._kind == "progress":
            time.sleep(600)
        if self._kind == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ZeroDivisionError("oh")

    def answer(self) -> dict[str, Any]:
        unwanted = sorted({"torch", "pandas", "networkx"} & set(sys.modules))
        return {"threads": os.environ.get("OMP_NUM_THREADS"), "modules": unwanted, "ranks": vars(self._ranks)}


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    from parts import Odd as Imported

    try:
        make = functools.partial(Imported, sys.argv[1])
        with framework.load(sys.argv[2]).answers(make, grouped=None, restarts=0) as answers:
            if answers is not None:
                events.result({"parts": list(answers)}, {}, [])
    except events.BadInput as error:
        events.bad_input(error)
