"""Spark on a cluster as what takes runs: its master, asked on the head."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from regatta.errors import LaunchError, RemoteError
from regatta.frameworks.api import JobService, Page
from regatta.frameworks.plan import Plan
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.program import about_hosts, hint
from regatta.text import clean
from regatta_protocol.operations.services import CallFramework

UNITS = ("regatta-spark-master.service", "regatta-spark-worker.service")
SECRET = "spark_secret"
FOREIGN = "spark_master"
NONE = f"it has no Spark: set spark_enabled: true in its group_vars/all.yml, and '{about_hosts('provision')}' makes one"
JOIN_SECONDS = 60.0
POLL_SECONDS = 0.5
ANSWER_SECONDS = 5.0
STALL_SECONDS = 1.8

State = Mapping[str, Any]
"""The answer of `regatta.frameworks.spark.node.master`."""


class SparkService(JobService):
    """The master of a cluster's Spark. A driver goes to it by itself, and leaves it when it ends."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def look(self) -> State:
        """See `JobService`; what the master says. Raises LaunchError where there is no Spark."""
        head = self._remote.cluster.head
        said: State = self._remote.call(head, CallFramework("spark.master.state"), timeout=15)
        if not said["installed"]:
            raise LaunchError(f"{self._remote.cluster.name}: {NONE}")
        return said

    def wait(
        self, nodes: Sequence[Node], seen: Any, answers: Mapping[str, Mapping[str, Any]], say: Callable[[str], None]
    ) -> None:
        """See `JobService`: until the workers of the cluster are Spark's, as its master gives them out.

        A host whose Java is gone is named at once: its worker may still be there, and no executor of it would start.
        """
        for node in nodes:
            if why := answers.get(node.name, {}).get("java"):
                raise LaunchError(
                    f"{node.name}: Spark has no Java there: {why}; '{about_hosts('provision')}' installs one"
                )
        end, said = time.monotonic() + JOIN_SECONDS, False
        while missing := self._missing(seen):
            names = ", ".join(missing)
            if time.monotonic() > end:
                why = seen["problem"] or "its worker has not joined"
                raise LaunchError(f"{names}: not in Spark after {JOIN_SECONDS:g} s ({why}); see '{hint('status')}'")
            if not said:
                said = True
                say(
                    f"waiting until {names} {'is' if len(missing) == 1 else 'are'} in Spark, {JOIN_SECONDS:g} s at most"
                )
            time.sleep(POLL_SECONDS)
            seen = self.look()

    def capacity_error(self, plan: Plan) -> str | None:
        """See `JobService`: each worker of a run takes a core of Spark's workers."""
        cores, asked = sum(worker["cores"] for worker in self.look()["workers"]), len(plan.ranks)
        if not cores or asked <= cores:
            return None
        return (
            f"--workers {asked}: Spark's workers have {cores} core(s) together, and each worker of a run takes one; "
            f"use --workers {cores} or fewer"
        )

    def members(self, nodes: Sequence[Node], answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """See `JobService`; a head without a worker is one by its master."""
        said, cluster = self.look(), self._remote.cluster
        if said["problem"]:
            raise LaunchError(f"{cluster.head.name}: {said['problem']}")
        alone = [] if cluster.head in cluster.workers else [cluster.head.cluster_address]
        return [*alone, *_addresses(said)]

    def _missing(self, said: State) -> list[str]:
        there = _addresses(said)
        return [node.name for node in self._remote.cluster.workers if node.cluster_address not in there]


def _addresses(said: State) -> list[str]:
    return [worker["address"] for worker in said["workers"]]


@contextlib.contextmanager
def opened(remote: Remote) -> Iterator[JobService]:
    """The master of the cluster's Spark, as what takes runs."""
    yield SparkService(remote)


def pages(remote: Remote) -> tuple[Page, ...]:
    """The master's page, and those of jobs in progress; none where it was not provisioned to its end."""
    service = SparkService(remote)
    try:
        said = service.look()
        jobs = remote.call(remote.cluster.head, CallFramework("spark.master.pages"), timeout=15)
    except LaunchError:
        return ()
    names = [clean(one["name"]) for one in said["applications"]]
    return (_of_master(service, int(said["page"])), *(_of_job(jobs["address"], port, names) for port in jobs["ports"]))


def _of_job(address: str, port: int, names: Sequence[str]) -> Page:
    """The page of a job; it is called by its name where no other is in progress."""

    def check(at: int) -> str:
        with contextlib.closing(socket.create_connection(("127.0.0.1", at), ANSWER_SECONDS)) as sock:
            sock.sendall(f"HEAD /jobs/ HTTP/1.0\r\nHost: 127.0.0.1:{at}\r\n\r\n".encode())
            with contextlib.suppress(TimeoutError):  # a busy driver: it listens still
                if not sock.recv(1):
                    raise LaunchError("it has ended")
        return ""

    return Page(f"Spark job {names[0] if len(names) == 1 else f'at port {port}'}", port, check, address, passing=True)


def _of_master(service: SparkService, port: int) -> Page:

    def check(_port: int) -> str:
        if problem := service.look()["problem"]:
            raise LaunchError(problem)
        return ""

    return Page("Spark", port, check)


def registered(said: State, run: str) -> bool:
    """Whether the master knows the run's driver: by the run's name, where its script gives it no other one."""
    return any(one["name"] == run for one in said["applications"])


def too_much(said: State, run: str) -> str | None:
    """Why the driver of this name will never get an executor of the memory that it asks for; None where it may."""
    most = max((worker["memory"] for worker in said["workers"]), default=0)
    asked = [one["memory"] for one in said["applications"] if one["name"] == run]
    return _too_much(min(asked), most) if asked and most and min(asked) > most else None


def _too_much(asked: int, most: int) -> str:
    return (
        f"it asks for executors of {asked} MiB, and the largest worker gives {most} MiB: ask for less "
        f"(spark.executor.memory), or raise spark_memory_share and '{about_hosts('provision')}'"
    )


def stalls(remote: Remote, run: str) -> list[str]:
    """Return in a sentence that a run has no executor, and why. Nothing where the head does not answer."""
    try:
        return waits(remote.call(remote.cluster.head, CallFramework("spark.master.state"), timeout=STALL_SECONDS), run)
    except (RemoteError, KeyError, TypeError):
        return []


def waits(said: State, run: str) -> list[str]:
    """See `stalls`; by what the master says."""
    if not any(one["name"] == run and one["waiting"] for one in said["applications"]):
        return []
    users = [clean(one["name"]) for one in said["applications"] if one["cores"]]
    why = never(said, run) or (f"its workers' cores are in use by {', '.join(users)}" if users else "no worker is left")
    return [f"Spark has given it no executor: {why}"]


def never(said: State, run: str) -> str | None:
    """Why a run whose driver waits for executors gets none, however long it waits; None where it may get some."""
    waiting = [one for one in said["applications"] if one["waiting"]]
    own = [one for one in waiting if one["name"] == run] or waiting
    most = max((worker["memory"] for worker in said["workers"]), default=0)
    if not own or not most:
        return None
    if all(one["memory"] > most for one in own):
        return _too_much(min(one["memory"] for one in own), most)
    if not any(one["cores"] for one in said["applications"]):
        cores = max(worker["cores"] for worker in said["workers"])
        return (
            f"nothing else uses Spark, and no worker gives what an executor asks for: the largest has {cores} core(s) "
            f"and {most} MiB (spark.executor.cores, spark.executor.memory)"
        )
    return None
