"""The Python that a project is for, by each file that names one, compared with the cluster's."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from regatta.environment import inline, pyproject, setup_files
from regatta.errors import EnvironmentFault

PIN = ".python-version"
_CARET = re.compile(r"\^(\d+)((?:\.\d+)*)")
_TILDE = re.compile(r"~(\d+(?:\.\d+)?)(?![\d.=])")


def check(python: str, project: Path, script: Path | None = None) -> None:
    """EnvironmentFault where a project, or a script by itself, is for another Python than `python`, the cluster's."""
    for file, said in ranges(project, script):
        fits(said, python, file)


def fits(said: object, python: str, file: Path) -> None:
    """EnvironmentFault where a file is for another Python than the nodes'."""
    try:
        wanted = SpecifierSet(_TILDE.sub(r"==\1.*", _CARET.sub(_below, str(said or ""))))
    except InvalidSpecifier:
        raise EnvironmentFault(
            f"{file}: requires-python '{said}' is no range of versions: write one, as >=3.10"
        ) from None
    possible = [python] if python.count(".") > 1 else [f"{python}.0", f"{python}.99"]
    if not any(wanted.contains(one, prereleases=True) for one in possible):
        raise EnvironmentFault(
            f"{file}: is for Python {said}, and the nodes have {python}: widen requires-python (and lock again, where "
            "there is a lock), or choose a cluster with such a Python; --no-environment runs without this check"
        )


def ranges(project: Path, script: Path | None = None) -> Iterator[tuple[Path, str]]:
    """Each file of a project that names a range, and that; of a script with a block of its own, only that."""
    if script and (own := inline.tables(script)):
        yield from _said(script, own.get("requires-python"))
        return
    file = project / "pyproject.toml"
    tables = pyproject.document(file) if file.is_file() else {}
    table = pyproject.at(tables, "project", otherwise={})
    yield from _said(file, table.get("requires-python"))
    poetry = pyproject.at(tables, "tool", "poetry", "dependencies", otherwise={})
    yield from _said(file, poetry.get("python"))
    for name in ("uv.lock", "pylock.toml"):
        lock = project / name
        yield from _said(lock, _head(lock).get("requires-python") if lock.is_file() else None)
    cfg, setup, pipfile = (project / name for name in ("setup.cfg", "setup.py", "Pipfile"))
    yield from _said(cfg, setup_files.cfg(cfg).get("options", "python_requires", fallback=None))
    yield from _said(setup, setup_files.written(setup, "python_requires"))
    needs = pyproject.at(pyproject.document(pipfile), "requires", otherwise={}) if pipfile.is_file() else {}
    if version := needs.get("python_full_version"):
        yield pipfile, f"=={version}"
    elif version := needs.get("python_version"):
        yield pipfile, f"=={version}.*"


def pinned(python: str, root: Path, project: Path) -> str | None:
    """Return a line where the nearest `.python-version` of a project in the tree `root` names another than `python`."""
    upwards = [folder for folder in (project, *project.parents) if folder.is_relative_to(root)]
    file = next((folder / PIN for folder in upwards if (folder / PIN).is_file()), None)
    if file is None:
        return None
    lines = (line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines())
    first = next(filter(None, lines), "")
    number = re.search(r"(?<![\d.])\d+(?:\.\d+)*", first)
    if number is None or f"{python}.".startswith(f"{number[0]}."):
        return None
    return f"{file.relative_to(root)} names Python {first}, and the run has the cluster's {python}"


def _head(lock: Path) -> dict[str, Any]:
    """The keys of a lock before its first table: all of a long one takes long to read, and each start asks."""
    return pyproject.parsed(lock.read_text(encoding="utf-8", errors="replace").partition("\n[")[0], str(lock))


def _said(file: Path, said: object) -> Iterator[tuple[Path, str]]:
    if isinstance(said, str) and said.strip():
        yield file, said


def _below(caret: re.Match[str]) -> str:
    return f">={caret[1]}{caret[2]},<{int(caret[1]) + 1}"
