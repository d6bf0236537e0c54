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
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable

from regatta.node import layout, owner
from regatta.node.problem import Problem
from regatta_protocol.decoding import decode, encode
from regatta_protocol.operations.operation import Telling

if TYPE_CHECKING:
    from regatta_protocol.place import Place

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
    "queue.submit": ("queue.SubmitRun", "generations.submit"),
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


Request = Dict[str, Any]


def main(requests: Iterable[bytes], answered: Callable[[Request], Any] | None = None) -> None:
    """Serve requests, {"op", "place", "args"}, until the connection closes, which ends what is being served, too.

    `answered` gives the answer to each, instead of who may do all.
    """
    waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()

    def read() -> None:
        try:
            for line in requests:
                waiting.put(json.loads(line))
        finally:
            os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    while True:
        _serve(waiting.get(), answered)


def _serve(request: Request, answered: Callable[[Request], Any] | None = None) -> None:
    os.umask(0o022)
    try:
        emit({"done": encode((answered or _answered)(request))})
    except Problem as error:
        emit({"error": str(error)})
    except OSError as error:
        said = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            where = f"df -h {request['place']['state']} {request['place']['root']}"
            said = f"No space left on device: free some space there ({where}; 'regatta runs-gc' deletes old runs)"
        emit({"error": said})
    except Exception as error:  # the controller names the node and shows the reason
        emit({"error": f"{type(error).__name__}: {error}", "internal": True})


def _answered(request: Request) -> Any:
    """The answer to who may do all: what is asked is done where it says."""
    op, place = request["op"], request["place"]
    if place.get("user"):
        place["by"] = owner.of_request()
    check(op, place)
    return done(op, place, decode(declared(op), request["args"]))


def check(op: str, place: Place) -> None:
    """Problem where this node is not provisioned as the operation needs it."""
    layout.check(place, older=op in OLDER, bare=op in BARE)


def declared(op: str) -> Any:
    """The type of an operation."""
    return _found("regatta_protocol.operations", OPERATIONS[op][0])


def done(op: str, place: Place, asked: Any) -> Any:
    """Do what is asked; returns the answer."""
    work = _found("regatta.node", OPERATIONS[op][1])
    told = {"emit": lambda line: emit(encode(line))} if isinstance(asked, Telling) else {}
    return work(place, **told, **vars(asked))


def _found(package: str, name: str) -> Any:
    module, _, name = name.partition(".")
    return getattr(importlib.import_module(f"{package}.{module}"), name)
