"""The frameworks that run the parts of a workload: each is a module of `frameworks/`, found by its name."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from workloads.common.events import BadInput
from workloads.common.items.work import Doing, Done, Task
from workloads.common.part import Group, MakePart
from workloads.common.search.asked import Search
from workloads.common.search.memory import Memory
from workloads.common.search.trial import Outcome

AUTO = "auto"
VARIABLE = "REGATTA_FRAMEWORK"

_FOLDER = Path(__file__).with_name("frameworks")


@dataclass(frozen=True)
class How:
    """What a person asks of the workers: how multiprocessing is to `start` them (fork, spawn, forkserver)."""

    start: str = "fork"


class Leaver(Protocol):
    """A module of `frameworks/`. To load it must not need the framework: only its functions import that.

    It runs the parts of workloads (:class:`Framework`), spreads items (:class:`Spreader`), or does the trials of
    searches (:class:`Searcher`).
    """

    def leave(self) -> None:
        """All is done and said, and this process is about to end: may end it at once."""


class Framework(Leaver, Protocol):
    """The interface of a module of `frameworks/` that runs parts."""

    def answers(
        self, make: MakePart, *, grouped: Group | None, restarts: int
    ) -> AbstractContextManager[Sequence[Any] | None]:
        """Run the parts on all ranks; gives their answers by rank on rank 0 or the driver, and None elsewhere.

        `make` builds a rank's part from its :class:`Ranks`; where a part runs in another process it is pickled.
        `grouped`: the parts talk to each other through torch's process group while they load and compute. `restarts`:
        how often all parts may start again when a rank is lost; frameworks whose launcher does that leave it alone.

        Writes `ready`, and for each rank what :func:`part.steps` does, and the phase `collect`; `rendezvous`, where
        ranks meet (docs/reference/events.md). The use of the answers does not wait for the ranks to part.
        Raises :class:`events.BadInput` as the parts do. When a rank fails, this process ends with a status but 0 and 2.
        """


class Spreader(Leaver, Protocol):
    """The interface of a module of `frameworks/` that spreads items."""

    def spread(self, do: Doing, tasks: Iterator[Task], how: How) -> AbstractContextManager[Iterable[Done] | None]:
        """Have workers do the tasks, ``REGATTA_WORKERS`` at a time; gives what they say, as it comes in.

        Where a launcher has started the workers: None on all ranks but 0, when all tasks are done.

        The context is entered when the workers are ready, and left when they are gone. Tasks are taken one by one, as
        workers come free: there may be millions. Where workers are other processes, this one is the driver, rank -1.
        Writes `rendezvous`, where workers are waited for. Raises :class:`failures.WorkerFailed` for a lost worker.
        """


class Searcher(Leaver, Protocol):
    """The interface of a module of `frameworks/` that chooses the trials of a search itself."""

    def search(self, asked: Search, memory: Memory) -> AbstractContextManager[Callable[[], Sequence[Outcome]]]:
        """Join the framework, as phase `rendezvous`; gives what does the trials, as its driver (rank -1).

        `memory` says which trials are left to do, and receives each that has ended. A trial that fails has its error
        in its outcome, and the others continue. Raises :class:`BadInput` where it cannot search so.
        """


def names() -> tuple[str, ...]:
    """The frameworks that there are, sorted. A `_` in the name of a module is a `-` in that of its framework."""
    found = (module.name for module in pkgutil.iter_modules([str(_FOLDER)]))
    return tuple(sorted(name.replace("_", "-") for name in found if not name.startswith("_")))


def of_parts(name: str) -> Framework:
    """The framework of this name, for a workload made of parts. Raises :class:`BadInput`."""
    found = load(name)
    if not hasattr(found, "answers"):
        raise BadInput(f"the framework {name} spreads items, and this workload has none: choose another --framework")
    return cast(Framework, found)


def of_items(name: str) -> Spreader:
    """The framework of this name, for a workload of items. Raises :class:`BadInput`."""
    found = load(name)
    if not hasattr(found, "spread"):
        raise BadInput(f"the framework {name} spreads no items, and this workload has them: choose another --framework")
    return cast(Spreader, found)


def load(name: str) -> Leaver:
    """The framework of this name. Raises :class:`BadInput`, with the names that there are."""
    if name not in names():
        raise BadInput(f"no framework {name!r}: there are {', '.join(names())}")
    return cast(Leaver, importlib.import_module(f"workloads.common.frameworks.{name.replace('-', '_')}"))


def of_environment() -> str:
    """Return what ``REGATTA_FRAMEWORK`` names, else ``torch`` where a launcher of ranks has set ``WORLD_SIZE``, or
    ``single``.

    Raises :class:`BadInput` where the variable names none.
    """
    name = os.environ.get(VARIABLE)
    if name and name not in names():
        raise BadInput(f"{VARIABLE}={name}: no such framework, there are {', '.join(names())}")
    return name or ("torch" if os.environ.get("WORLD_SIZE") else "single")
