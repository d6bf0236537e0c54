"""``python -m workloads.digits``: see docs/workloads.md."""

from __future__ import annotations

from workloads.common import arguments, command

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


if __name__ == "__main__":
    command.main(parser(), "workloads.digits.part", grouped=lambda _: "train", fault=arguments.training_fault)
