"""Parts in the workers of Ray Train, which talk as its trainer for torch, or for TensorFlow, has them."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from regatta_protocol.events import Ready
from workloads.common import events
from workloads.common.events import BadInput, Event
from workloads.common.failures import WorkerFailed
from workloads.common.part import MakePart, steps
from workloads.common.ranks import Ranks
from workloads.common.ray import cluster, placement
from workloads.common.ray.trainers import TORCH, Kind
from workloads.common.shared import HostFolder

POLL_SECONDS = 0.2
_SHARE_OF_A_CORE = 0.001
"""The resources that a worker asks Ray for: threads are set by the environment, and more ranks than cores are the
user's choice.
"""


class Mailbox:
    """Next to the driver: messages of the workers to it."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._answers: dict[int, Any] = {}
        self._fault: str | None = None

    def put(self, kept: list[Event]) -> None:
        """Add events of a worker to those that wait for the driver."""
        self._events += kept

    def answer(self, rank: int, value: Any) -> None:
        """Keep the answer of a rank; a later one of the same rank takes its place."""
        self._answers[rank] = value

    def refuse(self, fault: str) -> None:
        """Keep what is wrong with the input; the first report counts."""
        self._fault = self._fault or fault

    def take(self) -> tuple[list[Event], str | None]:
        """The events since the last time, and what is wrong with the input, if anything is."""
        taken, self._events = self._events, []
        return taken, self._fault

    def answers(self) -> list[Any]:
        """The answers, in the order of ranks, of those that have given one."""
        return [self._answers[rank] for rank in sorted(self._answers)]


def _loop(config: dict[str, Any]) -> None:
    """Run in each worker its part, while a thread carries its events to the driver."""
    import ray
    from ray import train

    context = train.get_context()
    ranks = Ranks(
        context.get_world_rank(), context.get_world_size(), context.get_local_rank(), context.get_local_world_size()
    )
    mailbox, take, ended = config["mailbox"], events.keep(), threading.Event()
    events.set_rank(ranks.rank)

    def carry() -> None:
        while not ended.wait(POLL_SECONDS):
            if kept := take():
                ray.get(mailbox.put.remote(kept))

    carrier = threading.Thread(target=carry, daemon=True)
    carrier.start()
    try:
        part = config["make"](ranks)
        with config["met"]():
            events.ready()
            folder = HostFolder.of_run(ranks.local_world, config["token"]) if ranks.local_world > 1 else None
            steps(part, folder)
            ray.get(mailbox.answer.remote(ranks.rank, part.answer()))
    except BadInput as error:
        ray.get(mailbox.refuse.remote(str(error)))
        raise
    finally:
        ended.set()
        carrier.join()
        ray.get(mailbox.put.remote(take()))


@contextlib.contextmanager
def answers(make: MakePart, restarts: int, kind: Kind = TORCH) -> Iterator[Sequence[Any]]:
    """Run the parts under Ray Train and give their answers by rank; all start again when a rank is lost, so many times.

    Raises :class:`BadInput` as the parts do. When a rank fails, says which, and ends the process with status 1.
    """
    os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")
    with contextlib.ExitStack() as stack:
        arguments = stack.enter_context(cluster.driver())
        import ray

        with events.phase("rendezvous"):
            ray.init(logging_level=logging.WARNING, **arguments)
            nodes = ray.nodes()
            places = placement.places(nodes, ray.get_runtime_context().get_node_id())
            mailbox = _mailbox()
            folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            gpus = _gpus(nodes, len(places))
            fit = _Fit(kind, make, mailbox, [node for _, node in places], folder, restarts, gpus=gpus)
            fit.wait_until_ready()
        events.ready()
        fit.wait()
        with events.phase("collect"):
            gathered = ray.get(mailbox.answers.remote())
        events.used()
        yield gathered


def _gpus(nodes: Sequence[cluster.Node], ranks: int) -> int:
    """GPUs of each rank: ``REGATTA_RANK_GPUS``, else one where there are enough. WorkerFailed where Ray has fewer."""
    there, asked = cluster.resource(nodes, "GPU"), os.environ.get("REGATTA_RANK_GPUS")
    if asked is None:
        return int(there >= ranks)
    if there < int(asked) * ranks:
        raise WorkerFailed(
            f"{ranks} rank(s) of {asked} GPU(s) do not fit: Ray was told of {there} GPU(s) of its hosts; "
            "run 'regatta provision' again"
        )
    return int(asked)


class _Fit:
    """The trainer's `fit` in a thread, while the driver repeats what the workers say."""

    def __init__(
        self, kind: Kind, make: MakePart, mailbox: Any, nodes: Sequence[str], folder: str, restarts: int, *, gpus: int
    ) -> None:
        from ray.train import FailureConfig, RunConfig, ScalingConfig

        self._mailbox, self._workers = mailbox, len(nodes)
        self._ready: set[int] = set()
        self._error: BaseException | None = None
        trainer = kind.make(
            _loop,
            gpus=bool(gpus),
            train_loop_config={"make": make, "mailbox": mailbox, "met": kind.met, "token": secrets.token_hex(8)},
            scaling_config=ScalingConfig(
                num_workers=len(nodes),
                use_gpu=bool(gpus),
                resources_per_worker={"CPU": _SHARE_OF_A_CORE, **({"GPU": gpus} if gpus else {})},
                placement_strategy="SPREAD",
                label_selector={"ray.io/node-id": f"in({','.join(sorted(set(nodes)))})"},
            ),
            run_config=RunConfig(
                name=os.environ.get("REGATTA_RUN_ID") or "workload",
                storage_path=folder,
                failure_config=FailureConfig(max_failures=restarts),
            ),
        )

        def fit() -> None:
            try:
                trainer.fit()
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=fit, daemon=True)
        self._thread.start()

    def wait_until_ready(self) -> None:
        """Return when every worker has said that it is ready."""
        while len(self._ready) < self._workers:
            self._turn()
            if not self._thread.is_alive():
                self._end()
                return

    def wait(self) -> None:
        """Return when the training has ended well."""
        while self._thread.is_alive():
            self._turn()
        self._end()

    def _turn(self) -> None:
        self._thread.join(POLL_SECONDS)
        self._replay()

    def _replay(self) -> None:
        import ray

        kept, fault = ray.get(self._mailbox.take.remote())
        self._ready |= {event.rank for event in kept if isinstance(event, Ready)}
        events.replay(kept)
        if fault is not None:
            raise BadInput(fault)

    def _end(self) -> None:
        self._replay()
        if self._error is not None:
            raise explained(self._error)


def explained(error: BaseException) -> WorkerFailed:
    """Which rank failed and why, out of what Ray Train raises: one that was lost, before those that noticed it."""
    failures = getattr(error, "worker_failures", None) or {}
    for rank, failure in sorted(failures.items(), key=lambda one: (not _lost(one[1]), one[0])):
        last = str(failure).strip().splitlines()[-1:] or [type(failure).__name__]
        return WorkerFailed(f"rank {rank} failed: {last[0]}", str(failure), rank)
    return WorkerFailed(f"Ray Train failed: {str(error).strip().splitlines()[-1]}", str(error))


def _lost(failure: BaseException) -> bool:
    """Whether a worker's process or host is gone: Ray Train gives one that raised another error."""
    return type(failure).__name__ in ("WorkerHealthCheckFailedError", "WorkerHealthCheckTimeoutError")


def _mailbox() -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0)(Mailbox).options(scheduling_strategy=here).remote()
