"""A project of the user's: what its `regatta.toml` says beside the cards of its workloads."""

from pathlib import Path
from typing import Any

from msgspec import Struct, field

from regatta.cards import reading

FILE = "regatta.toml"


class Environment(Struct, frozen=True, forbid_unknown_fields=True):
    """What runs of the project need beyond the nodes' environment (docs/cards.md, "Packages and variables").

    `requirements`: a file of the project; `more` (`with` in the file): requirements beside it.
    """

    requirements: str | None = None
    more: tuple[str, ...] = field(default=(), name="with")
    variables: dict[str, str] = {}


class Project(Struct, frozen=True, forbid_unknown_fields=True):
    """All that a `regatta.toml` may have; `workloads` are tables of cards (`regatta.cards.discovery`).

    `outputs`: patterns of the files that are fetched at the end of each run; `keep`: folders that all its runs share.
    """

    workloads: dict[str, dict[str, Any]] = {}
    outputs: tuple[str, ...] = ()
    environment: Environment = Environment()
    keep: tuple[str, ...] = ()


def read(root: Path) -> Project:
    """The project file of a folder; that of one that has none says nothing. CardError where it is damaged."""
    path = root / FILE
    return reading.convert_table(reading.document(path), Project, str(path)) if path.is_file() else Project()


def find(folder: Path) -> Path | None:
    """The nearest folder upwards with a `regatta.toml`."""
    return next((root for root in (folder.resolve(), *folder.resolve().parents) if (root / FILE).is_file()), None)
