"""``python -m workloads.digits``: see docs/workloads.md."""

from __future__ import annotations

import functools
import os

from workloads.common import arguments, events, spread
from workloads.common.events import BadInput

MODELS = ("perceptron", "cnn")


def parser() -> arguments.Parser:
    """The command line."""
    made = arguments.Parser(
        prog="python -m workloads.digits",
        description="Classification of digit images, trained over the ranks of a run.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add(
        "--data",
        default="generated",
        metavar="FOLDER",
        help="folder, also hdfs://, of the four IDX files of MNIST or EMNIST, .gz or not; handwritten: scikit-learn's; "
        "generated: these distorted (default)",
    )
    add("--size", metavar="N", type=arguments.positive, default=20_000, help="images to generate (default 20000)")
    add("--model", choices=MODELS, default="perceptron", help="default perceptron: 784-128-64-10")
    arguments.add_training(made, epochs=3, batch=64, learning_rate=0.01)
    return made


def main() -> None:
    """Run with the arguments of the process."""
    given = vars(parser().parse_args())
    framework = given.pop("framework")
    if framework == "auto":
        framework = spread.framework_of_environment()
    if given["checkpoint_every"] and not given["checkpoint"]:
        events.bad_input("--checkpoint-every needs --checkpoint FILE")
    from workloads.digits import part

    try:
        with spread.answers(functools.partial(part.Part, part.Options(**given)), framework, grouped=True) as parts:
            if parts is not None:
                answer, show = part.combine(parts)
                events.result(answer, part.TOLERANCE, show)
                if not os.environ.get("REGATTA_RUN_ID"):
                    print("\n".join(show))
    except BadInput as error:
        events.bad_input(error)


if __name__ == "__main__":
    main()
