"""The inputs of a plan's runs: looked for before the plan starts, made and put in place outside the timers."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from regatta import paths
from regatta.cards.card import Workload
from regatta.errors import DataError, PlanError
from regatta.experiments import generators, invocation, job
from regatta.experiments.plans import Point
from regatta.hdfs import client as hdfs
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.program import checkout_only
from regatta.release import objects
from regatta.run.session import Session
from regatta_protocol.operations.hdfs import AskHdfs


def check(remote: Remote, points: Iterable[Point]) -> None:
    """PlanError names all data of a plan that are not there."""
    faults = []
    for data in dict.fromkeys(point.data for point in points if point.data and not _is_word(point)):
        if hdfs.is_address(data):
            try:
                hdfs.ask(remote, "list", data)
            except DataError as error:
                faults.append(f"data {data}: {error}")
        elif not objects.is_address(data) and not Path(data).expanduser().exists():
            faults.append(f"data {data}: there is no such file or folder here: give another path")
    if faults:
        raise PlanError("missing data:\n  " + "\n  ".join(faults))


class Inputs:
    """Makes what points read; a kind of data of a size is made once, into HDFS where the cluster has it."""

    def __init__(self, session: Session, seed: int, note: Callable[[str], None]) -> None:
        self.session = session
        self.seed = seed
        self.note = note
        self._hdfs: bool | None = None
        self._made: dict[tuple[str, int], str] = {}

    def job(self, point: Point) -> job.Job:
        """Put the point's data in place; gives what its runs start. Raises DataError, RemoteError."""
        made_up = point.size is not None and point.of.card.generate is not None
        data = self._generated(point.of, point.size) if point.size is not None and made_up else point.data
        made = job.prepare(self.session, invocation.of_point(point, data), point.workers)
        return replace(made, parameters={**made.parameters, "size": point.size})

    def _generated(self, of: Workload, size: int) -> str:
        if (of.name, size) not in self._made:
            self._made[of.name, size] = self._in_hdfs(of, size) if self._has_hdfs() else self._here(of, size)
        return self._made[of.name, size]

    def _has_hdfs(self) -> bool:
        if self._hdfs is None:
            remote = self.session.remote
            self._hdfs = not remote.cluster.local and remote.call(remote.cluster.head, AskHdfs()).installed
        return self._hdfs

    def _in_hdfs(self, of: Workload, size: int) -> str:
        url = generators.default_address(of, size, self.seed)
        wanted = generators.addresses(of, url, size, self.seed)
        try:
            found = hdfs.ask(self.session.remote, "list", url)["entries"]
        except hdfs.HdfsError:
            found = []
        if not wanted <= {str(item["path"]) for item in found}:
            self.note(f"making {url}")
            for _ in generators.make(self.session.remote, of, size, self.seed, url, force=bool(found)):
                pass
        return url

    def _here(self, of: Workload, size: int) -> str:
        folder = paths.cache_dir() / "generated"
        self.note(f"making {size:,} {of.card.unit} for {of.name} below {folder}, or finding it there")
        return str(generators.make_here(_python(self.session.cluster), of, size, self.seed, folder))


def _is_word(point: Point) -> bool:
    """Whether the data of a point are a word of its workload's, and no path."""
    return point.of.card.input is not None and point.data in point.of.card.input.made


def _python(cluster: Cluster) -> str:
    """A Python with the nodes' packages on this machine. DataError where there is none."""
    own = paths.NODE_PYTHON
    found = Path(cluster.head.python) if cluster.local else own
    if not found.exists():
        raise DataError(
            f"there is no {found} to make data with: {checkout_only('setup-node')}, or name data that are there"
        )
    return str(found)
