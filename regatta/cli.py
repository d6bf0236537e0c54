"""The program `regatta`: the tasks of the fabfile, in any folder; that folder's tree is what gets synced."""

import sys
from importlib import metadata

from invoke.executor import Executor as InvokeExecutor
from invoke.program import Program

from regatta.tasks import namespace


class Executor(InvokeExecutor):
    """Leaves the words after `--` to the task."""


def main() -> None:
    """Entry point."""
    program = Program(
        name="Regatta",
        binary="regatta",
        namespace=namespace,
        version=metadata.version("regatta"),
        executor_class=Executor,
    )
    program.run(sys.argv)
