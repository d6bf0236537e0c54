"""The frameworks that run the parts of a workload: each is a module of `frameworks/`, found by its name."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, cast

from workloads.common.events import BadInput
from workloads.common.part import Group, MakePart

AUTO = "auto"
VARIABLE = "REGATTA_FRAMEWORK"

_FOLDER = Path(__file__).with_name("frameworks")


class Framework(Protocol):
    """What a module of `frameworks/` has. To load it must not need the framework: only its functions import that."""

    def answers(
        self, make: MakePart, *, grouped: Group | None, restarts: int
    ) -> AbstractContextManager[Sequence[Any] | None]:
        """Run the parts on all ranks; gives their answers by rank on rank 0 or the driver, and None elsewhere.

        `make` builds a rank's part from its :class:`Ranks`; where a part runs in another process it is pickled.
        `grouped`: the parts talk to each other through torch's process group while they load and compute. `restarts`:
        how often all parts may start again when a rank is lost; frameworks whose launcher does that leave it alone.

        Writes `ready`, and for each rank what :func:`part.steps` does, and the phase `collect`; `rendezvous`, where
        ranks meet (docs/architecture.md, "Events"). What is done with the answers does not wait for the ranks to part.
        Raises :class:`events.BadInput` as the parts do. When a rank fails, this process ends with a status but 0 and 2.
        """

    def leave(self) -> None:
        """All is done and said, and this process is about to end: may end it at once."""


def names() -> tuple[str, ...]:
    """The frameworks that there are, sorted. A `_` in the name of a module is a `-` in that of its framework."""
    found = (module.name for module in pkgutil.iter_modules([str(_FOLDER)]))
    return tuple(sorted(name.replace("_", "-") for name in found if not name.startswith("_")))


def load(name: str) -> Framework:
    """The framework of this name. Raises :class:`BadInput`, with the names that there are."""
    if name not in names():
        raise BadInput(f"no framework {name!r}: there are {', '.join(names())}")
    return cast(Framework, importlib.import_module(f"workloads.common.frameworks.{name.replace('-', '_')}"))


def of_environment() -> str:
    """What ``REGATTA_FRAMEWORK`` names, else ``torch`` where a launcher of ranks has set ``WORLD_SIZE``, or ``single``.

    Raises :class:`BadInput` where the variable names none.
    """
    name = os.environ.get(VARIABLE)
    if name and name not in names():
        raise BadInput(f"{VARIABLE}={name}: no such framework, there are {', '.join(names())}")
    return name or ("torch" if os.environ.get("WORLD_SIZE") else "single")
