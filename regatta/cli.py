"""The program `regatta`: the tasks of the fabfile, in any folder, whose tree is what gets synced; and `regatta
provision`, `check`, `verify`, ...: what `make` does in the checkout."""

import sys
from importlib import metadata

from invoke.executor import Executor as InvokeExecutor
from invoke.program import Program

from regatta import provision
from regatta.tasks import namespace


class Executor(InvokeExecutor):
    """Leaves the words after `--` to the task."""


def main() -> None:
    """Run the program `regatta` with the arguments of the process. Ends by SystemExit, with its exit code."""
    if len(sys.argv) > 1 and sys.argv[1] in provision.COMMANDS:
        raise SystemExit(provision.main(sys.argv[1:]))
    program = Program(
        name="Regatta",
        binary="regatta",
        namespace=namespace,
        version=metadata.version("regatta"),
        executor_class=Executor,
    )
    program.run(sys.argv)
