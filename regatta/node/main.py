"""Answers the controller on a node, one request after the other: one line of JSON in, lines out, at last {"done"} or
{"error"}.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import queue
import sys
import threading
from typing import Any, BinaryIO

from regatta.node import layout
from regatta.node.problem import Problem

OPERATIONS = {
    "inspect": "launch.inspect",
    "release.begin": "releases.begin",
    "release.commit": "releases.commit",
    "release.entries": "releases.entries",
    "release.fetch": "relay.fetch_release",
    "release.abandon": "releases.abandon",
    "layer.base": "layers.base",
    "layer.begin": "layers.begin",
    "layer.build": "compiling.build",
    "layer.commit": "layers.commit",
    "layer.fetch": "layers.fetch",
    "layer.look": "layers.look",
    "data.begin": "files.begin",
    "data.commit": "files.commit",
    "data.fetch": "relay.fetch_data",
    "relay.offer": "relay.offer",
    "relay.take": "relay.take",
    "relay.fetch": "relay.fetch",
    "relay.drop": "relay.drop",
    "run.start": "runs.start",
    "run.watch": "runs.watch",
    "run.stop": "runs.stop",
    "run.finish": "runs.finish",
    "run.contention": "contention.of_run",
    "run.recorded": "runs.mark_recorded",
    "run.account": "runs.account",
    "run.left": "outputs.listing",
    "run.sizes": "outputs.sizes",
    "run.sums": "outputs.sums",
    "run.list": "listing.answer",
    "shared.parts": "shared.parts",
    "shared.remove": "shared.remove",
    "prune": "pruning.prune",
    "services": "services.act",
    "status": "services.status",
    "pages": "services.pages",
    "hdfs.state": "hdfs.state",
    "hdfs.decommission": "hdfs.decommission",
    "hdfs.forget": "hdfs.forget",
    "hdfs.read_own": "hdfsrepair.read_own",
    "hdfs.damaged": "hdfsrepair.damaged",
    "hdfs.put_aside": "hdfsrepair.put_aside",
    "hdfs.report": "hdfsrepair.report",
    "env.look": "environments.look",
    "env.switch": "environments.switch",
    "sample": "sample.follow",
    "secret": "secret.read",
    "secret.held": "secret.held",
    "monitoring.state": "monitoring.state",
    "framework.call": "frameworks.call",
    "caches.cool": "caches.cool",
    "support": "support.collect",
    "lease.hold": "lease.hold",
}
"""The module of each operation; only its module, and what that needs, is loaded."""
TELLING = {"run.watch", "hdfs.decommission", "hdfs.read_own", "sample", "lease.hold"}
"""Operations that get `emit`, to tell of themselves while they work."""
OLDER = {"support", "lease.hold", "secret.held", "relay.drop", "run.list", "run.stop"}
"""Operations that serve a node of an older layout, too: what has to be known or ended before it is provisioned."""

_LOCK = threading.Lock()


def emit(value: Any) -> None:
    """Write one line to the controller; a controller that has gone away ends this process, never a run."""
    with _LOCK:
        try:
            sys.stdout.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")
            sys.stdout.flush()
        except (BrokenPipeError, OSError):
            os._exit(1)


def main(requests: BinaryIO) -> None:
    """Serve requests, {"op", "place", "args"}, until the connection closes, which ends what is being served, too."""
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        for line in requests:
            waiting.put(json.loads(line))
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    while True:
        _serve(waiting.get())


def _serve(request: dict[str, Any]) -> None:
    op, place, args = request["op"], request["place"], request["args"]
    os.umask(0o022)
    try:
        layout.check(place, older=op in OLDER)
        module, _, name = OPERATIONS[op].partition(".")
        work = getattr(importlib.import_module(f"regatta.node.{module}"), name)
        emit({"done": work(place, emit=emit, **args) if op in TELLING else work(place, **args)})
    except Problem as error:
        emit({"error": str(error)})
    except OSError as error:
        said = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            where = f"df -h {place['state']} {place['root']}; 'regatta runs-gc' deletes old runs"
            said = f"No space left on device: free some space there ({where})"
        emit({"error": said})
    except Exception as error:  # the controller names the node and shows the reason
        emit({"error": f"{type(error).__name__}: {error}", "internal": True})
