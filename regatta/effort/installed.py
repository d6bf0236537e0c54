"""Packages of an environment, with those that they need, and their bytes by the lists of their files."""

import csv
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical

from regatta import paths

Known = Mapping[str, metadata.Distribution]


@cache
def here(layers: Path | None = None) -> Known:
    """The distributions of this machine's environment for runs, then those of the layers in a folder."""
    folders = sorted(paths.NODE_PYTHON.parent.parent.glob("lib/python3*/site-packages"))
    return known([*folders, *(sorted(layers.glob("*")) if layers else [])])


def known(folders: Iterable[Path]) -> Known:
    """The distributions in these folders by name; the first of each name counts, as Python takes it."""
    found: dict[str, metadata.Distribution] = {}
    for folder in folders:
        for one in metadata.distributions(path=[str(folder)]):
            found.setdefault(canonical(one.metadata["Name"]), one)
    return found


def needed(wanted: Iterable[str], of: Known) -> set[str] | None:
    """Names of the distributions that these requirements need, with themselves; None where one of these is missing.

    What a package needs only elsewhere, or what is not installed, does not count.
    """
    found: set[str] = set()
    waiting = [Requirement(one) for one in wanted]
    if any(canonical(one.name) not in of for one in waiting):
        return None
    while waiting:
        requirement = waiting.pop()
        name = canonical(requirement.name)
        if name in of and name not in found:
            found.add(name)
            waiting += [one for one in map(Requirement, of[name].requires or ()) if _applies(one, requirement.extras)]
    return found


def size(names: Iterable[str], of: Known) -> int:
    """Bytes of all files of some distributions, as their RECORD has them."""
    return sum(bytes_ for name in names for _, bytes_ in _files(of[name]))


def providing(modules: Iterable[str], of: Known) -> list[str]:
    """Names of the distributions that bring modules of these names; the module's own name where none brings it."""
    tops = {path.partition("/")[0].removesuffix(".py"): name for name, one in of.items() for path, _ in _files(one)}
    return sorted({tops.get(module, module) for module in modules})


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, ""))


@cache
def _files(one: metadata.Distribution) -> tuple[tuple[str, int], ...]:
    """Each file of a distribution, with its bytes where the list has them."""
    rows = csv.reader((one.read_text("RECORD") or "").splitlines())
    return tuple((path, int(size or 0)) for path, _, size in rows)
