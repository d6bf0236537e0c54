"""The graphs, and under which frameworks they run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workloads.common import cardfile, commandline, events, framework
from workloads.graph_of_tasks import graphs, rayobjects

PACKAGE = "workloads.graph_of_tasks"
NUMBERS = tuple(range(1, 9))


@dataclass(frozen=True)
class Options:
    """The parameters of a run: `seconds` of an addition; what is measured of Ray beside the graphs."""

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
    try:
        given = vars(commandline.parser(cardfile.of_package(PACKAGE), PACKAGE).parse_args())
        chosen = given.pop("framework")
        name = framework.of_environment() if chosen == framework.AUTO else chosen
        if name not in graphs.KINDS:
            raise events.BadInput(f"the framework {name} runs no graphs, {', '.join(graphs.KINDS)} do")
        _run(Options(**given), name)
    except events.BadInput as error:
        events.bad_input(error)


def _run(options: Options, name: str) -> None:
    show: list[str] = []
    add = Addition(options.seconds)
    with graphs.KINDS[name]() as graph:
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
        events.used()
        events.result(answer, {}, show)
        if not os.environ.get("REGATTA_RUN_ID"):
            print("\n".join(show))
