"""A cluster as a program uses it.

    from regatta.api.cluster import Cluster

    with Cluster("inventory/lab") as cluster:
        runs = [cluster.start("train.py", ["--seed", str(seed)], workers=4) for seed in range(3)]
        for run in runs:
            print(run.id, run.wait().phases.total)
            run.fetch("out/*.pt")
        print(cluster.run_workload("mine", framework="ray", workers=4, epochs=2).answer)
        records = cluster.compare("mine", framework="torch,ray", repeats=6)

All errors are those of :mod:`regatta.errors`. Scripts are those of the tree around the current folder, as with
`regatta torchrun`; workloads those of `regatta run`.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from regatta import paths
from regatta.api.run import Run, in_background
from regatta.api.used import Used
from regatta.errors import NodesError, RunError, UsageError
from regatta.frameworks import table
from regatta.frameworks.api import Framework
from regatta.hosts import inventories
from regatta.hosts.remote import Remote
from regatta.hosts.selection import Selection
from regatta.program import hint
from regatta.run import catalogue, outputs
from regatta.terminal.console import Console
from regatta_protocol.states import State

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from regatta.api.keywords import RunKeywords
    from regatta.hosts.connection import Connection
    from regatta.records.record import Record
    from regatta.run.request import Request
    from regatta.run.services import NodeStatus
    from regatta.run.standing import Why
    from regatta_protocol.events import Event
    from regatta_protocol.operations.queue import Entry, Submitted


@dataclass(frozen=True)
class Status:
    """A cluster and its state now; `runs` are in progress, `monitoring` is what the head's Prometheus reaches.

    `members`: of each framework with a service the addresses that are in it, or why it cannot be asked.
    """

    nodes: "list[NodeStatus]"
    members: dict[Framework, list[str] | str]
    monitoring: dict[str, Any]
    runs: list[catalogue.RunInfo]

    @property
    def problems(self) -> list[str]:
        """A sentence about each node that does not answer or has no unit of Regatta, else about each service that
        cannot be asked."""
        from regatta.run import services

        silent, bare = services.unready(self.nodes)
        if bare:
            return [*silent, *bare]
        return [*silent, *(f"{one.service}: {said}" for one, said in self.members.items() if isinstance(said, str))]


class Cluster:
    """The hosts of an inventory, and runs on them. `say` gets what a command would print besides a run's log.

    Within `with`, runs that were started are followed in the background. When it is left, they are waited for; where an
    exception leaves it, they continue on their nodes, and nothing waits. Several threads may use it.
    """

    def __init__(
        self,
        inventory: str | Path | None = None,
        *,
        results: Path | None = None,
        nodes: str | None = None,
        without: str | None = None,
        skip_lost: bool = False,
        say: Callable[[str], None] = lambda text: None,
        console: Console | None = None,
    ) -> None:
        """Read an inventory; the default is that of commands. `results`: the folder of records. InventoryError.

        `console`, instead of `say`, shows runs as commands do.
        """
        shows = console or _Told(say)
        found = inventories.load(None if inventory is None else str(inventory))
        chosen = Selection(nodes, without, skip_lost).of(found, shows.warn)
        self._used = Used(chosen, shows, results or paths.results_dir())
        self._followed: list[Future[Record]] = []
        self._following = threading.Lock()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            for future in self._followed:
                future.exception()
        if all(future.done() for future in self._followed):
            self._used.close()

    @property
    def name(self) -> str:
        """The name of its inventory."""
        return self._used.cluster.name

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of its hosts, the head first."""
        return tuple(node.name for node in self._used.cluster.nodes)

    @property
    def console(self) -> Console:
        """Return what its runs are shown on."""
        return self._used.console

    def connection(self, node: str) -> "Connection":
        """A Fabric connection to a host, by its name: `run`, `sudo`, `put`, `get`. InventoryError for another name."""
        from regatta.hosts.connection import Connection  # loads Fabric, which runs need not

        return Connection(self.remote, self._used.cluster.node(node))

    @property
    def remote(self) -> Remote:
        """Requests to its nodes."""
        return self._used.remote

    def start(
        self,
        script: str,
        arguments: Sequence[str] = (),
        framework: str = table.USUAL,
        **options: "Unpack[RunKeywords]",
    ) -> Run:
        """Start a script on the cluster; returns when it runs. `options`: those of docs/reference/options.md.

        It waits until the nodes are free, also of runs of this program: `now=True` starts beside them. The run is
        followed in the background; :meth:`Run.wait` gives its record. Raises UsageError for bad input, LaunchError and
        NodesError where it cannot be started.
        """
        from regatta.api import requests

        return self._start(requests.script(framework, script, arguments, options))

    def run(
        self,
        script: str,
        arguments: Sequence[str] = (),
        framework: str = table.USUAL,
        **options: "Unpack[RunKeywords]",
    ) -> "Record":
        """Start a script, wait for its end, and return its record; Ctrl-C cancels it.

        Raises RunFailedError, and what `start` does.
        """
        from regatta.api import requests

        return self.carry_out(requests.script(framework, script, arguments, options))

    def carry_out(self, request: "Request") -> "Record":
        """Do what :mod:`regatta.api.requests` has made, as `run` does."""
        from regatta.run import elastic

        return elastic.run(self._used.session, _followed(request))

    def submit(
        self,
        script: str,
        arguments: Sequence[str] = (),
        framework: str = table.USUAL,
        **options: "Unpack[RunKeywords]",
    ) -> "tuple[str, Submitted]":
        """Put a script into the cluster's queue, which starts it without this program: its name, what is ahead of it.

        Raises UsageError where the cluster has no queue, or the run needs a controller, and what `start` does.
        """
        from regatta.api import requests

        return self.enqueue(requests.script(framework, script, arguments, options))

    def submit_workload(self, workload: str, /, **options: Any) -> "tuple[str, Submitted]":
        """Put one run of a workload into the queue, its input in place, as `submit` does."""
        return self.enqueue(self.request(workload, **options))

    def enqueue(self, request: "Request") -> "tuple[str, Submitted]":
        """Put what :mod:`regatta.api.requests` has made into the queue, as `submit` does."""
        from regatta.run import elastic

        request = elastic.first(request) if request.options.elastic else request
        return self._used.session.submit(replace(request, options=replace(request.options, detach=True)))

    def start_workload(self, workload: str, /, **options: Any) -> Run:
        """Start one run of a workload by its name, its input in place, as `start` does with a script.

        `options`: its card's, those of runs, and one `framework` (default: torch, or its card's first).
        """
        return self._start(self.request(workload, **options))

    def run_workload(self, workload: str, /, **options: Any) -> "Record":
        """Start one run of a workload as `start_workload` does, wait for its end, and return its record, as `run`."""
        return self.carry_out(self.request(workload, **options))

    def compare(self, workload: str, /, **options: Any) -> "dict[str, list[Record]]":
        """Run a workload under several frameworks, interleaved, as `regatta run NAME` does: the records of each.

        `options`: besides those of `run_workload` `repeats` and `no_single`; `framework` may name several, with commas.
        """
        from regatta.api import requests
        from regatta.experiments import job

        asked, session = requests.workload(workload, options), self._used.session
        frameworks = asked.frameworks(session.cluster, session.console.note)
        request = _followed(asked.request)
        return job.run(session, asked.asked, frameworks, repeats=asked.said.repeats, request=request)

    def runs(self, unasked: dict[str, Exception] | None = None) -> list[catalogue.RunInfo]:
        """All runs that its nodes know, oldest first. Nodes that could not be asked go to `unasked`, or NodesError."""
        found, failed = catalogue.listing(self.remote)
        if failed and unasked is None:
            raise NodesError("runs", failed)
        if unasked is not None:
            unasked.update(failed)
        return found

    def find(self, run: str) -> Run:
        """A run by its id, a unique beginning of it, or `last`, whoever has started it.

        RunError where there is none, or it still waits in the cluster's queue.
        """
        try:
            known = catalogue.find(self.remote, run)
        except RunError:
            from regatta.run import queue

            if queue.waits(self.remote, run):
                raise RunError(f"{run} has not begun: it waits in the cluster's queue ({hint('queue')})") from None
            raise
        return Run(self._used, known.run, known=known)

    def adopt(
        self, runs: Sequence[catalogue.RunInfo], unasked: dict[str, Exception], say: Callable[[str], None]
    ) -> list[catalogue.RunInfo]:
        """Write the records of those of these runs that have ended and that no one follows, some at a time."""
        from regatta.run import recording

        return recording.adopt(self.remote, runs, self._used.results, unasked, say)

    def sizes(self, runs: Sequence[catalogue.RunInfo]) -> dict[str, tuple[outputs.NodeOutput, ...]]:
        """Return what each run has left on its nodes, by its id, with its first files."""
        return outputs.sizes(self.remote, runs)

    def queue(self) -> "tuple[Entry, ...]":
        """Who holds nodes of the cluster, then who waits for some, first in line first."""
        from regatta.run import queue

        return queue.entries(self.remote)

    def withdraw(self, run: str) -> bool:
        """Take a run that waits out of the queue; returns whether it was there."""
        from regatta.run import queue

        return queue.withdraw(self.remote, run)

    def why(self, run: str) -> "Why":
        """Where each rank of a run stands now, and whom the others wait for; soon, also where hosts are lost.

        `run`: as in `find`. RunError where it has ended.
        """
        from regatta.run import standing

        return standing.why(self.remote, run)

    def status(self) -> Status:
        """Return what it is and does now: nodes (those that do not answer say why), services, runs."""
        from regatta.run import services

        nodes = services.status(self.remote)
        members = {one: services.members(self.remote, one, nodes) for one in services.served(self.remote.cluster)}
        monitoring = {} if self.remote.cluster.local else services.monitoring(self.remote)
        told = catalogue.together(self.remote, {item.node.name: item.runs for item in nodes if not item.error})
        return Status(nodes, members, monitoring, [info for info in told if info.state is State.RUNNING])

    def records(self) -> "list[Record]":
        """The records in the folder of results, oldest first; files that are damaged are left out."""
        from regatta.records.store import Store

        return list(Store(self._used.results).list().records)

    def request(self, workload: str, /, **options: Any) -> "Request":
        """One run of a workload, for `carry_out` and `enqueue`, its input in place. UsageError for several runs."""
        from regatta.api import requests
        from regatta.experiments import job

        asked, session = requests.workload(workload, options, requests.one), self._used.session
        found = asked.frameworks(session.cluster, session.console.note)
        if len(found) > 1 or asked.said.repeats > 1:
            raise UsageError(f"{workload}: one framework, and no repeats: compare() runs it several times")
        return job.one(session, asked.asked, found[0], asked.request)

    def _start(self, request: "Request") -> Run:
        from regatta.run import elastic

        session = self._used.session
        going = elastic.begin(session, _followed(request))
        followed = in_background(lambda: elastic.finish(session, going))
        with self._following:
            self._followed = [*(future for future in self._followed if not future.done()), followed]
        return Run(self._used, going.begun.handle.run, followed)


def _followed(request: "Request") -> "Request":
    """The request. UsageError for one of the queue, which nothing here would follow."""
    if request.options.detach:
        raise UsageError("detach: a run that starts without this program is put into the queue by submit()")
    return request


class _Told(Console):
    """A console that hands lines about runs to `say`, and shows no log: `Run.follow` and `Run.logs` give that."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = say

    def line(self, node: str, rank: int | None, text: str) -> None:
        """See Console."""

    def bars(self, node: str, bars: dict[int, str]) -> None:
        """See Console."""

    def event(self, node: str, event: "Event") -> None:
        """See Console."""

    def note(self, text: str) -> None:
        """See Console."""
        self._tell(text)

    def warn(self, text: str) -> None:
        """See Console."""
        self._tell(f"warning: {text}")

    def error(self, text: str) -> None:
        """See Console."""
        self._tell(f"error: {text}")
