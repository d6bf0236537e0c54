"""Runs the parts of a workload in Ray actors. The driver is rank -1 and prints the actors' events on their behalf."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.common import events, spread
from workloads.common.events import BadInput, Event
from workloads.common.ranks import Ranks, group_timeout
from workloads.common.shared import HostFolder

if TYPE_CHECKING:
    from workloads.common.spread import MakePart

POLL_SECONDS = 0.5
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
DRIVER_RANK = -1

_OBJECT_STORE_BYTES = 128 << 20
_INHERITED = ("RAY_JOB_CONFIG_JSON_ENV_VAR", "REGATTA_RUN_ID")
"""Where one is set, actors have the driver's environment already; giving it again costs 1.5 s of starting them anew."""


class WorkerFailed(Exception):
    """A rank has no node, died or raised; the message names its rank and node. `log` is what else its node says.

    `rank` and the `address` of its host are None where they are not known.
    """

    def __init__(self, message: str, log: str = "", rank: int | None = None, address: str | None = None) -> None:
        super().__init__(message)
        self.log, self.rank, self.address = log, rank, address


class Worker:
    """The actor: one rank's part, and the events of this process until the driver takes them."""

    def __init__(self, make: MakePart, ranks: Ranks, token: str) -> None:
        self._take = events.keep()
        events.set_rank(ranks.rank)
        self._ranks = ranks
        self._folder = HostFolder.of_run(ranks.local_world, token) if ranks.local_world > 1 else None
        self._part = make(ranks)

    def ready(self) -> None:
        """The actors stand."""
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
        return _threads()

    def steps(self) -> str | None:
        """Load and compute; returns what is wrong with the input, if anything is."""
        try:
            spread.steps(self._part, self._folder)
        except BadInput as error:
            return str(error)
        return None

    def take_events(self) -> list[Event]:
        """Take out the events of this process that were kept since the last time."""
        return self._take()

    def answer(self) -> Any:
        """The answer of this rank's part, once :meth:`steps` has ended."""
        return self._part.answer()


class _Crew:
    """The actors by rank, with the address of each one's node."""

    def __init__(self, make: MakePart, places: Sequence[tuple[str, str]]) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._ray = ray
        self._addresses = [address for address, _ in places]
        self._polls: dict[Any, int] = {}
        ranks, token = _ranks([node for _, node in places]), secrets.token_hex(8)
        actor = ray.remote(num_cpus=0, max_restarts=0, concurrency_groups={"watch": 1})(Worker)
        self._actors = [
            actor.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(make, own, token)
            for own, (_, node) in zip(ranks, places, strict=True)
        ]

    def form(self, *, grouped: bool) -> None:
        """Wait until every actor is ready, in torch's process group where it is to be."""
        threads = _threads()
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
    events.set_rank(DRIVER_RANK)
    with contextlib.ExitStack() as stack:
        arguments = stack.enter_context(cluster())
        import ray

        stack.callback(ray.shutdown)
        stack.enter_context(failures_said())
        with events.phase("rendezvous"):
            ray.init(logging_level=logging.WARNING, **arguments)
            crew = _Crew(make, _places(ray.nodes(), ray.get_runtime_context().get_node_id()))
            crew.form(grouped=grouped)
        events.ready()
        crew.steps()
        with events.phase("collect"):
            gathered = crew.answers()
        events.used()
        yield gathered


@contextlib.contextmanager
def failures_said() -> Iterator[None]:
    """Tell of a failed rank at once, since leaving Ray takes its time, and end."""
    try:
        yield
    except WorkerFailed as failed:
        print(failed.log or failed, file=sys.stderr, flush=True)
        if failed.rank is not None:
            events.failed(failed.rank, failed.address, failed.log or str(failed))
        events.warning(str(failed))
        sys.exit(1)


@contextlib.contextmanager
def cluster() -> Iterator[dict[str, Any]]:
    """Give arguments for ``ray.init``: of the cluster at ``RAY_ADDRESS``, or of a private one with a token of its own.

    Ray reads its authentication from the environment when it is imported, thus after this.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if os.environ.get("RAY_ADDRESS"):
        inherited = any(os.environ.get(name) for name in _INHERITED)
        yield {} if inherited else {"runtime_env": {"env_vars": _passed_on()}}
        return
    with tempfile.TemporaryDirectory(prefix="regatta-ray-", ignore_cleanup_errors=True) as folder:
        if not os.environ.get("RAY_AUTH_MODE"):
            token = Path(folder) / "token"
            token.touch(mode=0o600)
            token.write_text(secrets.token_hex(32))
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token))
        os.environ.update(_passed_on())
        yield {
            "include_dashboard": False,
            "object_store_memory": _OBJECT_STORE_BYTES,
            "_temp_dir": folder,
            "_node_ip_address": "127.0.0.1",
        }


def _passed_on() -> dict[str, str]:
    """What actors must have in their environment before they import anything."""
    passed = {name: value for name, value in os.environ.items() if name.startswith("REGATTA_")}
    passed.update({name: value for name, value in _threads().items() if value})
    root = str(Path(__file__).resolve().parents[2])
    passed["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return passed


def _places(nodes: Sequence[dict[str, Any]], own_node: str) -> list[tuple[str, str]]:
    """(address, Ray's node id) of each rank: by ``REGATTA_RANK_MAP``, else ``REGATTA_WORKERS``, default one a core.

    A loopback address is the driver's node: Ray itself replaces 127.0.0.1 by an address of the machine's network.
    """
    alive = {node["NodeManagerAddress"]: node["NodeID"] for node in nodes if node["Alive"]}
    addresses = json.loads(os.environ.get("REGATTA_RANK_MAP") or "[]")
    if not addresses:
        cores = sum(int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"])
        workers = int(os.environ.get("REGATTA_WORKERS") or max(cores, 1))
        addresses = sorted(list(alive)[rank % len(alive)] for rank in range(workers))
    known = {**{address: own_node for address in addresses if address.startswith("127.")}, **alive}
    missing = sorted(set(addresses) - set(known))
    if missing:
        raise WorkerFailed(f"no Ray node at {', '.join(missing)}: the cluster has {', '.join(sorted(alive))}")
    return [(address, known[address]) for address in addresses]


def _ranks(nodes: Sequence[str]) -> list[Ranks]:
    sizes, seen, ranks = Counter(nodes), Counter[str](), []
    for rank, node in enumerate(nodes):
        ranks.append(Ranks(rank, len(nodes), seen[node], sizes[node]))
        seen[node] += 1
    return ranks


def _threads() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in THREAD_VARIABLES}
