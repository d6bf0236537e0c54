"""The folders of runs on a node: what was started (`spec.json`), what it printed (`log`), its end (`exit.json`).

A cluster's `runs/` is root's, and each folder in it belongs to the account of the run, which may put anything there.
All of it is therefore read and written as that account (`rights.of_run`), and believed as far as it fits the types of
`regatta_protocol.run`: whatever it holds, it tells only of that run, and breaks nothing for the others.
Whether a run is still here is not asked of its files: its unit and its note (`notes`) tell.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any, Collection, Dict, List, Optional

from regatta.node import notes, rights, runlog
from regatta_protocol import decoding
from regatta_protocol.run import Ended, Failure, Kept, PlanKept
from regatta_protocol.states import ENDS, Mode, State

if TYPE_CHECKING:
    from regatta_protocol.place import Place


MOST_BYTES = 8 << 20
SHARE_BYTES = 256 << 10
"""Bytes that one run may add to what is read of all runs: a larger `spec.json` is passed over there."""
EXIT_BYTES = 1 << 20
MOST_DEEP = 24
STARTED = "/run/systemd/units/invocation:"
"""With a unit's name behind it: there while the unit is not stopped. systemd's own, so no one else makes one."""
_RUN = re.compile(r"[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?\Z")


def base(place: Place) -> str:
    """The folder that holds all runs of this node."""
    return os.path.join(place["state"], "runs")


def path(place: Place, run: str, *parts: str) -> str:
    """A path inside a run's folder."""
    return os.path.join(rights.path(place, run), *parts)


def home(place: Place, user: str | None = None) -> str:
    """`$HOME` of an account of runs, or of the shared one: what its programs keep between runs."""
    if user is None or user == place.get("user"):
        return os.path.join(place["state"], "home")
    return os.path.join(place["state"], "homes", user)


def there(place: Place, run: str) -> bool:
    """Whether this node has a folder of that run."""
    try:
        return bool(_RUN.match(run)) and stat.S_ISDIR(os.lstat(path(place, run)).st_mode)
    except OSError:
        return False


def names(place: Place) -> list[str]:
    """Ids of all runs that this node knows."""
    try:
        return sorted(name for name in os.listdir(base(place)) if there(place, name))
    except FileNotFoundError:
        return []


def load(file: str, most: int = MOST_BYTES) -> Any:
    """The JSON object in a plain file of at most `most` bytes; None where there is none (yet)."""
    try:
        with runlog.opened(file) as handle:
            text = handle.read(most + 1)
        value = json.loads(text.decode()) if len(text) <= most else None
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and _shallow(value) else None


def _shallow(value: Any) -> bool:
    """Whether a value of JSON is nested no deeper than ours are, so that it can be written and read anywhere."""
    level = [value]
    for _ in range(MOST_DEEP):
        level = [item for one in level if isinstance(one, (dict, list)) for item in _inside(one)]
        if not level:
            return True
    return False


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def spec(place: Place, run: str, most: int = MOST_BYTES) -> Kept | None:
    """Return what was started, as far as it is believed; None where that cannot be read (yet)."""
    found = load(path(place, run, "spec.json"), most)
    return decoding.believe(Kept, found) if found else None


def noted(place: Place, run: str) -> Kept | None:
    """Return what was started, by the node's own note; of a run without one by its `spec.json`, None where that is no
    help.
    """
    note = notes.read(place, run)
    return decoding.believe(Kept, note) if note else _shared_spec(place, run)


@rights.of_run(gives=Optional[Kept])  # noqa: UP045 (Python 3.9 makes it)
def _shared_spec(place: Place, run: str) -> Kept | None:
    return spec(place, run, SHARE_BYTES)


def ended(place: Place, run: str) -> Ended | None:
    """Return how the run has ended here, as far as that is believed; None where it has not reported its end.

    It has succeeded only where its unit has, too.
    """
    found = load(path(place, run, "exit.json"), EXIT_BYTES)
    if not found:
        return None
    said, how = decoding.believe(Ended, found), notes.failure(place, run)
    if said.state not in ENDS:
        said = said.changed(state=State.FAILED)
    if said.state is not State.SUCCEEDED or not how:
        return said
    if how == notes.STOPPED:
        return said.changed(state=State.STOPPED, code=143, failure=None)
    failure = Failure(cause=f"it says that it succeeded, and its unit failed ({how})")
    return said.changed(state=State.FAILED, code=said.code or 1, failure=failure)


def store(file: str, value: Any, mode: int = 0o644) -> None:
    """Write a JSON file whole or not at all."""
    new = f"{file}.{os.getpid()}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "w") as handle:
        json.dump(value, handle)
    os.rename(new, file)


def clear_halves(folder: str) -> None:
    """Remove what `store` has left half written where it was killed: its controller went away, or the host did."""
    for name in os.listdir(folder):
        half = re.fullmatch(r".+\.json\.(\d+)\.new", name)
        if half and not os.path.exists(f"/proc/{half[1]}"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))


def unit(run: str) -> str:
    """Name of the systemd unit of a run."""
    return f"regatta-run-{run}.service"


def unit_started(run: str) -> bool:
    """Whether systemd has the run's unit and it is not stopped."""
    return os.path.lexists(f"{STARTED}{unit(run)}")


def here(place: Place, run: str) -> bool | None:
    """Whether a run is on this node, by what is not the run's: its unit, its note. None: only its own files tell.

    Those who may not read notes know only of units.
    """
    if unit_started(run):
        return True
    if place.get("user") and notes.ended(place, run) is not None:  # most are, and nothing has to be opened for it
        return False
    if notes.is_starting(place, run):
        return True
    mode = (notes.read(place, run) or {}).get("mode")
    if mode == Mode.MEMBER:
        return notes.ended(place, run) is None
    return False if mode == Mode.UNIT else None


def active(place: Place, run: str) -> bool:
    """Whether the run's processes are there: its unit (root), its supervisor (plain user); a Ray or Spark run's folder
    on a node without its driver until the run is finished there.
    """
    if (known := here(place, run)) is not None:
        return known
    if supervisor_pid(place, run) is not None:
        return True
    if not _is_there(place, run, "pid.json") and (spec(place, run) or Kept()).mode is Mode.MEMBER:
        return there(place, run) and not _is_there(place, run, "exit.json")
    return False


def _is_there(place: Place, run: str, name: str) -> bool:
    return os.path.lexists(path(place, run, name))


def supervisor_pid(place: Place, run: str) -> int | None:
    """Process id of a run's supervisor while it lives; None otherwise (a reused id is not mistaken for it)."""
    pid: int | None = decoding.fitting(int, (load(path(place, run, "pid.json")) or {}).get("pid"), None)
    if pid is None or pid < 2:
        return None
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        if path(place, run).encode() in file.read().split(b"\0"):
            return pid
    return None


def state(place: Place, run: str) -> State:
    """`running`, or the state in which the run ended; `lost` where it vanished without a word (host went down).

    A run whose unit is there is running, whatever its files say.
    """
    known = here(place, run)
    return State.RUNNING if known else _own_state(place, run, known)


@rights.of_run(gives=State)
def _own_state(place: Place, run: str, known: bool | None) -> State:
    return own_state(place, run, known)


def own_state(place: Place, run: str, known: bool | None) -> State:
    """`state`, as the account of runs; `known` is what `here` says."""
    if known or (known is None and active(place, run)):
        return State.RUNNING
    said = ended(place, run)
    return said.state if said else State.LOST


def unfinished(place: Place) -> Dict[str, List[Any]]:
    """{runs: ids of those that have not ended on this node, or vanished without a word, ports: theirs, going: ids of
    those of them that live, releases: theirs, layers: theirs, gpus: UUIDs of theirs}.
    """
    known = {run: here(place, run) for run in names(place)}
    unsure = [run for run in known if not known[run]]
    untold = {run for run in unsure if known[run] is None}
    own = rights.each(place, unsure, lambda runs: _own(place, runs, untold), lambda runs: {"runs": runs, "going": []})
    silent, live = ({run for one in own for run in one[which]} for which in ("runs", "going"))
    going = [run for run in known if known[run] or (known[run] is None and run in live)]
    runs = [run for run in known if run in going or run in silent]
    specs = {run: noted(place, run) or Kept() for run in runs}
    return {
        "runs": runs,
        "going": going,
        "ports": sorted({port for one in specs.values() for port in _ports(one.plan or PlanKept())}),
        "releases": sorted({specs[run].release for run in going if specs[run].release}),
        "layers": sorted({layer for run in going if (layer := specs[run].layer)}),
        "gpus": sorted({uuid for run in going for uuid in specs[run].gpus}),
    }


def _ports(plan: PlanKept) -> List[int]:
    return [port for port in (*plan.ports, plan.master_port) if port]


@rights.of_run()
def _own(place: Place, runs: List[str], untold: Collection[str]) -> Dict[str, List[str]]:
    """Of these runs, by their own files: those that have not said how they ended, and the `untold` ones that live.

    On this machine alone, where runs are the person's own, only those that have not said it are looked at again.
    """
    silent = [run for run in runs if not _is_there(place, run, "exit.json")]
    looked_at = untold if place.get("user") else {*silent} & {*untold}
    return {"runs": silent, "going": [run for run in runs if run in looked_at and active(place, run)]}
