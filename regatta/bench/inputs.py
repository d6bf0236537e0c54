"""What the runs of a plan read: looked for before the plan starts, made and put in place outside the clocks."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from regatta import paths
from regatta.errors import DataError, PlanError
from regatta.experiments import asked, experiment, generators, pagerank, training
from regatta.experiments.plans import Point
from regatta.hdfs import client as hdfs
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.run.session import Session

KINDS = {"ppr": "graph", "stars": "stars", "digits": "digits"}


def check(remote: Remote, points: Iterable[Point]) -> None:
    """PlanError names all data of a plan that are not there."""
    faults = []
    for data in dict.fromkeys(point.data for point in points if point.data and point.data not in training.MADE):
        if hdfs.is_address(data):
            try:
                hdfs.ask(remote, "list", data)
            except DataError as error:
                faults.append(f"data {data}: {error}")
        elif not Path(data).expanduser().exists():
            faults.append(f"data {data}: there is no such file or folder here")
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

    def course(self, point: Point) -> experiment.Course:
        """Put the point's data in place; gives what its runs start. Raises DataError, RemoteError."""
        data = point.data if point.size is None else self._generated(KINDS[point.workload], point.size)
        if point.workload == "ppr":
            made = pagerank.ppr_course(self.session, asked.ppr(point, data))
        else:
            made = training.course(self.session, asked.training(point, data), point.workers)
        return replace(made, parameters={**made.parameters, "size": point.size})

    def _generated(self, kind: str, size: int) -> str:
        if (kind, size) not in self._made:
            self._made[kind, size] = self._in_hdfs(kind, size) if self._has_hdfs() else self._here(kind, size)
        return self._made[kind, size]

    def _has_hdfs(self) -> bool:
        if self._hdfs is None:
            remote = self.session.remote
            self._hdfs = not remote.cluster.local and remote.call(remote.cluster.head, "hdfs.state")["installed"]
        return self._hdfs

    def _in_hdfs(self, kind: str, size: int) -> str:
        url = generators.default_address(kind, size, self.seed)
        wanted = {path.removeprefix("hdfs://") for path, _ in generators.KINDS[kind].files(url, size, self.seed)}
        try:
            found = hdfs.ask(self.session.remote, "list", url)["entries"]
        except hdfs.HdfsError:
            found = []
        if not wanted <= {str(item["path"]) for item in found}:
            self.note(f"making {url}")
            for _ in generators.make(self.session.remote, kind, size, self.seed, url, force=bool(found)):
                pass
        return url

    def _here(self, kind: str, size: int) -> str:
        folder = paths.cache_dir() / "generated"
        self.note(f"making {kind} of {size:,} below {folder}, or finding it there")
        return str(generators.make_here(_python(self.session.cluster), kind, size, self.seed, folder))


def _python(cluster: Cluster) -> str:
    """A Python with the nodes' packages on this machine. DataError where there is none."""
    own = Path(sys.executable) if paths.INSTALLED else paths.PROJECT / ".venv-node/bin/python"
    found = Path(cluster.head.python) if cluster.local else own
    if not found.exists():
        raise DataError(f"there is no {found} to make data with: 'make setup-node', or name data that are there")
    return str(found)
