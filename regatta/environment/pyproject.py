"""Requirements of a `pyproject.toml`. A name to which its tables give a source never comes from a public index."""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name as canonical

from regatta.errors import EnvironmentFault

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def document(path: Path) -> dict[str, Any]:
    """A TOML file. EnvironmentFault where it is none."""
    try:
        return dict(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise EnvironmentFault(f"{path}: {error}") from None


def listed(file: Path) -> list[str]:
    """Return the requirements of a `pyproject.toml`, with those of its packages in the same tree in their place.

    Raises EnvironmentFault for one that its tables take from elsewhere: another index, a repository, a URL, a file.
    """
    found, waiting, seen = list[str](), [file.resolve()], set[Path]()
    while waiting:
        path = waiting.pop(0)
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        tables = document(path)
        own = canonical(str(tables.get("project", {}).get("name", "")))
        sources = dict(_sources(tables))
        for line in tables.get("project", {}).get("dependencies", []):
            name = _name(line)
            if name == own:  # with an extra of its own
                continue
            folder = _folder(name, sources.get(name), path) if name in sources else None
            if folder is None:
                found.append(line)
            else:
                waiting.append(folder / "pyproject.toml")
    return found


def refuse_own(file: Path | None, more: tuple[str, ...]) -> None:
    """EnvironmentFault for a further requirement with the name of the project, or one that it has a source for."""
    path = file.parent / "pyproject.toml" if file else None
    if path is None or not path.is_file():
        return
    tables = document(path)
    own = {canonical(str(tables.get("project", {}).get("name", ""))), *dict(_sources(tables))}
    for text in more:
        if (name := _name(text)) in own - {""}:
            raise EnvironmentFault(
                f"'{text}': {path} has {name} itself, and a public index may have another package of that name. "
                "The run imports the project's own from the tree: leave it out"
            )


def _sources(tables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each name to which a table of uv, Poetry or PDM gives a source, and that."""
    tool = tables.get("tool", {})
    for name, source in tool.get("uv", {}).get("sources", {}).items():
        yield canonical(name), source
    for name, source in tool.get("poetry", {}).get("dependencies", {}).items():
        if isinstance(source, Mapping) and source.keys() & {"path", "git", "url", "source"}:
            yield canonical(name), source


def _folder(name: str, source: Any, file: Path) -> Path:
    """The folder in the tree that has the package. EnvironmentFault where the source is something else."""
    if isinstance(source, Mapping) and isinstance(source.get("path"), str):
        folder: Path = (file.parent / source["path"]).resolve()
        tree = next((above for above in file.parents if (above / ".git").exists()), file.parent)
        if folder.is_dir() and folder.is_relative_to(tree):
            return folder
    if isinstance(source, Mapping) and source.get("workspace"):
        for member in _members(file):
            if canonical(str(document(member).get("project", {}).get("name", ""))) == name:
                return member.parent
    raise EnvironmentFault(
        f"{file}: {name} comes from {_shown(source)}, which a run does not take packages from, and a public index may "
        "have another package of that name. Put its source into the tree and give its path there; or its wheel into a "
        "folder that PIP_FIND_LINKS names, and take the source out of the table"
    )


def _members(file: Path) -> Iterator[Path]:
    """The `pyproject.toml` of each member of the workspace that a project is, or is in."""
    for folder in file.parents:
        top = folder / "pyproject.toml"
        if top.is_file() and (workspace := document(top).get("tool", {}).get("uv", {}).get("workspace")):
            yield top
            for pattern in workspace.get("members", []):
                yield from sorted(folder.glob(f"{pattern}/pyproject.toml"))
            return


def _name(line: str) -> str:
    try:
        return canonical(Requirement(line).name)
    except InvalidRequirement:
        return canonical(re.split(r"[^A-Za-z0-9._-]", line.strip(), maxsplit=1)[0])


def _shown(source: Any) -> str:
    pairs = source.items() if isinstance(source, Mapping) else [("several sources", len(source))]
    return ", ".join(f"{key} {value}" for key, value in pairs)
