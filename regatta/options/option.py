"""An option: what it is, where a person may give it, and how values from there are read."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from regatta.errors import UsageError
from regatta.options.kinds import TEXT, Kind

SCRIPTS = ("torchrun", "rayrun", "sparkrun")
"""Commands that run a script."""
RUN, BENCH, NOTEBOOK = "run", "bench", "notebook"
"""`run NAME` runs a workload, `bench` a plan of such runs, `notebook` JupyterLab under Ray."""
EVERY = (RUN, *SCRIPTS, NOTEBOOK, BENCH)
"""All commands that start runs."""


@dataclass(frozen=True, eq=False)
class Option:
    """An option of the commands in `commands`. `helps`: by command the help there, in place of `help`.

    `plan`: whether a bench plan and its experiments may give it. `project`: its key in `regatta.toml`, or None.
    `timed`: whether what the project says of it is for the runs of a plan, too. `case`: runs with another value are of
    another set of a plan. `record`: a record keeps it, and runs with another value are another case.
    """

    help: str
    kind: Kind = TEXT
    default: Any = None
    name: str = ""
    helps: Mapping[str, str] = field(default_factory=dict)
    commands: Collection[str] = EVERY
    plan: bool = True
    project: str | None = None
    timed: bool = True
    case: bool = False
    record: bool = False

    @property
    def key(self) -> str:
        """Return what it is called in files: `with_` is `with`."""
        return self.name.rstrip("_")

    @property
    def flag(self) -> str:
        """As it is typed."""
        return f"--{self.key.replace('_', '-')}"

    def of(self, command: str) -> "Option":
        """The option as a command has it."""
        return replace(self, help=self.helps.get(command, self.help))

    @property
    def usual(self) -> str:
        """Its default, for a person; empty where it has none, or where its help tells of it."""
        plain = self.default is not None and not isinstance(self.default, bool | tuple) and self.default != 0
        return f"{self.default:g}" if plain and isinstance(self.default, float) else str(self.default) if plain else ""

    @property
    def about(self) -> str:
        """Its help, with its default."""
        return f"{self.help} (default {self.usual})" if self.usual else self.help


def option(default: Any, kind: Kind, help: str, *, project: str | bool = True, **more: Any) -> Any:
    """A field of a dataclass that declares options. `project`: false where `regatta.toml` has no such key."""
    made = Option(help, kind, default, project=project if isinstance(project, str) else "" if project else None, **more)
    return field(default=default, metadata={"option": made})


flag = partial(option, plan=False, project=False)
"""As `option`, of one that no file gives."""
of_comparison = partial(flag, commands=(RUN,))
"""As `flag`, of one that tells how runs of a workload are compared."""


def declared(of: type) -> dict[str, Option]:
    """The options that a class declares, by name."""
    found = {one.name: replace(one.metadata["option"], name=one.name) for one in fields(of)}
    return {name: replace(one, project=one.key) if one.project == "" else one for name, one in found.items()}


def of_command(options: Iterable[Option], command: str) -> dict[str, Option]:
    """Those that a command has, by name."""
    return {one.name: one.of(command) for one in options if command in one.commands}


def typed(options: Mapping[str, Option], words: Mapping[str, Any]) -> dict[str, Any]:
    """The values of what was typed, of the options that were. UsageError."""
    given = {name: words[name] for name in options if words.get(name) not in (None, False, [])}
    return {name: options[name].kind.word(options[name].flag, word) for name, word in given.items()}


def from_table(keys: Mapping[str, Option], table: Mapping[str, Any], where: str, faults: list[str]) -> dict[str, Any]:
    """The values of a file's keys, by the name of their option; what is wrong with them goes to `faults`."""
    found = {}
    for key, one in keys.items():
        if key in table:
            try:
                found[one.name] = one.kind.value(f"{where}{key}", table[key])
            except UsageError as error:
                faults.append(str(error))
    return found
