"""The trainers of Ray Train, by the library through which their workers talk."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from workloads.common import mirrored
from workloads.common.ranks import backend, group_timeout

PORTS = "REGATTA_PORTS"


@dataclass(frozen=True)
class Kind:
    """`make`: a trainer, of a loop, with GPUs or not, and arguments; `met`: what a worker does its part in."""

    make: Callable[..., Any]
    met: Callable[[], AbstractContextManager[None]]


def _without_cleaner(trainer: Any) -> Any:
    """A trainer's class without Ray Train's PlacementGroupCleaner where Ray has no dashboard, as a run's own Ray.

    It asks the dashboard each second whether the training is running. Without a dashboard it waits 20 s for one: the
    training would end 12 s late. All that it would clean up ends with such a Ray.
    """

    class Own(trainer):  # type: ignore[misc]
        def _create_default_callbacks(self) -> list[Any]:
            from ray._private import ray_constants
            from ray.experimental import internal_kv
            from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback

            found: list[Any] = super()._create_default_callbacks()
            space = ray_constants.KV_NAMESPACE_DASHBOARD
            if internal_kv._internal_kv_get(ray_constants.DASHBOARD_ADDRESS, namespace=space):
                return found
            return [one for one in found if not isinstance(one, PlacementGroupCleanerCallback)]

    return Own


def _torch(loop: Any, *, gpus: bool, **arguments: Any) -> Any:
    from ray.train.torch import TorchConfig, TorchTrainer

    seconds = group_timeout().total_seconds()
    config = TorchConfig(backend=backend(gpus=gpus), timeout_s=max(1, round(seconds)))
    return _without_cleaner(TorchTrainer)(loop, torch_config=config, **arguments)


def _tensorflow(loop: Any, *, gpus: bool, **arguments: Any) -> Any:
    from ray.train.backend import Backend
    from ray.train.tensorflow import TensorflowConfig, TensorflowTrainer
    from ray.train.tensorflow.config import _setup_tensorflow_environment

    class Meeting(Backend):  # type: ignore[misc]
        """As Ray Train's own, which takes any free port: here they are those that only runs reach."""

        def on_start(self, worker_group: Any, backend_config: Any) -> None:
            """Tell each worker where all are."""
            places = shared_out(worker_group.execute(free_ports))
            for index in range(len(places)):
                worker_group.execute_single(index, _setup_tensorflow_environment, places, index)

    class Config(TensorflowConfig):  # type: ignore[misc]
        """Ray Train's own, with that meeting."""

        @property
        def backend_cls(self) -> Any:
            return Meeting

    return _without_cleaner(TensorflowTrainer)(loop, tensorflow_config=Config(), **arguments)


TORCH = Kind(_torch, contextlib.nullcontext)
TENSORFLOW = Kind(_tensorflow, mirrored.met)


def free_ports() -> tuple[str, list[int]]:
    """The address of this host for the other ranks, and ports there that are free: of ``REGATTA_PORTS``, or any."""
    address = _own_address()
    first, _, last = os.environ.get(PORTS, "").partition("-")
    asked = random.sample(range(int(first), int(last) + 1), int(last) + 1 - int(first)) if last else [0] * 64
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        for port in asked:
            listening = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                listening.bind((address, port))
                found.append(listening.getsockname()[1])
    return address, found


def _own_address() -> str:
    """Of this host in ``REGATTA_RANK_MAP``; where that has none, as Ray knows it: never a loopback address."""
    import ray

    for address in json.loads(os.environ.get("REGATTA_RANK_MAP") or "[]"):
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind((address, 0))
            return str(address)
    return str(ray.util.get_node_ip_address())


def shared_out(found: list[tuple[str, list[int]]]) -> list[str]:
    """Each worker's own place (address:port), of what its node has free. Raises RuntimeError where none is.

    `found`: address and free ports of each worker's node.
    """
    places: list[str] = []
    for address, ports in found:
        place = next((at for port in ports if (at := f"{address}:{port}") not in places), None)
        if place is None:
            raise RuntimeError(f"{address} has no free port left for one more of {len(found)} workers")
        places.append(place)
    return places
