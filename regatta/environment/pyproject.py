"""Requirements of a `pyproject.toml`. A name to which its tables give a source never comes from a public index."""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name as canonical

from regatta.environment import setup_files
from regatta.errors import EnvironmentFault

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def document(path: Path) -> dict[str, Any]:
    """A TOML file. EnvironmentFault where it is none."""
    try:
        return parsed(path.read_text(encoding="utf-8"), str(path))
    except (OSError, ValueError) as error:
        raise EnvironmentFault(f"{path}: {error}") from None


def parsed(text: str, where: str) -> dict[str, Any]:
    """A text as TOML. EnvironmentFault, which says `where`, if it is none."""
    try:
        return dict(tomllib.loads(text))
    except ValueError as error:
        raise EnvironmentFault(f"{where}: {error}") from None


def listed(file: Path, of_script: Mapping[str, Any] | None = None) -> list[str]:
    """Return the requirements of a `pyproject.toml`, with those of its packages in the same tree in their place.

    `of_script`: the tables in a script's own block; `file` is the script then. Raises EnvironmentFault for one that
    its tables take from elsewhere: another index, a repository, a URL, a file.
    """
    found, waiting, seen = list[str](), [file.resolve()], set[Path]()
    while waiting:
        path = waiting.pop(0)
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        block = of_script if path == file.resolve() else None
        tables = document(path) if block is None else {**block, "project": block}
        itself = canonical(at(tables, "project", "name", otherwise=""))
        sources = dict(_sources(tables))
        for line in own(tables, path):
            name = _name(line)
            if name == itself:  # with an extra of its own
                continue
            folder = _folder(name, sources.get(name), path) if name in sources else None
            if folder is None:
                found.append(line)
            else:
                waiting.append(folder / "pyproject.toml")
    return found


def own(tables: Mapping[str, Any], file: Path) -> list[str]:
    """Return the requirements that a `pyproject.toml` has, or names files with, for setuptools or hatchling."""
    found = list(at(tables, "project", "dependencies", otherwise=[]))
    if "dependencies" in at(tables, "project", "dynamic", otherwise=[]):
        said = at(tables, "tool", "setuptools", "dynamic", "dependencies", "file", otherwise=[])
        one = at(tables, "tool", "setuptools", "dynamic", "dependencies", "file", otherwise="")
        hook = at(tables, "tool", "hatch", "metadata", "hooks", "requirements_txt", otherwise={})
        found += setup_files.lines_of(file.parent, [*said, *one.split(","), *at(hook, "files", otherwise=[])])
    return found


def hidden(tables: Mapping[str, Any], file: Path) -> bool:
    """Whether its requirements are its build system's to tell, and no file of setuptools here has them either."""
    if "dependencies" not in at(tables, "project", "dynamic", otherwise=[]) or own(tables, file):
        return False
    beside = file.parent / "setup.py"
    return not (setup_files.of_cfg(file.parent / "setup.cfg") or setup_files.written(beside, "install_requires"))


def refuse_own(file: Path | None, more: tuple[str, ...]) -> None:
    """EnvironmentFault for a further requirement with the name of the project, or one that it has a source for."""
    path = file.parent / "pyproject.toml" if file else None
    if path is None or not path.is_file():
        return
    tables = document(path)
    taken = {canonical(at(tables, "project", "name", otherwise="")), *dict(_sources(tables))}
    for text in more:
        if (name := _name(text)) in taken - {""}:
            raise EnvironmentFault(
                f"'{text}': {path} has {name} itself, and a public index may have another package of that name. "
                "The run imports the project's own from the tree: leave it out"
            )


def in_tree(file: Path) -> list[Path]:
    """Return the folders of the packages that a project takes from its tree: paths, and members of its workspace."""
    found = [folder for _, source in _sources(document(file)) if (folder := _path(source, file))]
    return [*found, *_members(file)]


def at(table: Any, *keys: str, otherwise: Any) -> Any:
    """Return the value below these keys, if it is of the kind of `otherwise`, which else is returned."""
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table if isinstance(table, type(otherwise)) else otherwise


def _sources(tables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each name to which a table of uv or Poetry gives a source, and that."""
    for name, source in at(tables, "tool", "uv", "sources", otherwise={}).items():
        yield canonical(name), source
    for name, source in at(tables, "tool", "poetry", "dependencies", otherwise={}).items():
        if isinstance(source, Mapping) and source.keys() & {"path", "git", "url", "source"}:
            yield canonical(name), source


def _path(source: Any, file: Path) -> Path | None:
    """The folder in the tree that a source names, if it does."""
    if not isinstance(source, Mapping) or not isinstance(source.get("path"), str):
        return None
    folder: Path = (file.parent / source["path"]).resolve()
    tree = next((above for above in file.parents if (above / ".git").exists()), file.parent)
    return folder if folder.is_dir() and folder.is_relative_to(tree) else None


def _folder(name: str, source: Any, file: Path) -> Path:
    """The folder in the tree that has the package. EnvironmentFault where the source is something else."""
    if folder := _path(source, file):
        return folder
    if isinstance(source, Mapping) and source.get("workspace"):
        for member in _members(file):
            own = member / "pyproject.toml"
            if own.is_file() and canonical(at(document(own), "project", "name", otherwise="")) == name:
                return member
    raise EnvironmentFault(
        f"{file}: {name} comes from {_shown(source)}, which a run does not take packages from, and a public index may "
        "have another package of that name. Put its source into the tree and give its path there; or its wheel into a "
        "folder that PIP_FIND_LINKS names, and take the source out of the table"
    )


def _members(file: Path) -> Iterator[Path]:
    """The folder of each member of the workspace that a project is, or is in."""
    for folder in file.parents:
        top = folder / "pyproject.toml"
        if top.is_file() and (workspace := at(document(top), "tool", "uv", "workspace", otherwise={})):
            yield folder
            patterns = (Path(str(pattern)) for pattern in at(workspace, "members", otherwise=[]))
            for pattern in (str(one) for one in patterns if one.parts and not one.is_absolute()):
                yield from sorted(member for member in folder.glob(pattern) if member.is_dir())
            return


def _name(line: str) -> str:
    try:
        return canonical(Requirement(line).name)
    except InvalidRequirement:
        return canonical(re.split(r"[^A-Za-z0-9._-]", line.strip(), maxsplit=1)[0])


def _shown(source: Any) -> str:
    pairs = source.items() if isinstance(source, Mapping) else [("several sources", len(source))]
    return ", ".join(f"{key} {value}" for key, value in pairs)
