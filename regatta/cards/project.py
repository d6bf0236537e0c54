"""A project of the user's: what its `regatta.toml` says besides the cards of its workloads."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as with_default
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from regatta.cards import reading
from regatta.errors import CardError
from regatta.options.declaration import OF_PROJECTS
from regatta.options.option import from_table

FILE = "regatta.toml"
_DEBIAN = re.compile(r"[a-z0-9][a-z0-9+.-]+")


class Environment(Struct, frozen=True, forbid_unknown_fields=True):
    """The needs of a project's runs beyond the nodes' environment (docs/how-to/packages.md).

    `requirements`: a file of the project; `more` (`with` in the file): requirements besides it.
    """

    requirements: str | None = None
    more: tuple[str, ...] = field(default=(), name="with")
    variables: dict[str, str] = {}


class _Tables(Struct, frozen=True, forbid_unknown_fields=True):
    """The tables of a `regatta.toml`; its other keys are options of runs."""

    workloads: dict[str, dict[str, Any]] = {}
    environment: Environment = Environment()
    apt: tuple[str, ...] = ()


@dataclass(frozen=True)
class Project:
    """All that a `regatta.toml` may have; `workloads` are tables of cards (`regatta.cards.discovery`).

    `apt`: Debian packages that its runs need on each node. `options`: the defaults of its runs, by name
    (`regatta.options.declaration`).
    """

    workloads: Mapping[str, dict[str, Any]] = with_default(default_factory=dict)
    environment: Environment = with_default(default_factory=Environment)
    options: Mapping[str, Any] = with_default(default_factory=dict)
    apt: tuple[str, ...] = ()


def read(root: Path) -> Project:
    """The project file of a folder; that of one that has none says nothing. CardError where it is damaged."""
    path = root / FILE
    if not path.is_file():
        return Project()
    document, faults = reading.document(path), list[str]()
    options = from_table(OF_PROJECTS, document, f"{path}: ", faults)
    tables = reading.convert_table({k: v for k, v in document.items() if k not in OF_PROJECTS}, _Tables, str(path))
    faults += [
        f"{path}: apt: '{one}' is no name of a Debian package" for one in tables.apt if not _DEBIAN.fullmatch(one)
    ]
    if faults:
        raise CardError("\n".join(faults))
    return Project(tables.workloads, tables.environment, options, tables.apt)


def find(folder: Path) -> Path | None:
    """The nearest folder upwards with a `regatta.toml`."""
    return next((root for root in (folder.resolve(), *folder.resolve().parents) if (root / FILE).is_file()), None)
