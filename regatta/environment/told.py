"""Lines for the user on the packages that a run takes, from where, and on those that it leaves out."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name as canonical

from regatta.environment import lists, pyproject
from regatta.environment.requirements import Wanted
from regatta.environment.resolve import Resolution
from regatta.errors import EnvironmentFault

_MOST = 6
"""The number of names that are shown."""


def lines(found: Resolution, wanted: Wanted) -> list[str]:
    """Return the lines about a layer, before it is brought: one, and one more if it could be smaller."""
    parts = [found.headline(), _from(found, wanted)] if found.packages else []
    if found.own:
        parts.append(f"the tree's own {_some([one.shown for one in found.own])}")
    parts += [f"left out: {'; '.join(left)}"] if (left := [*_left_out(found, wanted)]) else []
    first = "; ".join(parts).removeprefix("environment: ")
    return [f"environment: {first}", *filter(None, [found.hint()])]


def _from(found: Resolution, wanted: Wanted) -> str:
    places = Counter(_place(one.files[0].url) for one in found.packages)
    shown = [f"{place} ({count})" if len(places) > 1 else place for place, count in places.most_common()]
    return f"of {wanted.label}, from {_some(shown)}"


def _place(url: str) -> str:
    """The host of an index, or the folder of a file."""
    parts = urlsplit(url)
    return parts.hostname or str(Path(unquote(parts.path)).parent)


def _left_out(found: Resolution, wanted: Wanted) -> Iterator[str]:
    brought = {*found.versions, *(canonical(one.name) for one in found.own)}
    asked = {name: line for line in (*(wanted.lines or ()), *wanted.more) if (name := lists.name_of(line))}
    rest = {name: line for name, line in asked.items() if name not in brought}
    other = [name for name, line in rest.items() if not _for_nodes(line, found)]
    served = [name for name in rest if name in wanted.provided]
    there = [name for name in rest if name not in (*other, *served)]
    if there:
        yield f"{_some(there)}, which the nodes have"
    if served:
        yield f"{_some([f'{name} {wanted.provided[name]}' for name in served])} of the cluster's service"
    if other:
        yield f"{_some(other)}, which a marker excludes here"
    if wanted.file and wanted.file.name in ("pyproject.toml", "uv.lock"):
        yield from _optional(wanted.file.parent / "pyproject.toml", wanted)


def _for_nodes(line: str, found: Resolution) -> bool:
    try:
        marker = Requirement(line).marker
    except InvalidRequirement:
        return True
    machine = found.platform.partition("-")[0]
    about = {"python_version": found.minor, "sys_platform": "linux", "platform_machine": machine, "extra": ""}
    return marker is None or marker.evaluate({**about, "platform_system": "Linux", "os_name": "posix"})


def _optional(file: Path, wanted: Wanted) -> Iterator[str]:
    """Extras and groups of a project that were not asked for."""
    try:
        tables = pyproject.document(file) if file.is_file() else {}
    except EnvironmentFault:
        return
    name = canonical(pyproject.at(tables, "project", "name", otherwise=""))
    asked = {extra for line in wanted.more if lists.name_of(line) == name for extra in lists.extras_of(line)}
    asked |= {*wanted.extras}
    extras = [one for one in pyproject.at(tables, "project", "optional-dependencies", otherwise={}) if one not in asked]
    if extras:
        yield f"extras {_some(extras)} (--extra {extras[0]} takes one)"
    groups = [one for one in pyproject.at(tables, "dependency-groups", otherwise={}) if one not in wanted.groups]
    if groups:
        yield f"groups {_some(groups)} (--group {groups[0]} takes one)"


def _some(items: list[str]) -> str:
    more = len(items) - _MOST
    return ", ".join(items[:_MOST]) + (f" and {more} more" if more > 0 else "")
