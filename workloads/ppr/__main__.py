"""``python -m workloads.ppr --graph FILE``: see docs/workloads.md."""

from __future__ import annotations

import argparse
from typing import Any

from workloads.common import arguments, command
from workloads.common.part import Group

ENGINES = ("csr", "cg", "push", "torch-ppr")
PARTITIONS = ("sources", "graph")


def parser() -> arguments.Parser:
    """The command line."""
    made = arguments.Parser(
        prog="python -m workloads.ppr",
        description="Personalised PageRank of some sources of a graph, spread over the ranks of a run.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add(
        "--graph",
        required=True,
        metavar="FILE",
        help="SNAP edge list: lines 'src dst', # comments, .gz, hdfs:// too; or a folder of `rmat`",
    )
    add("--cache", action="store_true", help="keep the prepared form of the graph on each host, for later runs")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--sources", metavar="A,B,..", type=_sources, default=(), help="ids or names of nodes")
    which.add_argument(
        "--count", metavar="K", type=arguments.positive, default=4, help="the K nodes of smallest id, default 4"
    )
    add("--top", metavar="N", type=arguments.positive, default=10, help="nodes to name for each source (default 10)")
    add("--alpha", type=_probability, default=0.05, help="teleport probability, as in torch-ppr (default 0.05)")
    add("--tolerance", type=arguments.positive_real, default=1e-6, help="L1 distance of the last step (default 1e-6)")
    add("--max-iterations", metavar="N", type=arguments.positive, default=1000, help="default 1000")
    add("--undirected", action="store_true", help="follow edges both ways, A + A^T (default: along their direction)")
    add(
        "--engine",
        choices=ENGINES,
        default="csr",
        help="csr: power iteration; cg: conjugate gradients, needs --undirected; push: local, --tolerance bounds its "
        "error; torch-ppr: the library, for reference",
    )
    add(
        "--partition",
        choices=PARTITIONS,
        default="sources",
        help="what a rank has: some sources, or some of the graph's rows",
    )
    arguments.add_framework(made)
    return made


def fault(given: dict[str, Any]) -> str | None:
    """What is wrong with arguments that do not go together."""
    if given["engine"] == "torch-ppr" and not given["undirected"]:
        return "--engine torch-ppr symmetrises the graph and needs --undirected; --engine csr keeps its directions"
    if given["engine"] == "cg" and not given["undirected"]:
        return "--engine cg solves a symmetric system and needs --undirected; --engine csr takes edges with directions"
    if given["partition"] == "graph" and given["engine"] != "csr":
        return f"--partition graph needs --engine csr: {given['engine']} works on the whole graph"
    if given["partition"] == "graph" and given["cache"]:
        return "--cache keeps whole graphs: leave it out with --partition graph"
    return None


def grouped(given: dict[str, Any]) -> Group | None:
    """Whether the ranks talk to each other: where each has only a part of the graph."""
    return "actors" if given["partition"] == "graph" else None


def _sources(text: str) -> tuple[str, ...]:
    sources = tuple(source.strip() for source in text.split(","))
    if not all(sources):
        raise argparse.ArgumentTypeError(f"an empty source in {text!r}")
    return sources


def _probability(text: str) -> float:
    value = float(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


if __name__ == "__main__":
    command.main(parser(), "workloads.ppr.part", grouped=grouped, fault=fault)
