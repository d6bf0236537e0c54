"""The version of a package of the tree, where its files have it written out; nothing of them is run."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from regatta.environment import setup_files
from regatta.environment.pyproject import at

_ASSIGNED = re.compile(r"^(?:__version__|VERSION|version)\s*(?::[^=\n]*)?=\s*['\"]v?([^'\"]+)['\"]", re.M)


def read(folder: Path, tables: Mapping[str, Any], name: str) -> str | None:
    """Return the version that a package's files have; None where its build system computes it."""
    for said in _versions(folder, tables, name):
        try:
            return str(Version(said.strip()))
        except InvalidVersion:
            continue
    return None


def _versions(folder: Path, tables: Mapping[str, Any], name: str) -> Iterator[str]:
    tool = at(tables, "tool", otherwise={})
    yield at(tables, "project", "version", otherwise="")
    yield at(tool, "poetry", "version", otherwise="")
    dynamic = at(tool, "setuptools", "dynamic", "version", otherwise={})
    cfg = setup_files.cfg(folder / "setup.cfg").get("metadata", "version", fallback="").strip()
    word, colon, rest = cfg.partition(":")
    said = {**dynamic, **({word: rest.strip()} if colon else {})}
    if isinstance(attribute := said.get("attr"), str):
        module, _, variable = attribute.rpartition(".")
        yield _of_module(folder, module, variable)
    files = said.get("file")
    first = files[0] if isinstance(files, list) and files else files
    if isinstance(first, str):
        yield _text(folder / first.strip())
    yield cfg
    for system in ("hatch", "pdm"):
        path = at(tool, system, "version", otherwise={}).get("path")
        if isinstance(path, str) and (match := _ASSIGNED.search(_text(folder / path))):
            yield match[1]
    written = setup_files.written(folder / "setup.py", "version")
    yield written if isinstance(written, str) else ""
    if "version" in at(tables, "project", "dynamic", otherwise=[]) and "flit" in str(tables.get("build-system")):
        module = at(tool, "flit", "module", otherwise={}).get("name", name)
        yield _of_module(folder, module.replace("-", "_"), "__version__")


def _of_module(folder: Path, module: str, variable: str) -> str:
    """The value that a module's top level gives a variable, as text; nothing is imported."""
    parts = module.split(".")
    for top in (folder, *(one for one in folder.iterdir() if one.is_dir())):
        for file in (top.joinpath(*parts).with_suffix(".py"), top.joinpath(*parts, "__init__.py")):
            try:
                body = ast.parse(_text(file)).body
            except SyntaxError:
                continue
            for one in body:
                if _gives(one, variable) and isinstance(value := getattr(one, "value", None), ast.Constant):
                    return str(value.value)
    return ""


def _gives(statement: ast.stmt, variable: str) -> bool:
    several = statement.targets if isinstance(statement, ast.Assign) else []
    names = [statement.target] if isinstance(statement, ast.AnnAssign) else several
    return any(isinstance(name, ast.Name) and name.id == variable for name in names)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
