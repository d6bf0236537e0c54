"""The program `regatta`: the tasks of the fabfile, in any folder, whose tree is what gets synced; and `regatta
provision`, `check`, `verify`, ...: what `make` does in the checkout."""

import sys
from typing import TYPE_CHECKING, NoReturn

from regatta.tasks import lean  # noqa: F401  before what imports Invoke

# isort: split
from invoke.exceptions import Exit, ParseError
from invoke.executor import Executor

from regatta import completion
from regatta.errors import UsageError
from regatta.program import ABOUT_HOSTS
from regatta.tasks import argv, program
from regatta.tasks.namespace import namespace
from regatta.terminal import screen

if TYPE_CHECKING:
    from invoke.parser.argument import Argument

BEFORE_A_COMMAND = ("h", "l", "V")
"""Short flags before a command: help, list, version."""
FIRST = (
    (("-h", "--help"), "show this, or with a command's name what that takes"),
    (("-l", "--list"), "show the commands"),
    (("-V", "--version"), "show the version"),
)


class Program(program.Program):
    """`regatta`."""

    def core_args(self) -> "list[Argument]":
        """Flags before a command: Invoke's, without short forms that mean something else after it."""
        known = super().core_args()
        for argument in known:
            argument.names = tuple(name for name in argument.names if len(name) > 1 or name in BEFORE_A_COMMAND)
        return known

    def parse_core(self, argv: list[str] | None) -> None:
        """See invoke.program.Program."""
        try:
            super().parse_core(argv)
        except ParseError as error:
            raise Exit(f"error: {error}; 'regatta --help' says more", code=UsageError.exit_code) from None

    def print_version(self) -> None:
        """See invoke.program.Program."""
        from importlib import metadata

        self.version = metadata.version("regatta")
        super().print_version()

    def print_help(self) -> None:
        """See invoke.program.Program. Of its flags before a command only those that one needs."""
        print("Usage: regatta COMMAND [FLAGS]\n       regatta COMMAND --help\n")
        print("Flags before a command:\n")
        self.print_columns([(", ".join(names), what) for names, what in FIRST])
        self.list_tasks()

    def others(self) -> dict[str, str]:
        """Commands about hosts."""
        return {name: f"regatta {name}" for name in (*ABOUT_HOSTS, completion.NAME)}

    def _help(self, name: str, commands: argv.Commands) -> NoReturn:
        if name in ABOUT_HOSTS:
            raise Exit(code=_about_hosts([name, "--help"]))
        super()._help(name, commands)

    def list_tasks(self) -> None:
        """See invoke.program.Program."""
        super().list_tasks()
        if self.list_format != "json":
            print("About hosts:\n")
            self.print_columns(list(ABOUT_HOSTS.items()))
            print("About this program:\n")
            self.print_columns(
                [(completion.NAME, "print what completes words in a shell: regatta completion bash|zsh|fish")]
            )


def _complete(words: list[str]) -> int:
    try:
        print(completion.said(words), end="")
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _about_hosts(arguments: list[str]) -> int:
    from regatta.provisioning import commands as provision

    return provision.main(arguments)


@screen.ends_with_its_reader()
def main() -> None:
    """Run the program `regatta` with the arguments of the process. Ends by SystemExit, with its exit code."""
    screen.install()
    first = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if first[0:1] != "-" and first not in namespace.tasks and first in ABOUT_HOSTS:
        raise SystemExit(_about_hosts(sys.argv[1:]))
    if first == "version":
        sys.argv[1:] = ["--version"]
    if first == "help":
        sys.argv[1:] = [*sys.argv[2:3], "--help"]
    if first == "help" and sys.argv[1] in ABOUT_HOSTS:
        raise SystemExit(_about_hosts(sys.argv[1:]))
    if first == completion.NAME:
        raise SystemExit(_complete(sys.argv[2:]))
    made = Program(
        name="Regatta",
        binary="regatta",
        namespace=namespace,
        executor_class=Executor,
    )
    made.run(sys.argv)
