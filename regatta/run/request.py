"""A request to run something, by a person or a program."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regatta.environment import variables
from regatta.environment.requirements import Requirements
from regatta.environment.variables import Variables
from regatta.frameworks import plan
from regatta.options.declaration import RunOptions
from regatta.records import record
from regatta.release import tree

_OF_OPTIONS, _TYPED = Requirements(), Variables()


@dataclass(frozen=True)
class Request:
    """A request. `root` is the tree to sync, `source` what was read of it just now, if anything was.
    `project`: the folder in it whose packages and requirements count (default: the tree). `start`: the folder in which
    the program begins, and from which its script is named (default: the project).

    Where the options name no launcher, the framework takes one. An elastic run continues without lost hosts, as
    a further generation of `first_run`. `cache` and `notes` (warnings) are kept in the record.
    `hosts`: names of the hosts in the order in which they get ranks, where that is not the inventory's.
    `environment`: which packages it has beyond the nodes'; `variables`: those that its processes get. If they are not
    given, they are read from what the options say, once for all requests that are made of this one.
    """

    program: plan.Program
    framework: record.Framework
    root: Path
    options: RunOptions = field(default_factory=RunOptions)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    series: record.Series | None = None
    source: tree.Tree | None = None
    first_run: str | None = None
    cache: Literal["cold", "warm"] | None = None
    notes: tuple[str, ...] = ()
    project: Path | None = None
    start: Path | None = None
    hosts: tuple[str, ...] = ()
    environment: Requirements = _OF_OPTIONS
    variables: Variables = _TYPED

    def __post_init__(self) -> None:
        """Read packages and variables. Raises UsageError."""
        said = self.options
        if self.environment is _OF_OPTIONS:
            read = Requirements(
                said.requirements, said.with_, said.no_environment, extras=said.extra, groups=said.group
            )
            object.__setattr__(self, "environment", read)
        if self.variables is _TYPED:
            object.__setattr__(self, "variables", variables.typed(said.env, said.env_file))

    @property
    def folder(self) -> Path:
        """Return the folder of the project."""
        return (self.project or self.root).resolve()

    @property
    def script(self) -> Path | None:
        """Return the script that it runs, or the file of the module, if that is one."""
        first, *words = self.program.argv or ("",)
        if first == "-m" and words:
            parts = [*words[0].split(".")]
            places = (self.begins.joinpath(*above, *parts).with_suffix(".py") for above in ((), ("src",)))
            return next((file for file in places if file.is_file()), None)
        return self.begins / first if first and not first.startswith("-") else None

    @property
    def begins(self) -> Path:
        """Return the folder in which the program begins."""
        return (self.start or self.folder).resolve()
