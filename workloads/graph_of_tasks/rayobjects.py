"""The costs of Ray's tasks, actors and objects: rates, latencies, seconds by size. As phases and lines for a person."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from workloads.common import events

KB = 1 << 10
STEP = 16
"""Sizes grow so many times from one to the next."""


class Counter:
    """An actor with state."""

    def __init__(self) -> None:
        self._value = 0

    def add(self) -> int:
        """Count one more."""
        self._value += 1
        return self._value


def measured(calls: int, largest_mb: int) -> list[str]:
    """Measure with so many calls, and objects up to so many MB; 0: not."""
    return [*_tasks(calls), *_actor(calls), *_objects(largest_mb << 20)]


def _nothing() -> None:
    pass


def _tasks(calls: int) -> Iterator[str]:
    if not calls:
        return
    import ray

    nothing = ray.remote(_nothing)
    ray.get(nothing.remote())
    with events.phase("task-latency"):
        alone = _seconds(lambda: [ray.get(nothing.remote()) for _ in range(calls)]) / calls
    with events.phase("tasks"):
        together = calls / _seconds(lambda: ray.get([nothing.remote() for _ in range(calls)]))
    yield f"empty tasks: {alone * 1e3:.2f} ms one after the other, {together:,.0f} a second together"


def _actor(calls: int) -> Iterator[str]:
    if not calls:
        return
    import ray

    counter = ray.remote(num_cpus=0)(Counter).remote()
    ray.get(counter.add.remote())
    with events.phase("actor-latency"):
        alone = _seconds(lambda: [ray.get(counter.add.remote()) for _ in range(calls)]) / calls
    with events.phase("actor-calls"):
        together = calls / _seconds(lambda: ray.get([counter.add.remote() for _ in range(calls)]))
    if (counted := ray.get(counter.add.remote())) != 2 * calls + 2:
        raise RuntimeError(f"the actor has counted {counted} calls of {2 * calls + 2}")
    yield f"an actor with state: {alone * 1e3:.2f} ms a call, {together:,.0f} calls a second"


def smallest_store(nodes: Sequence[dict[str, Any]]) -> int:
    """Bytes of the smallest object store of the nodes that are there; `nodes` as `ray.nodes()` gives them."""
    stores = [node["Resources"].get("object_store_memory", 0) for node in nodes if node["Alive"]]
    return int(min(stores, default=0))


def _objects(largest: int) -> Iterator[str]:
    import ray

    room = smallest_store(ray.nodes())
    size = KB
    while size <= largest:
        if 2 * size > room:
            yield f"objects of {size / KB:,.0f} KB and more: left out, a store of {room >> 20:,} MB does not hold two"
            return
        yield _object(ray, size)
        size *= STEP


def _object(ray: Any, size: int) -> str:
    import numpy as np

    data = np.ones(size, np.uint8)
    took = []
    made: list[Any] = []
    steps = (
        ("put", lambda: made.append(ray.put(data))),
        ("wait", lambda: ray.wait(made, num_returns=1)),
        ("get", lambda: int(ray.get(made[0])[-1])),
    )
    for word, step in steps:
        with events.phase(f"{word}-{size // KB}-kb"):
            took.append(f"{word} {_seconds(step) * 1e3:.2f} ms")
    return f"an object of {size // KB:,} KB: {', '.join(took)}"


def _seconds(step: Any) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start
