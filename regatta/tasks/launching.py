"""The flags of all commands that start runs, in one place, and commands made from lists of flags."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regatta.tasks.common import gigabytes, seconds, task, whole

if TYPE_CHECKING:
    from regatta.environment.requirements import Requirements
    from regatta.environment.variables import Variables
    from regatta.frameworks.plan import Program
    from regatta.hosts.selection import Selection
    from regatta.run.request import Request


@dataclass(frozen=True)
class Flag:
    """A flag: its help, and what it is where nobody gives it. One that is False takes no value.

    `many`: it may be given more than once, and is a list.
    """

    help: str
    usual: str | bool | None = None
    many: bool = False


NODES = {
    "nodes": Flag("use only these hosts: a,b (the head must be among them)"),
    "without": Flag("leave out these hosts: c,d"),
    "skip_lost": Flag("leave out hosts that do not answer", False),
}
LAUNCH = {
    "workers": Flag("number of ranks over the cluster (default: one a core)"),
    "name": Flag("the run's name (default: made from script and time)"),
    "time_limit": Flag("end the run after so many seconds"),
    "requirements": Flag(
        "what the run needs beyond the nodes' packages: this file (default: the project's lock or list)"
    ),
    "with_": Flag(
        "a package beside these, as in --with 'boto3>=1.34'; several: again, or with commas between", many=True
    ),
    "no_environment": Flag("bring no packages: the nodes' environment as it is", False),
    "env": Flag(
        "a variable of the run's processes: NAME=VALUE, or NAME for this shell's, hidden from records; again for more",
        many=True,
    ),
    "env_file": Flag("a file of NAME=VALUE lines, mode 0600, whose values no record, log or list shows", many=True),
    "keep": Flag(
        "a folder that all runs of this project share and find as the last one left it: out/ (default: the project's)",
        many=True,
    ),
    "inventory": Flag(""),
    "fetch": Flag(
        "bring these files of the run here at its end: out/*.pt,logs; or none (default: the project's outputs)"
    ),
    "max_gb": Flag("bring so many gigabytes at most (default 2)"),
    **NODES,
}
"""Flags of every command that starts runs."""
NODES_HELP = {name.replace("_", "-"): flag.help for name, flag in NODES.items()}


@dataclass(frozen=True)
class Launch:
    """What the flags in `LAUNCH` say, read and checked."""

    workers: int | None
    name: str | None
    time_limit: float | None
    inventory: str | None
    hosts: "Selection"
    fetch: str | None
    max_gb: float
    environment: "Requirements"
    variables: "Variables"
    keep: tuple[str, ...]

    @classmethod
    def of(cls, typed: Mapping[str, Any]) -> "Launch":
        """Of what was typed, by flag. UsageError where a value makes no sense."""
        from regatta.environment import variables
        from regatta.environment.requirements import Requirements
        from regatta.hosts.selection import Selection

        requirements = Path(typed["requirements"]) if typed["requirements"] else None
        more = tuple(one.strip() for text in typed["with_"] or () for one in _requirements(text) if one.strip())
        return cls(
            whole("workers", typed["workers"]),
            typed["name"],
            seconds("time-limit", typed["time_limit"]),
            typed["inventory"],
            Selection(typed["nodes"], typed["without"], typed["skip_lost"]),
            typed["fetch"],
            gigabytes("max-gb", typed["max_gb"]),
            Requirements(requirements, more, typed["no_environment"]),
            variables.typed(typed["env"] or (), typed["env_file"] or ()),
            tuple(one for text in typed["keep"] or () for one in text.split(",")),
        )

    def request(self, program: "Program", framework: str, root: Path, **more: Any) -> "Request":
        """A run of a program of the tree `root`; `more` are further fields of the request."""
        from regatta.run.request import Request

        own = {"workers": self.workers, "name": self.name, "time_limit": self.time_limit}
        fields = {**own, "environment": self.environment, "variables": self.variables, **more}
        fields |= {"fetch": self.outputs(root), "fetch_gb": self.max_gb, "keep": self.kept(root)}
        return Request(program, framework, root, **fields)

    def kept(self, root: Path) -> tuple[str, ...]:
        """The folders to keep: those of `--keep`, else those of the project around `root`. UsageError, CardError."""
        from regatta.cards import project
        from regatta.run import kept_folders

        if self.keep:
            return kept_folders.folders(self.keep)
        return kept_folders.folders(project.read(root).keep, f"{root / project.FILE}: keep")

    def outputs(self, root: Path) -> tuple[str, ...]:
        """Patterns of the files to bring here at the end: those of `--fetch`, else those of the project around `root`.

        UsageError, CardError.
        """
        from regatta.cards import project
        from regatta.run import outputs

        if self.fetch is not None:
            words = [] if self.fetch == outputs.NOTHING else [word for word in self.fetch.split(",") if word]
            return tuple(outputs.patterns(words))
        return tuple(outputs.patterns(project.read(root).outputs))


def command(
    name: str,
    about: str,
    flags: Mapping[str, Flag],
    body: Callable[[dict[str, Any]], None],
    *,
    script: bool = False,
) -> Any:
    """A task with these flags; `body` gets what was typed, by flag. `script`: it runs the script that it is given."""
    words = {"script": Flag("Python script of this tree; its own arguments follow")} if script else {}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter("c", kind),
        *(inspect.Parameter(word, kind) for word in words),
        *(inspect.Parameter(flag, kind, default=flags[flag].usual) for flag in flags),
    ]

    def typed(c: Any, **given: Any) -> None:
        body(given)

    typed.__doc__ = about
    typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    help = {_typed(flag): known.help for flag, known in {**words, **flags}.items() if known.help}
    many = [flag for flag, known in flags.items() if known.many]
    return task(name=name, help=help, runs_script=script, positional=[*words], iterable=many)(typed)


def _typed(flag: str) -> str:
    """A flag as it is typed, less the dashes: `with_` is --with."""
    return flag.rstrip("_").replace("_", "-")


def _requirements(text: str) -> list[str]:
    """Requirements with commas between: not those in the extras or the range of one."""
    return re.split(r",(?=\s*[A-Za-z])(?![^\[]*\])", text)
