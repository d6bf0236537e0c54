"""Where each process of a run stands on this node: its calls, what it waits for, whether it works. Nothing is stopped.

It works as the account of runs, which may look into the run's processes: root's request does (`why`), and the run's
supervisor where ranks have waited too long for each other.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

if __package__:
    from regatta.node import calls, cgroup, waiting
else:  # next to the supervisor, in the run's folder
    import calls  # type: ignore[import-not-found, no-redef, unused-ignore]
    import cgroup  # type: ignore[import-not-found, no-redef, unused-ignore]
    import waiting  # type: ignore[import-not-found, no-redef, unused-ignore]

from regatta_protocol.standing import Standing, Stood, Waiting

LEAST_SECONDS = 0.25
"""The use of a process is measured over at least this time."""
MOST_PROCESSES, MOST_TEXT, MOST_BYTES = 24, 200, 1 << 20
MOST_RANK = 1 << 31
IDLE = "::IDLE"
"""The title of a process that waits for work ends with this."""
RANK = re.compile(rb"RANK=\d{1,9}")


class Seen(NamedTuple):
    """A process as the kernel tells of it; `marked`: the run's id is in its environment, `rank`: the one in it."""

    pid: int
    parent: int
    state: str
    ticks: int
    faults: int
    program: str
    python: bool
    marked: bool
    rank: int | None


def look(run: str, folder: str, program: str, seconds: float = calls.SECONDS) -> Stood:
    """Return where a run's processes stand; `folder`: the run's own, `program`: py-spy's path."""
    began, before = time.monotonic(), of_run(run, folder)
    ranks = _ranks(before, folder)
    chosen = _chosen(before, ranks)
    held = _throttled(chosen)
    python = [pid for pid in chosen if before[pid].python]
    found = calls.of_processes(program, python, os.path.join(folder, "work"), seconds)
    time.sleep(max(0.0, LEAST_SECONDS - (time.monotonic() - began)))
    took = time.monotonic() - began
    processes = [_standing(before[pid], ranks.get(pid, (None, False)), found.get(pid, ""), took) for pid in chosen]
    limits = {
        **_memory(chosen),
        **({"throttled": min(1.0, (_throttled(chosen) - held) / took)} if held is not None else {}),
    }
    return Stood(tuple(one for one in processes if one), limits=limits, more=len(before) - len(chosen))


def brief(stood: Stood) -> Stood:
    """Only the ranks of it, and of each its main thread: what is kept of a run that has ended."""
    ranks = [one.changed(threads=one.threads[:1]) for one in stood.processes if one.main]
    return Stood(tuple(ranks))


def of_run(run: str, folder: str) -> Dict[int, Seen]:
    """The processes of a run that this account may look into, but for its supervisor, by their ids."""
    found: Dict[int, Seen] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if os.stat(f"/proc/{name}").st_uid == os.geteuid():
                found[int(name)] = _seen(int(name), f"REGATTA_RUN_ID={run}".encode(), folder)
    watching = os.path.join(folder, "supervisor.py")
    own = {pid for pid, one in found.items() if one.marked and watching not in one.program}
    while more := {pid for pid, one in found.items() if one.parent in own} - own:
        own |= more
    return {pid: found[pid] for pid in sorted(own - {os.getpid()}) if not found[pid].program.endswith(IDLE)}


def _seen(pid: int, mark: bytes, folder: str) -> Seen:
    state, parent, ticks, faults = _stat(pid)
    program = _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
    if state == "Z":
        return Seen(pid, parent, state, ticks, faults, _comm(pid), False, False, None)
    words = _read(f"/proc/{pid}/environ").split(b"\0")
    at = os.readlink(f"/proc/{pid}/cwd")
    marked = mark in words or at == folder or at.startswith(folder + os.sep)
    python = os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python")
    ranks = [int(word[len(b"RANK=") :]) for word in words if RANK.fullmatch(word)]
    return Seen(pid, parent, state, ticks, faults, program[:MOST_TEXT], python, marked, ranks[0] if ranks else None)


def _stat(pid: int) -> Tuple[str, int, int, int]:
    """State, parent, ticks of CPU, and pages that were read from a disk."""
    fields = _read(f"/proc/{pid}/stat").decode("utf-8", "replace").rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[9])


def _comm(pid: int) -> str:
    return _read(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(1 << 18)


def _ranks(seen: Dict[int, Seen], folder: str) -> Dict[int, Tuple[int | None, bool]]:
    """By process its rank, or that of the rank that has started it, and whether it is the rank itself.

    A rank of which a launcher's process has started the ranks has them as its own.
    """
    told = {pid: rank for pid, rank in _started(folder).items() if pid in seen}
    mains = {pid: one.rank for pid, one in seen.items() if one.rank is not None and _begins(one, seen)}
    leading = {above for pid in mains for above in _above(pid, seen)}
    mains.update({pid: rank for pid, rank in told.items() if pid not in leading and pid not in mains})
    found: Dict[int, Tuple[int | None, bool]] = {}
    for pid in seen:
        nearest = next((one for one in (pid, *_above(pid, seen)) if one in mains), None)
        found[pid] = (mains[nearest] if nearest is not None else None, nearest == pid)
    return found


def _begins(one: Seen, seen: Dict[int, Seen]) -> bool:
    parent = seen.get(one.parent)
    return parent is None or parent.rank is None


def _above(pid: int, seen: Dict[int, Seen]) -> List[int]:
    above: List[int] = []
    while (pid := seen[pid].parent) in seen and pid not in above:
        above.append(pid)
    return above


def _started(folder: str) -> Dict[int, int]:
    """The processes that the supervisor says it has started, with their ranks."""
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError, RecursionError):
        with open(os.open(os.path.join(folder, "pid.json"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            told: Dict[str, Any] = json.loads(file.read(MOST_BYTES))["ranks"]
        return {int(pid): int(rank) for rank, pid in told.items() if -1 <= int(rank) < MOST_RANK}
    return {}


def _chosen(seen: Dict[int, Seen], ranks: Dict[int, Tuple[int | None, bool]]) -> List[int]:
    """The processes that the answer names: ranks and drivers first, and so many in all."""
    first = sorted(seen, key=lambda pid: (not ranks[pid][1], not seen[pid].python, pid))
    return first[:MOST_PROCESSES]


def _standing(one: Seen, rank: Tuple[int | None, bool], found: Any, took: float) -> Standing | None:
    """The present state of a process; None where it has ended meanwhile."""
    try:
        state, parent, ticks, faults = _stat(one.pid)
    except (OSError, ValueError, IndexError):
        return None
    told, tcp = Standing(one.pid, parent, *rank, one.program, state), waiting.sockets(one.pid)
    cpu = round((ticks - one.ticks) / os.sysconf("SC_CLK_TCK") / took, 2)
    waits = waiting.of_thread(one.pid, state, tcp) if state != "Z" else Waiting()
    threads, unseen = (found, "") if isinstance(found, tuple) else ((), str(found))
    return told.changed(
        cpu=cpu,
        faults=round((faults - one.faults) / took, 1),
        waiting=waits,
        threads=threads,
        unseen=unseen,
        links=tuple(waiting.links(one.pid, tcp)),
    )


def _folders(pids: Iterable[int]) -> List[str]:
    return sorted({folder for pid in pids for folder in cgroup.folders(pid)})


def _throttled(pids: Iterable[int]) -> float:
    """Return seconds in which the kernel has kept these processes' unit, or the whole host, from its CPUs."""
    most = 0.0
    for folder in {folder for pid in pids for folder in (*cgroup.folders(pid), *cgroup.cpu_folders(pid))}:
        for key, part in (("throttled_usec", 1e6), ("throttled_time", 1e9)):
            found: Dict[str, int] = {}
            cgroup.take(found, key, f"{folder}/cpu.stat", key)
            most = max(most, found.get(key, 0) / part)
    return most


def _memory(pids: Iterable[int]) -> Dict[str, float]:
    """The part of its limit of memory that the unit of these processes uses."""
    for folder in _folders(pids):
        for used, most in (("memory.current", "memory.max"), ("memory.usage_in_bytes", "memory.limit_in_bytes")):
            found: Dict[str, int] = {}
            cgroup.take(found, "used", f"{folder}/{used}")
            cgroup.take(found, "most", f"{folder}/{most}")
            if found.get("used") and 0 < found.get("most", 0) < 1 << 62:
                return {"memory": round(found["used"] / found["most"], 3)}
    return {}
