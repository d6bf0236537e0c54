"""The graphs, and under which frameworks they run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workloads.common import events, graphs
from workloads.graph_of_tasks import rayobjects

PACKAGE = "workloads.graph_of_tasks"
NUMBERS = tuple(range(1, 9))


@dataclass(frozen=True)
class Options:
    """The parameters of a run: `seconds` of an addition; what is measured of Ray besides the graphs."""

    seconds: float
    calls: int
    largest_mb: int


@dataclass(frozen=True)
class Addition:
    """Adds two numbers, slowly."""

    seconds: float

    def __call__(self, first: int, second: int) -> int:
        """The sum, after so many seconds."""
        time.sleep(self.seconds)
        return first + second


def chain(graph: graphs.Graph, add: Addition, numbers: Sequence[Any]) -> Any:
    """Each addition needs the one before."""
    total = numbers[0]
    for number in numbers[1:]:
        total = graph.submit(add, total, number)
    return graph.get(total)


def tree(graph: graphs.Graph, add: Addition, numbers: Sequence[Any]) -> Any:
    """Pairs are added, then pairs of their sums: those of a level do not need each other."""
    level = list(numbers)
    while len(level) > 1:
        level = [graph.submit(add, *level[first : first + 2]) for first in range(0, len(level), 2)]
    return graph.get(level[0])


def main() -> None:
    """Run with the arguments of the process; bad input ends it with status 2."""
    graphs.main(PACKAGE, _run)


def _run(given: Mapping[str, Any], name: str, graph: graphs.Graph) -> None:
    options = Options(**given)
    show: list[str] = []
    add = Addition(options.seconds)
    events.ready()
    answer: dict[str, Any] = {}
    with events.phase("compute"):
        shapes: tuple[tuple[str, Callable[..., Any]], ...] = (("chain", chain), ("tree", tree))
        for done, (shape, function) in enumerate(shapes, 1):
            start = time.perf_counter()
            with events.phase(shape):
                answer[shape] = function(graph, add, NUMBERS)
            show.append(f"{shape}: {answer[shape]} after {time.perf_counter() - start:.2f} s")
            events.progress("graphs", done, len(shapes))
        if name == "ray":
            show += rayobjects.measured(options.calls, options.largest_mb)
    graphs.told(answer, show)
