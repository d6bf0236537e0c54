"""What a person types about runs: `fab --list`. The tasks are regatta's own, so `regatta TASK` does the same."""

# ruff: noqa: E402

import sys

from fabric.main import program

# Invoke prevents that Python keeps what it compiles, so each command would compile the modules below again.
sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)

from regatta.program import ABOUT_HOSTS
from regatta.tasks.namespace import namespace
from regatta.tasks.program import take_over
from regatta.terminal import screen

__all__ = ["namespace"]


def elsewhere() -> dict[str, str]:
    """Commands about hosts."""
    return {name: f"make {name}" for name in ABOUT_HOSTS}


screen.install()
take_over(program, elsewhere)
