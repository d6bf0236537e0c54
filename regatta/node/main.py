"""Answers a request of the controller on a node: one JSON object in, JSON lines out, at last {"done"} or {"error"}."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from typing import Any, Callable

from regatta.node import (
    caches,
    environments,
    facts,
    files,
    hdfs,
    hdfsrepair,
    monitoring,
    relay,
    releases,
    rundirs,
    runs,
    sample,
    support,
    turns,
)

_LOCK = threading.Lock()


def emit(value: Any) -> None:
    """Write one line to the controller; a controller that has gone away ends this process, never a run."""
    with _LOCK:
        try:
            sys.stdout.write(runs.dumps(value) + "\n")
            sys.stdout.flush()
        except (BrokenPipeError, OSError):
            os._exit(1)


def hello(
    place: dict[str, Any],
    release: str | None = None,
    hint: str | None = None,
    data: list[dict[str, Any]] | None = None,
    facts_wanted: bool = True,
    ports: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Everything a launch asks of a node in one round trip: facts, release, data files, a free port."""
    answer: dict[str, Any] = {}
    if facts_wanted:
        answer["facts"] = facts.facts(place)
    if release:
        answer["release"] = releases.check(place, release)
        if answer["release"]["state"] == "missing":
            answer["begun"] = releases.begin(place, release, hint)
    if data:
        answer["data"] = {item["sha256"]: files.have(place, **item) for item in data}
    if ports:
        answer["port"] = runs.free_port(place, *ports)
        answer["unfinished"] = rundirs.unfinished(place)
    return answer


def services(place: dict[str, Any], action: str, units: list[str]) -> dict[str, Any]:
    """`systemctl ACTION` for units that exist here, then their states."""
    known = [unit for unit in units if _shown(unit, "LoadState") != "not-found"]
    message = ""
    if action != "status" and known:
        done = subprocess.run(["systemctl", action, *known], capture_output=True, text=True, check=False)
        message = done.stderr.strip()
        if action == "stop":
            subprocess.run(["systemctl", "reset-failed", *known], capture_output=True, check=False)
    states = {
        unit: {"state": _shown(unit, "ActiveState"), "since": _shown(unit, "ActiveEnterTimestamp")} for unit in known
    }
    return {"units": states, "message": message}


def _shown(unit: str, name: str) -> str:
    done = subprocess.run(
        ["systemctl", "show", "-p", name, "--value", unit], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def read_secret(place: dict[str, Any], name: str) -> dict[str, str]:
    """A secret of the cluster, for the controller that has none: only who may become root here gets it."""
    with open(os.path.join("/etc/regatta", os.path.basename(name))) as file:
        return {"value": file.read().strip()}


OPERATIONS: dict[str, Callable[..., Any]] = {
    "hello": hello,
    "release.begin": releases.begin,
    "release.commit": releases.commit,
    "release.entries": releases.entries,
    "release.fetch": relay.fetch_release,
    "release.abandon": lambda place, incoming: releases.abandon(incoming),
    "data.begin": files.begin,
    "data.commit": files.commit,
    "data.fetch": relay.fetch_data,
    "relay.offer": relay.offer,
    "relay.take": relay.take,
    "relay.fetch": relay.fetch,
    "relay.drop": relay.drop,
    "run.start": runs.start,
    "run.mark": runs.mark_stopped,
    "run.stop": runs.stop,
    "run.finish": runs.finish,
    "run.list": lambda place: {"runs": runs.listing(place)},
    "services": services,
    "hdfs.state": hdfs.state,
    "hdfs.decommission": lambda place, **args: hdfs.decommission(place, emit, **args),
    "hdfs.forget": hdfs.forget,
    "hdfs.read_own": lambda place, **args: hdfsrepair.read_own(place, emit, **args),
    "hdfs.damaged": hdfsrepair.damaged,
    "hdfs.put_aside": hdfsrepair.put_aside,
    "hdfs.report": hdfsrepair.report,
    "env.look": environments.look,
    "env.switch": environments.switch,
    "sample": lambda place, **args: sample.follow(place, emit, **args),
    "secret": read_secret,
    "monitoring.state": monitoring.state,
    "caches.cool": caches.cool,
    "support": lambda place: support.collect(place, runs.listing(place)),
    "turn.take": lambda place, **args: turns.take(place, emit, **args),
}


def main(request: dict[str, Any]) -> None:
    """Serve one request: {"op", "place", "args"}."""
    _leave_when_alone()
    place, args = request["place"], request["args"]
    os.umask(0o022)
    try:
        if request["op"] == "run.watch":
            runs.watch(place, emit=emit, **args)
            answer = None
        else:
            answer = OPERATIONS[request["op"]](place, **args)
        emit({"done": answer})
    except (runs.RunProblem, releases.ReleaseError, relay.RelayError) as error:
        emit({"error": str(error)})
    except OSError as error:
        said = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            said = f"No space left on device: free some room there (df -h {place['state']} {place['root']})"
        emit({"error": said})
    except Exception as error:  # the controller names the node and shows the reason
        emit({"error": f"{type(error).__name__}: {error}", "internal": True})


def _leave_when_alone() -> None:
    """End this process when the connection closes (standard input ends)."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
