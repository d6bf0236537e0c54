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

from regatta.node import layout, owner
from regatta.node.problem import Problem
from regatta_protocol.decoding import decode, encode
from regatta_protocol.operations.operation import Telling

OPERATIONS = {
    "inspect": ("launch.Inspect", "launch.inspect"),
    "release.begin": ("releases.BeginRelease", "releases.begin"),
    "release.commit": ("releases.CommitRelease", "releases.commit"),
    "release.entries": ("releases.ReleaseEntries", "releases.entries"),
    "release.fetch": ("releases.FetchRelease", "relay.fetch_release"),
    "release.abandon": ("releases.Abandon", "releases.abandon"),
    "layer.base": ("layers.AskBase", "layers.base"),
    "layer.begin": ("layers.BeginLayer", "layers.begin"),
    "layer.build": ("layers.BuildWheel", "compiling.build"),
    "layer.commit": ("layers.CommitLayer", "layers.commit"),
    "layer.fetch": ("layers.FetchLayer", "layers.fetch"),
    "layer.look": ("layers.LookAtLayers", "layers.look"),
    "debian.install": ("debian.InstallDebian", "debian.install"),
    "data.begin": ("transfers.BeginFile", "files.begin"),
    "data.commit": ("transfers.CommitFile", "files.commit"),
    "data.fetch": ("transfers.FetchFile", "relay.fetch_data"),
    "relay.offer": ("transfers.Offer", "relay.offer"),
    "relay.take": ("transfers.Take", "relay.take"),
    "relay.fetch": ("transfers.Fetch", "relay.fetch"),
    "relay.drop": ("transfers.Drop", "relay.drop"),
    "run.start": ("runs.StartRun", "runs.start"),
    "run.watch": ("runs.WatchRun", "runs.watch"),
    "run.standing": ("runs.AskStanding", "why.of_run"),
    "run.stop": ("runs.StopRun", "runs.stop"),
    "run.finish": ("runs.FinishRun", "runs.finish"),
    "run.contention": ("runs.AskContention", "contention.of_run"),
    "run.recorded": ("runs.MarkRecorded", "runs.mark_recorded"),
    "run.account": ("runs.AskAccount", "runs.account"),
    "run.left": ("outputs.AskLeft", "outputs.listing"),
    "run.sizes": ("outputs.AskSizes", "outputs.sizes"),
    "run.sums": ("outputs.AskSums", "outputs.sums"),
    "run.list": ("runs.ListRuns", "listing.answer"),
    "shared.parts": ("outputs.AskShared", "shared.parts"),
    "shared.remove": ("outputs.RemoveShared", "shared.remove"),
    "prune": ("runs.Prune", "pruning.prune"),
    "services": ("services.Act", "services.act"),
    "status": ("services.AskStatus", "services.status"),
    "pages": ("services.AskPages", "services.pages"),
    "hdfs.state": ("hdfs.AskHdfs", "hdfs.state"),
    "hdfs.decommission": ("hdfs.Decommission", "hdfs.decommission"),
    "hdfs.forget": ("hdfs.Forget", "hdfs.forget"),
    "hdfs.read_own": ("hdfs.ReadOwn", "hdfsrepair.read_own"),
    "hdfs.damaged": ("hdfs.AskDamaged", "hdfsrepair.damaged"),
    "hdfs.put_aside": ("hdfs.PutAside", "hdfsrepair.put_aside"),
    "hdfs.report": ("hdfs.ReportBlocks", "hdfsrepair.report"),
    "env.look": ("layers.LookAtEnvironments", "environments.look"),
    "env.switch": ("layers.SwitchEnvironment", "environments.switch"),
    "sample": ("hosts.Sample", "sample.follow"),
    "secret": ("hosts.AskSecret", "secret.read"),
    "cluster.member": ("hosts.AskMember", "definition.member"),
    "cluster.keep": ("hosts.KeepDefinition", "definition.keep"),
    "monitoring.state": ("services.AskMonitoring", "monitoring.state"),
    "framework.call": ("services.CallFramework", "frameworks.call"),
    "caches.cool": ("hosts.CoolCaches", "caches.cool"),
    "probe.part": ("probe.Probe", "probe.part"),
    "probe.receive": ("probe.Receive", "probe.receive"),
    "probe.send": ("probe.Send", "probe.send"),
    "support": ("hosts.AskSupport", "support.collect"),
    "lease.hold": ("hosts.HoldLease", "lease.hold"),
    "queue.hold": ("queue.HoldNodes", "queue.hold"),
    "queue.submit": ("queue.SubmitRun", "queue.submit"),
    "queue.list": ("queue.AskQueue", "queue.listing"),
    "queue.withdraw": ("queue.Withdraw", "queue.withdraw"),
}
"""Modules that declare each, below `regatta_protocol.operations`, and do it; only its own, and their needs, load."""
OLDER = {"support", "lease.hold", "cluster.member", "relay.drop", "run.list", "run.stop"}
"""Operations that serve a node of an older layout, too: what has to be known or ended before it is provisioned."""
BARE = {
    "support",
    "lease.hold",
    "cluster.member",
    "status",
    "sample",
    "relay.offer",
    "relay.take",
    "relay.fetch",
    "relay.drop",
}
"""Operations that serve a host that is not provisioned, too: what provisioning itself needs, and who looks at it."""

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
    if place.get("user"):
        place["by"] = owner.of_request()
    try:
        layout.check(place, older=op in OLDER, bare=op in BARE)
        emit({"done": encode(_done(place, args, *OPERATIONS[op]))})
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


def _done(place: dict[str, Any], args: dict[str, Any], declared: str, done: str) -> Any:
    """The answer of an operation."""
    kind = _found("regatta_protocol.operations", declared)
    asked, telling = vars(decode(kind, args)), issubclass(kind, Telling)
    work = _found("regatta.node", done)
    return work(place, emit=lambda line: emit(encode(line)), **asked) if telling else work(place, **asked)


def _found(package: str, name: str) -> Any:
    module, _, name = name.partition(".")
    return getattr(importlib.import_module(f"{package}.{module}"), name)
