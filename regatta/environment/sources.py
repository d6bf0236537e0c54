"""The sources of packages in a project's tables: folders of its tree, indexes by name, or what a run does not take.

A name that a table of uv, Poetry or PDM gives a source never comes from another index, where another package may
have that name.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name as canonical

from regatta.environment.pyproject import at, document

_MARKS = (".git", "regatta.toml")


@dataclass(frozen=True)
class Index:
    """The index of one package: `source` and `tables` as `[tool.uv.sources]` and `[[tool.uv.index]]` have them."""

    source: tuple[Mapping[str, str], ...]
    tables: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True)
class Sources:
    """Sources of packages, by canonical name. `refused` has the message for each that a run does not take.

    `more`: further indexes for all packages, as their URLs.
    """

    folders: Mapping[str, Path] = field(default_factory=dict)
    indexes: Mapping[str, Index] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    more: tuple[str, ...] = ()

    def beside(self, other: "Sources") -> "Sources":
        """Return these, and those of another file for names that have none here."""
        mine = {*self.folders, *self.indexes, *self.refused}

        def both(own: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
            return {**{name: value for name, value in more.items() if name not in mine}, **own}

        return Sources(
            both(self.folders, other.folders),
            both(self.indexes, other.indexes),
            both(self.refused, other.refused),
            tuple(dict.fromkeys((*self.more, *other.more))),
        )


def of(file: Path, tree: Path, block: Mapping[str, Any] | None = None) -> Sources:
    """Return the sources that a `pyproject.toml` names, or the `block` in a script. EnvironmentFault for damage."""
    tables = document(file) if block is None and file.is_file() else block or {}
    indexes = _indexes(tables, file)
    found: dict[str, dict[str, Any]] = {"folders": {}, "indexes": {}, "refused": {}}
    for name, source in _named(tables):
        if folder := _folder(name, source, file, tree):
            found["folders"][name] = folder
        elif index := _index(source, indexes):
            found["indexes"][name] = index
        else:
            found["refused"][name] = refusal(file, name, _shown(source))
    return Sources(**found, more=tuple(_for_all(tables, block is not None)))


def refusal(file: Path, name: str, source: str) -> str:
    """Return the message for a package that comes from somewhere that runs do not take packages from."""
    return (
        f"{file}: {name} comes from {source}, which a run does not take packages from, and a public index may "
        "have another package of that name. Put its source into the tree and give its path there; or its wheel into a "
        "folder that PIP_FIND_LINKS names, and take the source out of the table"
    )


def tree_of(folder: Path) -> Path:
    """Return the tree that is synced with a folder: git's, else the nearest one upwards with a `regatta.toml`."""
    upwards = (folder, *folder.parents)
    found = (above for mark in _MARKS for above in upwards if (above / mark).exists())
    return next(found, folder).resolve()


def is_tree(folder: Path) -> bool:
    """Whether a folder says by itself that it is a tree."""
    return any((folder / mark).exists() for mark in _MARKS)


def folders(file: Path, tree: Path) -> list[Path]:
    """Return the folders of the packages that a project takes from its tree: paths, and members of its workspace."""
    return [*of(file, tree).folders.values(), *members(file)] if file.is_file() else []


def members(file: Path) -> Iterator[Path]:
    """Return the folder of each member of the workspace that a project is, or is in."""
    for folder in file.parents:
        top = folder / "pyproject.toml"
        if top.is_file() and (workspace := at(document(top), "tool", "uv", "workspace", otherwise={})):
            yield folder
            patterns = (Path(str(pattern)) for pattern in at(workspace, "members", otherwise=[]))
            for pattern in (str(one) for one in patterns if one.parts and not one.is_absolute()):
                yield from sorted(member for member in folder.glob(pattern) if member.is_dir())
            return


def _named(tables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each name to which a table gives a source, and that."""
    for name, source in at(tables, "tool", "uv", "sources", otherwise={}).items():
        yield canonical(name), source
    poetry = at(tables, "tool", "poetry", otherwise={})
    groups = [at(group, "dependencies", otherwise={}) for group in at(poetry, "group", otherwise={}).values()]
    for table in (at(poetry, "dependencies", otherwise={}), at(poetry, "dev-dependencies", otherwise={}), *groups):
        for name, said in table.items():
            every = said if isinstance(said, list) else [said]
            given = [one for one in every if isinstance(one, Mapping) and one.keys() & _POETRY]
            if given:
                yield canonical(name), _as_uv(given[0]) if len(every) == 1 else given
    for source in at(tables, "tool", "pdm", "source", otherwise=[]):
        for name in at(source, "include_packages", otherwise=[]):
            yield canonical(name), {"index": str(source.get("name"))}


_POETRY = {"path", "file", "git", "url", "source"}


def _as_uv(source: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"index": source["source"]} if "source" in source else source


def _folder(name: str, source: Any, file: Path, tree: Path) -> Path | None:
    """The folder in the tree that has the package, if the source names one."""
    if not isinstance(source, Mapping):
        return None
    if isinstance(source.get("path"), str):
        folder: Path = (file.parent / source["path"]).resolve()
        return folder if folder.is_dir() and folder.is_relative_to(tree) else None
    for member in members(file) if source.get("workspace") else ():
        own = member / "pyproject.toml"
        if own.is_file() and canonical(at(document(own), "project", "name", otherwise="")) == name:
            return member if member.resolve().is_relative_to(tree) else None
    return None


def _indexes(tables: Mapping[str, Any], file: Path) -> dict[str, Mapping[str, str]]:
    """The indexes that have names, in a file and in the workspace that it is in."""
    tops = [folder / "pyproject.toml" for folder in file.parents[1:]]
    above = [document(top) for top in tops if top.is_file()]
    found: dict[str, Mapping[str, str]] = {}
    for table in [*reversed(above), tables]:
        poetry, pdm = at(table, "tool", "poetry", otherwise={}), at(table, "tool", "pdm", otherwise={})
        known = [*at(poetry, "source", otherwise=[]), *at(pdm, "source", otherwise=[])]
        for one in [*known, *at(table, "tool", "uv", "index", otherwise=[])]:
            if isinstance(one, Mapping) and isinstance(one.get("name"), str) and isinstance(one.get("url"), str):
                found[one["name"]] = {"name": one["name"], "url": _address(one["url"], file)}
    return found


def _address(url: str, file: Path) -> str:
    """An index's URL; a folder's, which is relative to the file, as well."""
    return url if "://" in url else (file.parent / url).resolve().as_uri()


def _index(source: Any, known: Mapping[str, Mapping[str, str]]) -> Index | None:
    """The source as an index, or several with markers, if it is that and they are known."""
    every = source if isinstance(source, list) else [source]
    plain = [one for one in every if isinstance(one, Mapping) and {"index"} <= one.keys() <= {"index", "marker"}]
    if not plain or len(plain) < len(every):
        return None
    names = dict.fromkeys(str(one["index"]) for one in every)
    if not all(name in known for name in names):
        return None
    return Index(tuple(every), tuple(known[name] for name in names))


def _for_all(tables: Mapping[str, Any], of_script: bool) -> Iterator[str]:
    """Further indexes of all packages. uv reads its own in a `pyproject.toml` itself, and none of a script's block."""
    every = [*at(tables, "tool", "poetry", "source", otherwise=[]), *at(tables, "tool", "pdm", "source", otherwise=[])]
    every += at(tables, "tool", "uv", "index", otherwise=[]) if of_script else []
    for one in every:
        alone = one.get("explicit") or one.get("priority") == "explicit" or one.get("include_packages")
        if isinstance(one.get("url"), str) and not alone:
            yield one["url"]


def as_pyproject(names: Mapping[str, Index]) -> str:
    """Return a `pyproject.toml` by which uv takes these packages from their indexes."""
    tables = {table["name"]: table for index in names.values() for table in index.tables}
    lines = ["[project]", 'name = "regatta-listed"', 'version = "0"', f"dependencies = {json.dumps([*names])}"]
    lines += ["[tool.uv.sources]"]
    lines += [f"{json.dumps(name)} = [{', '.join(map(_inline, index.source))}]" for name, index in names.items()]
    for table in tables.values():
        lines += ["[[tool.uv.index]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
        lines += ["explicit = true"]
    return "\n".join([*lines, ""])


def _inline(table: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key} = {json.dumps(str(value))}" for key, value in table.items()) + "}"


def _shown(source: Any) -> str:
    pairs = source.items() if isinstance(source, Mapping) else [("several sources", len(source))]
    return ", ".join(f"{key} {value}" for key, value in pairs)
