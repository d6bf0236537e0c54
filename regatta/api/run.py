"""A run as a program uses it: waited for, followed, ended, and what it has printed and written."""

import concurrent.futures
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from regatta.api.used import Used
from regatta.errors import NodesError
from regatta.options.declaration import OF_RUNS
from regatta.options.kinds import patterns
from regatta.run import catalogue, outputs
from regatta.run.watch import Watch

if TYPE_CHECKING:
    from regatta.records.record import Record


@dataclass(frozen=True)
class Line:
    """A line that a run has printed: `rank` is -1 for a driver, and None where it is not known."""

    node: str
    rank: int | None
    text: str


class Run:
    """A run of a cluster: one that this program has started, or another one. Of an elastic one its first generation."""

    def __init__(
        self,
        used: Used,
        run: str,
        followed: "Future[Record] | None" = None,
        known: catalogue.RunInfo | None = None,
    ) -> None:
        self.id = run
        self._used = used
        self._followed = followed
        self._known = known

    @property
    def info(self) -> catalogue.RunInfo:
        """Return what its nodes know of it now: state, times, nodes. RunError where they do not know it any more."""
        self._known = catalogue.find(self._used.remote, self.id)
        return self._known

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of its nodes."""
        return tuple(node.name for node in self._on_nodes().nodes)

    def wait(self, timeout: float | None = None) -> "Record":
        """Wait for its end, `timeout` seconds at most, and return its record; of an elastic run the last one's.

        Raises RunFailedError where it has not succeeded (its record is kept), TimeoutError, and RecordError where it
        has no record.
        """
        if self._followed is None:
            self._followed = in_background(self._attached)
        try:
            return self._followed.result(timeout)
        except concurrent.futures.TimeoutError:
            raise TimeoutError(f"{self.id} is still running after {timeout} s: wait() again, or cancel()") from None

    def attach(self) -> None:
        """Show it on the cluster's console from its first line to its end. Raises RunFailedError.

        Ctrl-C stops watching, and the run continues; a second one within two seconds cancels it.
        """
        self._used.session.attach(self.info)

    def follow(self, since: Mapping[str, int] | None = None) -> Iterator[Line]:
        """Yield what it prints on all its nodes, from its first line until its end.

        `since`: bytes of each node's log that are passed over, as `logs` counts them. Raises UnreachableError where a
        node is lost meanwhile, which ends nothing.
        """
        with Watch(self._used.remote, self.id, self._on_nodes().nodes, since=since) as watch:
            for said in watch.lines():
                yield Line(*said)

    def logs(self, read: dict[str, int] | None = None) -> Iterator[Line]:
        """Yield what it has printed so far, node after node; `read` gets how many bytes of each node's log that is."""
        for said in catalogue.log(self._used.remote, self._on_nodes(), read):
            yield Line(*said)

    def why(self) -> list[str]:
        """Return lines that say where its ranks stand now, and last the likely cause if they wait. RunError."""
        from regatta.run import standing

        return list(standing.why(self._used.remote, self.id).lines())

    def cancel(self) -> None:
        """End it on all its nodes. RunError where it has ended already."""
        catalogue.cancel(self._used.remote, self.info)

    def files(
        self, *wanted: str, most: int = outputs.MOST_FILES
    ) -> tuple[list[outputs.NodeOutput], dict[str, Exception]]:
        """Return what it has written by now, all or what fits a pattern, `most` files a node; and nodes that do not
        tell.
        """
        return outputs.look(self._used.remote, self._left(), patterns(wanted), most)

    def fetch(
        self,
        *wanted: str,
        to: str | Path | None = None,
        max_gb: float = OF_RUNS["max_gb"].default,
        env: Sequence[str] = (),
        env_file: Sequence[str] = (),
        progress: TextIO | None = None,
    ) -> Path:
        """Bring here what it has written, all or what fits a pattern, proven by hash; returns the folder.

        `to`: the folder (default: next to the records), or an address in an object store, where it is put, too, by what
        `env` and `env_file` say. `progress` shows how far it is. Raises DataError where nothing fits, or that is more
        than `max_gb`, NodesError where a node could not be asked.
        """
        from regatta.environment import variables
        from regatta.release import objects
        from regatta.run import fetching

        used, given = self._used, variables.typed(env, env_file)
        bucket = to if isinstance(to, str) and objects.is_address(to) else None
        target = Path(to).expanduser() if to and not bucket else used.results / self.id
        done, parts = fetching.bring(
            used.remote, self._left(), patterns(wanted), target, max_gb, used.console, progress
        )
        if bucket and parts:
            from regatta.run import uploading

            note = used.console.note
            note(uploading.put(self._left(), parts, target, bucket, given, note, progress).line())
        if done.failed:
            raise NodesError(f"fetch {self.id}", dict(done.failed))
        return target

    def _left(self) -> outputs.Run:
        return outputs.Run.of(self._on_nodes())

    def _on_nodes(self) -> catalogue.RunInfo:
        """Return what does not change of it: where it is, and under what names."""
        return self._known or self.info

    def _attached(self) -> "Record":
        from regatta.records.store import Store

        self.attach()
        return Store(self._used.results).find(self.id)


def in_background(work: "Callable[[], Record]") -> "Future[Record]":
    """Have a thread do this; what it raises is raised where that is waited for."""
    future: Future[Record] = Future()

    def do() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=do, daemon=True).start()
    return future
