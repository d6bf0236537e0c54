"""Finds cards: Regatta's own workloads, and those of the project around a folder."""

import difflib
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regatta import paths
from regatta.cards import project as projects
from regatta.cards import reading
from regatta.cards.card import Workload
from regatta.errors import CardError, UsageError
from regatta_protocol.cards import NAME

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")


@functools.cache
def ours() -> Mapping[str, Workload]:
    """Regatta's own workloads, by name. CardError where a card is damaged."""
    return dict(_in_folders(paths.PROJECT, own=False))


def project(folder: Path) -> Path | None:
    """The user's project around a folder: the nearest one upwards that has a `regatta.toml` or a card."""
    for root in (folder.resolve(), *folder.resolve().parents):
        if root == paths.PROJECT:
            return None
        if (root / projects.FILE).is_file() or any(root.glob(f"workloads/*/{NAME}")):
            return root
    return None


def own(root: Path | None) -> Mapping[str, Workload]:
    """The workloads of a project of the user's. CardError where a card is damaged, or its name taken."""
    if root is None:
        return {}
    found = dict(_in_folders(root, own=True))
    for name, table in projects.read(root).workloads.items():
        where = f"{root / projects.FILE}: workloads.{name}"
        if name in found:
            raise CardError(f"{where}: {found[name].where} is of that name too: give one of them another name")
        found[name] = _made(name, table, root, where, own=True)
    return found


def every(folder: Path) -> Mapping[str, Workload]:
    """All workloads that can be run from a folder, by name: Regatta's, then those of the project around it."""
    return {**ours(), **own(project(folder))}


def find(name: str, folder: Path) -> Workload:
    """A workload by its name. UsageError names what there is."""
    known = every(folder)
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1)
    meant = f", did you mean {near[0]}?" if near else ";"
    if (folder / name).is_file():
        meant = " but a script of that name, which 'torchrun', 'rayrun' and 'sparkrun' start;"
    raise UsageError(
        f"there is no workload '{name}'{meant} there are {', '.join(known)} (and those of a {projects.FILE})"
    )


def _in_folders(root: Path, *, own: bool) -> Iterator[tuple[str, Workload]]:
    for path in sorted(root.glob(f"workloads/*/{NAME}")):
        name = path.parent.name.replace("_", "-")
        yield name, _made(name, reading.document(path), root, str(path), own=own)


def _made(name: str, table: Mapping[str, Any], root: Path, where: str, *, own: bool) -> Workload:
    if not _NAME.match(name):
        raise CardError(f"{where}: '{name}' cannot name a workload: use up to 40 of a-z, 0-9 and '-'")
    if own and name in ours():
        raise CardError(f"{where}: '{name}' is a workload of Regatta's own: give it another name")
    made = Workload(name, reading.card(table, where), root, where, own)
    if made.card.called and own and (root / "workloads" / "__init__.py").is_file():
        hidden = "its package 'workloads' hides that of Regatta's, which calls what the card names"
        raise CardError(f"{where}: {hidden}: give the folder {root / 'workloads'} another name, or no __init__.py")
    if made.requirements and not made.requirements.is_file():
        raise CardError(f"{where}: requirements: there is no file {made.requirements}: write it, or take this line out")
    return made
