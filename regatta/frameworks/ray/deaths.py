"""Which process of a Ray run failed, where and how: from what the driver's workload says, its last lines, Ray's state.

Ray tells the driver, and only the driver fails: what it prints names the process that did, by id and address. Ray does
not know what ended a process that was gone all at once.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regatta.text import clean

_SIGNAL = re.compile(r"\bpid=(\d+)\b.*\*\*\* (SIG[A-Z]+) received")
_TASK = re.compile(r"ray::(\S+?)\(\) \(pid=(\d+), ip=([\d.]+)")
_FIELD = re.compile(r"^\s*(class_name|pid|ip): (\S+)", re.M)
_RAISED = re.compile(r"^\s*((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b.*)$", re.M)
_CODE = re.compile(r"[Ee]xits? with an? exit code (\d+)")
_DEAD = (
    "worker process has died",
    "worker died unexpectedly",
    "worker unexpectedly exits",
    "The actor died unexpectedly",
)
_NODE = ("its node has died", "node was terminated", "node failure", "actor's node")
_MEMORY = ("running low on memory", "OutOfMemoryError", "OUT_OF_MEMORY")
_PASSED_ON = re.compile(r"\([^()]*\bpid=\d+.*?\) |\(raylet\b")
_TRACEBACK = "Traceback (most recent call last)"
_LONGEST, _END = 300, 20
GONE = "killed by SIGKILL, or it called os._exit"
"""A process that was gone all at once: Ray cannot tell these from each other."""


@dataclass(frozen=True)
class Death:
    """A process that failed: its host's address and its id as far as they are known, what it ran, and how it ended."""

    cause: str
    address: str | None = None
    pid: int | None = None
    what: str | None = None


def signal_in(line: str) -> tuple[int, str] | None:
    """(process, signal) of a line in which Ray tells that a worker got a signal it could still speak of."""
    found = _SIGNAL.search(line)
    return (int(found[1]), found[2]) if found else None


def in_words(text: str, signals: Mapping[int, str]) -> Death | None:
    """Return what Ray's words about a failed actor or task say; None where they are about no such thing."""
    fields = dict(_FIELD.findall(text))
    what, address = fields.get("class_name"), fields.get("ip")
    pid = int(fields["pid"]) if fields.get("pid", "").isdigit() else None
    task = _TASK.search(text)
    if task:
        what, pid, address = task[1].partition(".")[0], int(task[2]), task[3]
    cause = _how(text, pid, signals)
    if cause is None and task:
        raised = [line for line in _RAISED.findall(text[task.end() :]) if not line.startswith("ray.exceptions.")]
        cause = f"raised {clean(raised[-1])[:_LONGEST]}" if raised else "failed"
    return Death(cause, address, pid, what) if cause else None


def in_state(
    actors: Iterable[Mapping[str, Any]],
    tasks: Iterable[Mapping[str, Any]],
    addresses: Mapping[str, str],
    signals: Mapping[int, str],
) -> Death | None:
    """The first process of a job that Ray lists as dead by itself; `addresses`: of Ray's nodes by their ids."""
    found: list[tuple[float, Death]] = []
    for actor in actors:
        context = next(iter((actor.get("death_cause") or {}).values()), None)
        context = context if isinstance(context, Mapping) else {}
        words = str(context.get("error_message", ""))
        pid = int(actor.get("pid") or 0) or None
        if actor.get("state") == "DEAD" and (cause := _how(words, pid, signals)):
            at = addresses.get(str(actor.get("node_id"))) or context.get("node_ip_address")
            found.append((float(actor.get("end_time") or 0), Death(cause, at, pid, actor.get("class_name"))))
    for task in tasks:
        pid = int(task.get("worker_pid") or 0) or None
        words = f"{task.get('error_type')} {task.get('error_message')}"
        cause = GONE if task.get("error_type") == "WORKER_DIED" else None
        if cause := _how(words, pid, signals) or cause:
            at = addresses.get(str(task.get("node_id")))
            found.append((float(task.get("end_time_ms") or 0), Death(cause, at, pid, task.get("func_or_class_name"))))
    return min(found, key=lambda item: item[0])[1] if found else None


def last_error(lines: Sequence[str]) -> list[str]:
    """The last traceback of a driver's own in what it printed, without what Ray passes on of workers; else the end."""
    own = [clean(line) for line in lines]
    own = [line for line in own if not _PASSED_ON.match(line)]
    starts = [place for place, line in enumerate(own) if line.startswith(_TRACEBACK)]
    return own[starts[-1] :] if starts else own[-_END:]


def speaks_of_ray(lines: Sequence[str]) -> bool:
    """Whether the last lines of a driver are about an error in Ray: only then a death there is why it failed."""
    return any("ray.exceptions." in line or "RayTaskError" in line for line in lines)


def _how(text: str, pid: int | None, signals: Mapping[int, str]) -> str | None:
    if any(words in text for words in _MEMORY):
        return "killed by Ray, as its host was short of memory"
    if any(words in text for words in _NODE):
        return "its node died"
    if (code := _CODE.search(text)) and code[1] != "0":
        return f"exited with code {code[1]}"
    if any(words.lower() in text.lower() for words in _DEAD):
        return f"killed by {signals[pid]}" if pid is not None and pid in signals else GONE
    return None
