"""``python -m workloads.stars``: see docs/workloads.md."""

from __future__ import annotations

from workloads.common import arguments, command


def parser() -> arguments.Parser:
    """The command line."""
    made = arguments.Parser(
        prog="python -m workloads.stars",
        description="Stars and galaxies told apart by a linear model, trained over the ranks of a run.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add(
        "--data",
        default="generated",
        metavar="FILE",
        help="CSV of SDSS, .gz or not, also hdfs://; a folder made by workloads.stars.prepare; generated (default)",
    )
    add("--size", metavar="N", type=arguments.positive, default=100_000, help="rows to generate (default 100000)")
    add("--least-correlation", type=float, default=0.1, help="with the type, for a column to stay (default 0.1)")
    add("--most-correlation", type=float, default=0.75, help="of two columns; the later goes (default 0.75)")
    arguments.add_training(made, epochs=3, batch=128, learning_rate=0.01)
    return made


if __name__ == "__main__":
    command.main(parser(), "workloads.stars.part", grouped=lambda _: "train", fault=arguments.training_fault)
