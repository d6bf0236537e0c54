"""Whose each word of a command line is: a command's, its script's, or neither's; then it says what was meant.

Words before a script's name are Regatta's, and all after it the script's, as with torchrun and python.
"""

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from invoke.parser.context import ParserContext

from regatta.errors import UsageError
from regatta.options.option import RUN

SHORT_FLAGS = {"help": "h", "inventory": "i", "ask_become_pass": "K", "workers": "w", "yes": "y"}
"""All short flags of commands: each means the same wherever it is known."""
COMMAND = "command"
"""A positional argument that may follow `--`: another program, whose words follow."""
RANKS, WORKERS = "-n", "-w"
"""The first is typed as with srun and mpirun, and means the second."""
MODULE = "-m"

HELP = ("--help", f"-{SHORT_FLAGS['help']}")


@dataclass
class Typed:
    """The words that were typed: `own` is Regatta's, `script` the script's (None where none is named), `help` names a
    command.

    `module`: a module is to run, named as the script would be. `notes`: what a person reads of the script's words.
    """

    own: list[str] = field(default_factory=list)
    script: list[str] | None = None
    help: str | None = None
    module: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Commands:
    """The words that can be typed: `binary` is the program, `known` its commands with their flags, `scripts` those that
    run one.

    `first`: flags before a command. `others` gives commands that are typed elsewhere, each as it is typed there.
    `further`: by command the flag that words behind its positional arguments are values of.
    """

    binary: str
    first: Collection[str]
    known: Mapping[str, ParserContext]
    scripts: Collection[str]
    others: Callable[[], Mapping[str, str]] = dict
    further: Mapping[str, str] = field(default_factory=dict)


def read(commands: Commands, words: list[str]) -> Typed:
    """Tell the words of a command line apart. UsageError where a word is neither's."""
    return _Reader(commands, words).read()


class _Reader:
    def __init__(self, commands: Commands, words: list[str]) -> None:
        self._all, self._words = commands, words
        self._at = 0
        self._typed = Typed()
        self._command: ParserContext | None = None
        self._missing: list[str] = []
        self._given: set[str] = set()

    def read(self) -> Typed:
        typed = self._typed
        while typed.help is None and typed.script is None and self._at < len(self._words):
            self._next()
        if typed.help is None:
            self._complete()
        return typed

    def _name(self) -> str:
        return str(self._command.name) if self._command else ""

    def _runs_script(self) -> bool:
        return self._name() in self._all.scripts

    def _next(self) -> None:
        self._join()
        word = self._words[self._at]
        if word == "--" and self._missing == [COMMAND] and self._at + 1 < len(self._words):
            self._at += 1
            self._given.add(self._missing.pop(0))
            self._take(1)
        elif word == "--" and self._command is not None:
            self._refuse_dashes()
        elif self._command is not None and is_flag(word):
            self._flag(word, self._command)
        elif self._missing:
            self._given.add(self._missing.pop(0))
            self._take(1)
        elif self._name() in self._all.further:
            self._typed.own += [f"--{self._all.further[self._name()]}", word]
            self._at += 1
        elif word == RUN and self._words[self._at + 1 :] and self._words[self._at + 1] in HELP:
            self._typed.help = RUN
        elif word in self._all.known:
            self._complete()
            self._command = self._all.known[word]
            self._given = set()
            self._missing = [str(argument.name) for argument in self._command.positional_args]
            self._take(1)
            return
        else:
            self._unknown(word)
        if self._typed.help is None and self._command is not None and self._runs_script() and not self._missing:
            self._after_script(self._command)

    def _refuse_dashes(self) -> NoReturn:
        if self._runs_script():
            self._complete()
        raise UsageError(f"{self._name()} runs no script, and takes no words after --; {self._look()}")

    def _join(self) -> None:
        """`run ppr` is `run-ppr`, where a command may be and no command has only the first word as its name."""
        two = self._words[self._at : self._at + 2]
        whole = "-".join(two)
        if len(two) == 2 and two[0] not in self._all.known and whole in self._all.known and not self._missing:
            self._words = [*self._words[: self._at], whole, *self._words[self._at + 2 :]]

    def _take(self, count: int) -> None:
        self._typed.own += self._words[self._at : self._at + count]
        self._at += count

    def _flag(self, word: str, command: ParserContext) -> None:
        if word in HELP:
            self._typed.help = command.name
            return
        if word == MODULE and self._runs_script() and self._missing:
            self._module(command)
            return
        given = self._ranks(word, command) or _known(word, command) or _glued(word, command)
        if given is None:
            self._unknown(word)
        name, value = given
        self._at += 1
        self._typed.own.append(name)
        if name in command.inverse_flags or not command.flags[name].takes_value:
            if value is not None:
                raise UsageError(f"{name} of {command.name} takes no value; {self._look()}")
            return
        if value is None:
            value = self._words[self._at] if self._at < len(self._words) else None
            if value in HELP:
                self._typed.help = command.name
                return
            if value in (None, "--") or _known(value, command):
                raise UsageError(f"{name} of {command.name} needs a value; {self._look()}")
            self._at += 1
        self._typed.own.append(value)
        argument = command.flags[name]
        repeated = argument.kind is list or argument.name == self._all.further.get(self._name())
        if argument.name in self._given and not repeated:
            raise UsageError(f"{name} of {command.name} is given twice; {self._look()}")
        self._given.add(argument.name)
        if argument.name in self._missing:
            self._missing.remove(argument.name)

    def _ranks(self, word: str, command: ParserContext) -> tuple[str, str | None] | None:
        """`-n 4`, `-n4`, `-n=4` as `--workers`. UsageError for `-n WORD`."""
        if word[:2] != RANKS or WORKERS not in command.flags or (word[2:] and not word[2:].lstrip("=").isdigit()):
            return None
        following = self._words[self._at + 1 : self._at + 2]
        if word == RANKS and following and not is_flag(following[0]) and not following[0].isdigit():
            raise UsageError(f"{RANKS} is the number of ranks, not '{following[0]}': a name is --name {following[0]}")
        return WORKERS, word[2:].lstrip("=") or None

    def _module(self, command: ParserContext) -> None:
        """`-m pkg.train`: the word takes the place of the script."""
        at = self._at + 1
        if at >= len(self._words) or is_flag(self._words[at]):
            raise UsageError(f"{MODULE} of {command.name} needs the name of a module, as pkg.train; {self._look()}")
        self._at, self._typed.module = at, True
        self._given.add(self._missing.pop(0))
        self._take(1)

    def _after_script(self, command: ParserContext) -> None:
        """All further words are the script's, less a `--` right after its name; without it, notes name our flags."""
        path, words = self._typed.own[-1], self._words[self._at :]
        self._typed.script = words[1:] if words[:1] == ["--"] else words
        if COMMAND in self._given:
            return
        ours = [word for word in words if is_flag(word) and (_known(word, command) or word in HELP)]
        if names := ", ".join(dict.fromkeys(word.partition("=")[0] for word in ours if words[0] != "--")):
            self._typed.notes.append(
                f"{names} after {path} goes to the script; for {self._all.binary} write it before {path}"
            )

    def _complete(self) -> None:
        if self._command is None or not self._missing:
            return
        name = self._name()
        needed = " ".join(name.replace("_", "-").upper() for name in self._missing)
        before = " before --" if self._words[self._at : self._at + 1] == ["--"] else ""
        raise UsageError(f"{name} needs {needed}{before}: '{usage(self._all, name)}'; {self._look()}")

    def _look(self) -> str:
        name = self._name()
        return f"'{self._all.binary} {name} --help' says what it takes" if name else _all_of(self._all)

    def _unknown(self, word: str) -> NoReturn:
        command = self._command
        if command is None and word.partition("-")[0] == RUN:
            self._unknown_workload(word)
        if command is None:
            raise UsageError(_flag_first(self._all, self._words) if is_flag(word) else unknown(self._all, word))
        if is_flag(word):
            name = word.partition("=")[0]
            from regatta.options import foreign

            if self._runs_script() and (advice := foreign.advice(name)):
                raise UsageError(f"{command.name} has no flag {name}: {advice}")
            near = _near_flag(name, [*command.flags, *command.inverse_flags, HELP[0]])
            what = f"{command.name} has no flag {name}"
        else:
            near = nearest(word, self._all.known)
            what = f"{command.name} takes no further word '{word}'"
        way = [self._look()]
        if self._runs_script():
            way.insert(0, f"arguments of a script follow its name: '{usage(self._all, self._name())}'")
        raise UsageError(f"{what}{f', did you mean {near}?' if near else ';'} {'; '.join(way)}")

    def _unknown_workload(self, word: str) -> None:
        """Say which workloads there are, or that the project's cards are damaged, where `run` or `run-NAME` is none."""
        from regatta.cards import discovery

        known = discovery.every(Path.cwd())
        if word != RUN:
            return
        named = [word for word in self._words[self._at + 1 :] if not is_flag(word)]
        if named:
            discovery.find(named[0], Path.cwd())
        raise UsageError(f"{RUN} needs a workload's name right after it: {workloads(self._all.binary, known)}")


def workloads(binary: str, known: Iterable[str]) -> str:
    """`regatta run NAME [FLAGS]`, with the names that there are."""
    return f"'{binary} {RUN} NAME [FLAGS]'; there are {', '.join(known)}"


def usage(commands: Commands, name: str) -> str:
    """`regatta torchrun [FLAGS] SCRIPT [ARGUMENTS OF THE SCRIPT]`."""
    command = commands.known[name]
    flags = ["[FLAGS]"] if len(command.args) > len(command.positional_args) else []
    positional = [str(argument.name).replace("_", "-").upper() for argument in command.positional_args]
    arguments = [f"[ARGUMENTS OF THE {positional[-1]}]"] if name in commands.scripts else []
    arguments += [f"[{commands.further[name].upper()} ...]"] if name in commands.further else []
    return " ".join([commands.binary, name, *flags, *positional, *arguments])


def unknown(commands: Commands, word: str) -> str:
    """Return what to say of a command that there is none of."""
    others = commands.others()
    if word in others:
        return f"'{word}' is none of {commands.binary}'s commands: write '{others[word]}'"
    from regatta.options import foreign

    if ours := foreign.COMMANDS.get(word):
        return f"there is no command '{word}': write '{usage(commands, ours)}'"
    near = nearest(word, [*commands.known, *others])
    meant = f", did you mean '{others.get(near, near)}'?" if near else ";"
    return f"there is no command '{word}'{meant} {_all_of(commands)}"


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that is most like what was typed, if any is."""
    import difflib

    return next(iter(difflib.get_close_matches(word, list(names), 1)), None)


def is_flag(word: str) -> bool:
    """Whether a word begins as a flag does; `-` alone does not."""
    return len(word) > 1 and word[0] == "-"


def _known(word: str, command: ParserContext) -> tuple[str, str | None] | None:
    """Name and value of `--flag` or `--flag=value`, if the command knows it."""
    name, equals, value = word.partition("=")
    if is_flag(name) and (name in command.flags or name in command.inverse_flags):
        return name, value if equals else None
    return None


def _glued(word: str, command: ParserContext) -> tuple[str, str | None] | None:
    """Name and value of `-w4`; `-workers` is a flag with a dash too few."""
    name = word[:2]
    glued = len(word) > 2 and name in command.flags and command.flags[name].takes_value
    return (name, word[2:]) if glued and not _known(f"-{word}", command) else None


def _near_flag(name: str, flags: Iterable[str]) -> str | None:
    long = {flag.lstrip("-"): flag for flag in flags if flag[:2] == "--"}
    near = nearest(name.lstrip("-"), long) if len(name) > 2 else None
    return long[near] if near else None


def _flag_first(commands: Commands, words: list[str]) -> str:
    """Return what to say of flags before a command that are not known there."""
    name = words[0].partition("=")[0]
    if any(name in command.flags for command in commands.known.values()):
        at = next((at for at, word in enumerate(words) if word in commands.known), None)
        moved = ["COMMAND", *words] if at is None else [words[at], *words[:at], *words[at + 1 :]]
        return f"{name} belongs to a command, and follows its name: '{commands.binary} {shlex.join(moved)}'"
    near = _near_flag(name, commands.first)
    meant = f", did you mean {near}?" if near else ";"
    return f"{commands.binary} has no flag {name}{meant} '{commands.binary} --help' names those that it has"


def _all_of(commands: Commands) -> str:
    return f"'{commands.binary} --list' names all commands"
