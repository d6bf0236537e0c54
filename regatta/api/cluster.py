"""A cluster as a program uses it.

    from regatta.api.cluster import Cluster

    with Cluster("inventory/lab") as cluster:
        runs = [cluster.start("train.py", ["--seed", str(seed)], workers=4) for seed in range(3)]
        for run in runs:
            print(run.id, run.wait().phases.total)
            run.fetch("out/*.pt")

All errors are those of :mod:`regatta.errors`. Scripts are those of the tree around the current folder, as with
`regatta torchrun`.
"""

import contextlib
import io
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from regatta import paths
from regatta.api import scripts
from regatta.errors import NodesError, RegattaError, UsageError
from regatta.frameworks.table import USUAL
from regatta.hosts import inventories
from regatta.hosts.channel import Stream
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.hosts.selection import Selection
from regatta.options.declaration import OF_RUNS
from regatta.options.kinds import patterns
from regatta.options.option import from_table
from regatta.program import hint
from regatta.records.events import Event
from regatta.records.record import Record
from regatta.records.store import Store
from regatta.run import catalogue, fetching, outputs, services
from regatta.run.session import Begun, Session
from regatta.terminal.console import Console

OF_CLUSTER = ("inventory", "nodes", "without", "skip_lost")
"""Options that belong to the cluster, and not to one of its runs."""
_MOST_WAITING = 1000
"""Lines that wait to be read."""


@dataclass(frozen=True)
class Line:
    """A line that a run has printed: `rank` is -1 for a driver, and None where it is not known."""

    node: str
    rank: int | None
    text: str


class Cluster:
    """The hosts of an inventory, and runs on them. `say` is told what a command would print beside a run's log.

    Within `with`, runs are followed in the background. When it is left, they are waited for; where an exception leaves
    it, they go on on their nodes, and nothing waits. Several threads may use it.
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
    ) -> None:
        """Read an inventory; the default is that of commands. `results`: the folder of records. InventoryError."""
        found = inventories.load(None if inventory is None else str(inventory))
        chosen = Selection(nodes, without, skip_lost).of(found, say)
        self._session = Session(chosen, _Told(say), results or paths.results_dir())
        self._starting = threading.Lock()
        self._followed: list[Future[Record]] = []

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            for future in self._followed:
                future.exception()
            self._session.__exit__()

    @property
    def name(self) -> str:
        """The name of its inventory."""
        return self._session.cluster.name

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of its hosts, the head first."""
        return tuple(node.name for node in self._session.cluster.nodes)

    def start(self, script: str, arguments: Sequence[str] = (), framework: str = USUAL, **options: Any) -> "Run":
        """Start a script on the cluster; returns when it runs. `options`: those of docs/reference/options.md.

        The run is followed in the background; :meth:`Run.wait` gives its record. Raises UsageError for bad input,
        LaunchError and NodesError where it cannot be started.
        """
        request = scripts.request(framework, script, arguments, _checked(options))
        if request.options.elastic:
            raise UsageError(
                f"elastic: a run that goes on without lost hosts is started by a command only, as '{hint('run NAME')}'"
            )
        with self._starting:
            begun = self._session.begin(request)
            self._followed = [future for future in self._followed if not future.done()]
            future: Future[Record] = Future()
            self._followed.append(future)
        threading.Thread(target=_finish, args=(self._session, begun, future), daemon=True).start()
        return Run(self._session, begun.handle.run, future)

    def run(self, script: str, arguments: Sequence[str] = (), framework: str = USUAL, **options: Any) -> Record:
        """Start a script, wait for its end, and return its record. Raises RunFailedError, and what `start` does."""
        return self.start(script, arguments, framework, **options).wait()

    def runs(self) -> list[catalogue.RunInfo]:
        """All runs that its nodes know, oldest first. NodesError where a node could not be asked."""
        found, failed = catalogue.listing(self._session.remote)
        if failed:
            raise NodesError("runs", failed)
        return found

    def find(self, run: str) -> "Run":
        """A run by its id, a unique beginning of it, or `last`, whoever has started it. RunError."""
        return Run(self._session, catalogue.find(self._session.remote, run).run)

    def status(self) -> list[services.NodeStatus]:
        """What each host is and does now: facts, states of units, runs; those that do not answer say why."""
        return services.status(self._session.remote)

    def records(self) -> list[Record]:
        """The records in the folder of results, oldest first; files that are damaged are left out."""
        return list(Store(self._session.results).list().records)


class Run:
    """A run of a cluster: one that this program has started, or another one."""

    def __init__(self, session: Session, run: str, followed: "Future[Record] | None" = None) -> None:
        self.id = run
        self._session = session
        self._followed = followed

    @property
    def info(self) -> catalogue.RunInfo:
        """What its nodes know of it now: state, times, nodes. RunError where they do not know it any more."""
        return catalogue.find(self._session.remote, self.id)

    def wait(self, timeout: float | None = None) -> Record:
        """Wait for its end, `timeout` seconds at most, and return its record.

        Raises RunFailedError where it has not succeeded (its record is kept), TimeoutError, and RecordError where it
        has no record.
        """
        if self._followed is None:
            self._session.attach(self.info)
            return Store(self._session.results).find(self.id)
        return self._followed.result(timeout)

    def follow(self) -> Iterator[Line]:
        """What it prints on all its nodes, from its first line until its end.

        Raises UnreachableError where a node is lost meanwhile, which ends nothing.
        """
        with _Watch(self._session.remote, self.info) as watch:
            yield from watch.lines()

    def logs(self) -> list[Line]:
        """What it has printed so far, node after node."""
        return [Line(*told) for told in catalogue.log(self._session.remote, self.info)]

    def cancel(self) -> None:
        """End it on all its nodes. RunError where it has ended already."""
        catalogue.cancel(self._session.remote, self.info)

    def fetch(self, *wanted: str, to: Path | None = None, max_gb: float = OF_RUNS["max_gb"].default) -> Path:
        """Bring here what it has written, all or what fits a pattern, proven by hash; returns the folder.

        Raises DataError where that is more than `max_gb`, NodesError where a node could not be asked.
        """
        known = outputs.Run.of(self.info)
        parts, failed = outputs.look(self._session.remote, known, patterns(wanted))
        target = to or self._session.results / known.id
        if any(part.count for part in parts):
            fetching.check(known.id, parts, max_gb)
            failed |= fetching.fetch(self._session.remote, known, parts, target, io.StringIO()).failed
        if failed:
            raise NodesError(f"fetch {known.id}", failed)
        return target


class _Watch:
    """Reads the logs of a run's nodes, a thread each; leaving it ends them."""

    def __init__(self, remote: Remote, info: catalogue.RunInfo) -> None:
        self._remote, self._info = remote, info
        self._told: queue.Queue[Line | Exception | None] = queue.Queue(_MOST_WAITING)
        self._left = threading.Event()
        self._streams: list[Stream] = []
        self._threads = [threading.Thread(target=self._watch, args=(node,), daemon=True) for node in info.nodes]

    def __enter__(self) -> "_Watch":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        for stream in self._streams:
            stream.close()
        for thread in self._threads:
            thread.join()

    def lines(self) -> Iterator[Line]:
        """All lines until each node has told the end."""
        going = len(self._threads)
        while going:
            told = self._told.get()
            if isinstance(told, Line):
                yield told
            elif told is None:
                going -= 1
            else:
                raise told

    def _watch(self, node: Node) -> None:
        try:
            with self._remote.stream(node, "run.watch", run=self._info.run, offset=0) as stream:
                self._streams.append(stream)
                for told in stream:
                    for rank, text in told.get("lines", []):
                        self._put(Line(node.name, rank, text))
            self._put(None)
        except (RegattaError, OSError, ValueError) as error:
            self._put(error)

    def _put(self, told: Line | Exception | None) -> None:
        while not self._left.is_set():
            with contextlib.suppress(queue.Full):
                self._told.put(told, timeout=0.2)
                return


class _Told(Console):
    """A console that hands lines about runs to `say`, and shows no log: `Run.follow` and `Run.logs` give that."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = say

    def line(self, node: str, rank: int | None, text: str) -> None:
        """See Console."""

    def bars(self, node: str, bars: dict[int, str]) -> None:
        """See Console."""

    def event(self, node: str, event: Event) -> None:
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


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run by name. UsageError for one that there is not, and values that they cannot have."""
    known = {name: one for name, one in OF_RUNS.items() if name not in OF_CLUSTER}
    if wrong := [name for name in options if name not in known]:
        raise UsageError(f"there is no option {wrong[0]} of a run: there are {', '.join(known)}")
    faults: list[str] = []
    plain = {name: _plain(value) for name, value in options.items() if value is not None}
    read = from_table(known, plain, "", faults)
    if faults:
        raise UsageError("; ".join(faults))
    return read


def _plain(value: object) -> object:
    """As a file would have it."""
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def _finish(session: Session, begun: Begun, future: "Future[Record]") -> None:
    try:
        future.set_result(session.finish(begun))
    except BaseException as error:  # what follows a run raises where it is waited for
        future.set_exception(error)
