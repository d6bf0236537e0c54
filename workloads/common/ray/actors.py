"""Parts in Ray actors, one a rank. The driver prints the actors' events on their behalf."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from workloads.common import events
from workloads.common.events import BadInput, Event
from workloads.common.failures import WorkerFailed
from workloads.common.part import MakePart, steps
from workloads.common.ranks import Ranks, group_timeout
from workloads.common.ray import cluster, placement
from workloads.common.shared import HostFolder

POLL_SECONDS = 0.5


class Worker:
    """The actor: one rank's part, and the events of this process until the driver takes them."""

    def __init__(self, make: MakePart, ranks: Ranks, token: str) -> None:
        self._take = events.keep()
        events.set_rank(ranks.rank)
        self._ranks = ranks
        self._folder = HostFolder.of_run(ranks.local_world, token) if ranks.local_world > 1 else None
        self._part = make(ranks)

    def ready(self) -> None:
        """The actors are ready."""
        events.ready()

    def meeting_point(self) -> tuple[str, int]:
        """Address and port of the store in which the actors find each other; rank 0 holds it."""
        import ray
        from torch.distributed import TCPStore

        address = ray.util.get_node_ip_address()
        self._store = TCPStore(address, 0, self._ranks.world, is_master=True, wait_for_workers=False)
        return address, self._store.port

    def join(self, address: str, port: int) -> None:
        """Form torch's process group."""
        import torch.distributed as dist

        store = self._store if self._ranks.rank == 0 else dist.TCPStore(address, port, self._ranks.world)
        dist.init_process_group(
            "gloo", store=store, rank=self._ranks.rank, world_size=self._ranks.world, timeout=group_timeout()
        )

    def threads(self) -> dict[str, str | None]:
        """The thread counts that this process's libraries saw when they were imported."""
        return cluster.threads()

    def steps(self) -> str | None:
        """Load and compute; returns what is wrong with the input, if anything is."""
        try:
            steps(self._part, self._folder)
        except BadInput as error:
            return str(error)
        return None

    def take_events(self) -> list[Event]:
        """Take out the events of this process that were kept since the last time."""
        return self._take()

    def answer(self) -> Any:
        """The answer of this rank's part, once :meth:`steps` has ended."""
        return self._part.answer()


class _ActorGroup:
    """The actors by rank, with the address of each one's node."""

    def __init__(self, make: MakePart, places: Sequence[tuple[str, str]]) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._ray = ray
        self._addresses = [address for address, _ in places]
        self._polls: dict[Any, int] = {}
        ranks, token = placement.ranks([node for _, node in places]), secrets.token_hex(8)
        actor = ray.remote(num_cpus=0, max_restarts=0, concurrency_groups={"watch": 1})(Worker)
        self._actors = [
            actor.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(make, own, token)
            for own, (_, node) in zip(ranks, places, strict=True)
        ]

    def form(self, *, grouped: bool) -> None:
        """Wait until every actor is ready, in torch's process group where it is to be."""
        threads = cluster.threads()
        for rank, seen in enumerate(self._all([actor.threads.remote() for actor in self._actors])):
            if any(seen[name] != wanted for name, wanted in threads.items() if wanted):
                events.warning(f"rank {rank} on {self._addresses[rank]} runs with {seen}, the driver with {threads}")
        if grouped:
            meeting_point = self._get(self._actors[0].meeting_point.remote(), 0)
            self._all([actor.join.remote(*meeting_point) for actor in self._actors])
        self._all([actor.ready.remote() for actor in self._actors])
        self._drain()

    def steps(self) -> None:
        """Let all load and compute, and print their events meanwhile. The first that fails ends it."""
        pending = {actor.steps.remote(): rank for rank, actor in enumerate(self._actors)}
        while pending:
            done, _ = self._ray.wait(list(pending), num_returns=1, timeout=POLL_SECONDS)
            self._replay(wait=False)
            for ref in done:
                rank = pending.pop(ref)
                fault = self._get(ref, rank)
                if fault:
                    raise BadInput(fault)
            if not done:
                self._poll()
        self._drain()

    def answers(self) -> list[Any]:
        return self._all([actor.answer.remote() for actor in self._actors])

    def _drain(self) -> None:
        self._replay(wait=True)
        self._poll()
        self._replay(wait=True)

    def _poll(self) -> None:
        asked = set(self._polls.values())
        for rank, actor in enumerate(self._actors):
            if rank not in asked:
                self._polls[actor.take_events.options(concurrency_group="watch").remote()] = rank

    def _replay(self, wait: bool) -> None:
        refs = list(self._polls)
        if not wait and refs:
            refs, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in refs:
            events.replay(self._get(ref, self._polls.pop(ref)))

    def _all(self, refs: list[Any]) -> list[Any]:
        """The values of refs by rank, failing as soon as any fails."""
        values: dict[Any, Any] = {}
        while len(values) < len(refs):
            done, _ = self._ray.wait([ref for ref in refs if ref not in values], num_returns=1)
            values.update((ref, self._get(ref, refs.index(ref))) for ref in done)
        return [values[ref] for ref in refs]

    def _get(self, ref: Any, rank: int) -> Any:
        from ray.exceptions import RayActorError, RayError, RayTaskError

        at = self._addresses[rank]
        try:
            return self._ray.get(ref)
        except RayTaskError as error:
            cause = f"{type(error.cause).__name__}: {error.cause}"
            raise WorkerFailed(f"rank {rank} on {at} failed: {cause}", str(error), rank, at) from None
        except RayActorError as error:
            raise WorkerFailed(f"rank {rank} on {at} died", str(error), rank, at) from None
        except RayError as error:
            raise WorkerFailed(f"rank {rank} on {at} is lost", str(error), rank, at) from None


@contextlib.contextmanager
def answers(make: MakePart, *, grouped: bool) -> Iterator[Sequence[Any]]:
    """Run the parts in actors placed by ``REGATTA_RANK_MAP``, and give their answers by rank.

    `grouped`: in torch's process group.

    Raises :class:`BadInput` as the actors do. When a rank fails, says which, and ends the process with status 1.
    """
    with cluster.driver() as arguments:
        import ray

        with events.phase("rendezvous"):
            ray.init(logging_level=logging.WARNING, **arguments)
            group = _ActorGroup(make, placement.places(ray.nodes(), ray.get_runtime_context().get_node_id()))
            group.form(grouped=grouped)
        events.ready()
        group.steps()
        with events.phase("collect"):
            gathered = group.answers()
        events.used()
        yield gathered
