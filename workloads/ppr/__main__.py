"""``python -m workloads.ppr --graph FILE``: see docs/workloads.md."""

from __future__ import annotations

import argparse
import functools
import math
import os
from typing import NoReturn

from workloads.common import events, spread
from workloads.common.events import BadInput

ENGINES = ("csr", "torch-ppr")


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are events too."""

    def error(self, message: str) -> NoReturn:
        self.print_usage()
        events.bad_input(message)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog="python -m workloads.ppr",
        description="Personalised PageRank of some sources of a graph, spread over the ranks of a run.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--graph", required=True, metavar="FILE", help="SNAP edge list: lines 'src dst', # comments, .gz, hdfs:// too")
    add("--cache", action="store_true", help="keep the prepared form of a graph in HDFS on each host, for later runs")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--sources", metavar="A,B,..", type=_sources, default=(), help="ids or names of nodes")
    which.add_argument("--count", metavar="K", type=_positive, default=4, help="the K nodes of smallest id (default 4)")
    add("--top", metavar="N", type=_positive, default=10, help="nodes to name for each source (default 10)")
    add("--alpha", type=_probability, default=0.05, help="teleport probability, as in torch-ppr (default 0.05)")
    add("--tolerance", type=_tolerance, default=1e-6, help="L1 distance of the last step (default 1e-6)")
    add("--max-iterations", metavar="N", type=_positive, default=1000, help="default 1000")
    add("--undirected", action="store_true", help="follow edges both ways, A + A^T (default: along their direction)")
    add("--engine", choices=ENGINES, default="csr", help="csr: our own; torch-ppr: the library, for reference")
    add("--framework", choices=("auto", *spread.FRAMEWORKS), default="auto", help="auto: torch where WORLD_SIZE is set")
    return made


def main() -> None:
    """Run with the arguments of the process."""
    given = vars(parser().parse_args())
    framework = given.pop("framework")
    if framework == "auto":
        framework = spread.framework_of_environment()
    if given["engine"] == "torch-ppr" and not given["undirected"]:
        events.bad_input(
            "--engine torch-ppr symmetrises the graph and needs --undirected; --engine csr keeps its directions"
        )
    from workloads.ppr import part

    try:
        with spread.answers(functools.partial(part.Part, part.Options(**given)), framework) as parts:
            if parts is not None:
                answer, show = part.combine(parts)
                events.result(answer, part.TOLERANCE, show)
                if not os.environ.get("REGATTA_RUN_ID"):
                    print("\n".join(show))
    except BadInput as error:
        events.bad_input(error)


def _sources(text: str) -> tuple[str, ...]:
    sources = tuple(source.strip() for source in text.split(","))
    if not all(sources):
        raise argparse.ArgumentTypeError(f"an empty source in {text!r}")
    return sources


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def _probability(text: str) -> float:
    value = float(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def _tolerance(text: str) -> float:
    value = float(text)
    if not (value > 0.0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


if __name__ == "__main__":
    main()
