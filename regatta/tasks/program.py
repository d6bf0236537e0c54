"""Invoke's tasks and program, in which `argv` tells the words of a command line apart."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from invoke.exceptions import Exit, ParseError
from invoke.parser import Parser
from invoke.program import Program as InvokeProgram
from invoke.tasks import Task as InvokeTask

from regatta.errors import RegattaError, UsageError
from regatta.options.option import RUN
from regatta.tasks import argv
from regatta.terminal import screen

TAKEN_BY_FABRIC = {"identity": "-i", "warn-only": "-w"}
"""Flags of Fabric's own, known before a command only, whose letters mean something else after it."""

_typed = argv.Typed()


def of_script() -> argv.Typed:
    """The command line: which of its words are the script's, exactly as typed, and notes about them."""
    return _typed


class Task(InvokeTask[Any]):
    """A task whose flags have the short forms of `SHORT_FLAGS` and no others. `runs_script`: see `argv.read`.

    `further`: the flag that words behind its positional arguments are values of, each of them.
    """

    runs_script = False
    further: str | None = None

    def arg_opts(self, name: str, default: Any, taken_names: set[str]) -> dict[str, Any]:
        """See invoke.tasks.Task."""
        made: dict[str, Any] = super().arg_opts(name, default, taken_names)
        made["names"] = [made["names"][0], *argv.SHORT_FLAGS.get(name, "")]
        return made


class Program(InvokeProgram):
    """Invoke's program, or Fabric's (`take_over`), which tells words apart by `argv.read`, and says what is unknown."""

    _parser: Parser | None = None

    def others(self) -> Mapping[str, str]:
        """Commands that are typed elsewhere, each as it is typed there."""
        return {}

    def _make_parser(self) -> Parser:
        # Once: a task hands out its help texts the first time only.
        self._parser = self._parser or super()._make_parser()
        return self._parser

    def parse_tasks(self) -> None:
        """See invoke.program.Program. Python keeps what it compiles, which Invoke prevents."""
        sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)
        self.parser = self._make_parser()
        try:
            self._parse()
        except RegattaError as error:
            raise Exit(f"error: {error}", code=error.exit_code) from None
        except ParseError as error:
            raise Exit(f"error: {error}; '{self.binary} --help' says more", code=UsageError.exit_code) from None

    @screen.ends_with_its_reader()
    def parse_cleanup(self) -> None:
        """See invoke.program.Program."""
        super().parse_cleanup()

    @screen.ends_with_its_reader()
    def execute(self) -> None:
        """See invoke.program.Program."""
        super().execute()

    def _commands(self) -> argv.Commands:
        tasks = self.collection.tasks
        scripts = [name for name, task in tasks.items() if getattr(task, "runs_script", False)]
        further = {name: task.further for name, task in tasks.items() if getattr(task, "further", None)}
        first = list(self.initial_context.flags)
        return argv.Commands(self.binary, first, self.parser.contexts, scripts, self.others, further)

    @screen.ends_with_its_reader()
    def _parse(self) -> None:
        asked, commands = self.args.help.value, self._commands()
        if isinstance(asked, str):
            self._help(asked, commands)
        if isinstance(self.args.list.value, str):
            raise UsageError(f"--list takes no word; '{self.binary} --help {self.args.list.value}' tells of a command")
        for name, letter in TAKEN_BY_FABRIC.items():
            if letter[1:] in self.args and self.args[name].value:
                raise UsageError(
                    f"{letter} before a command is Fabric's --{name}, which does nothing here: "
                    f"write flags of a command after its name, '{self.binary} COMMAND {letter} ...'"
                )
        if asked or not self.core.unparsed:
            self.core.unparsed = []
        else:
            after = self.argv[self.argv.index("--") :] if "--" in self.argv else []
            found = argv.read(commands, [*self.core.unparsed, *after])
            if found.help:
                self._help(found.help, commands)
            for note in found.notes:
                print(f"note: {note}", file=sys.stderr)
            self.core.unparsed = found.own
            vars(_typed).update(vars(found))
        super().parse_tasks()

    def _help(self, name: str, commands: argv.Commands) -> NoReturn:
        if name == RUN:
            from regatta.cards import discovery

            print(f"A workload, compared under frameworks: {argv.workloads(self.binary, discovery.every(Path.cwd()))}")
            print(f"'{self.binary} {RUN} NAME --help' has its flags.")
            raise Exit
        if name not in commands.known:
            raise UsageError(argv.unknown(commands, name))
        self.print_task_help(name)
        raise Exit

    def print_task_help(self, name: str) -> None:
        """See invoke.program.Program."""
        commands = self._commands()
        print(f"Usage: {argv.usage(commands, name)}\n")
        for line in (self.collection[name].__doc__ or "").strip().splitlines():
            print(f"{self.leading_indent}{line.strip()}".rstrip())
        if name in commands.scripts:
            given = str(commands.known[name].positional_args[-1].name)
            print(f"{self.leading_indent}Flags come before {given.upper()}; all words after it are the {given}'s.")
        print("\nFlags:\n")
        self.print_columns([*commands.known[name].help_tuples(), (", ".join(argv.HELP[::-1]), "show this")])


def take_over(program: InvokeProgram, others: Callable[[], Mapping[str, str]]) -> None:
    """Have a program of another's, which may be at work already, tell words apart as `Program` does."""
    if not isinstance(program, Program):
        body = {"others": lambda self: others()}
        program.__class__ = type(type(program).__name__, (Program, type(program)), body)
