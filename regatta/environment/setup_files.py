"""The values of a `setup.cfg` and a `setup.py`, where they are written out; nothing of them is run."""

import ast
import configparser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMPUTED = object()
"""A value of a `setup.py` that only running it would tell."""


def cfg(file: Path) -> configparser.ConfigParser:
    """A `setup.cfg`; empty where there is none, or none that can be read. A section that comes twice is one."""
    read = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        read.read(file, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return configparser.ConfigParser(interpolation=None)
    return read


def of_cfg(file: Path) -> list[str]:
    """Return the requirements of a `setup.cfg`, also where it names files that have them."""
    said = cfg(file).get("options", "install_requires", fallback="")
    if said.strip().startswith("file:"):
        return lines_of(file.parent, said.strip().removeprefix("file:").split(","))
    return _requirements(said.replace(";\n", "\n").splitlines())


def of_script(file: Path) -> list[str]:
    """Return the requirements of a `setup.py`, as far as they are written out."""
    said = written(file, "install_requires")
    many = [said] if isinstance(said, str) else said if isinstance(said, list | tuple) else []
    return _requirements([line for one in many for line in str(one).splitlines()])


def written(file: Path, keyword: str) -> Any:
    """Return what a `setup.py` gives an argument: a value, or a name that its top level gives one once.

    None without that argument, `COMPUTED` for all else.
    """
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    given = next((one.value for one in _keywords(tree) if one.arg == keyword), None)
    if isinstance(given, ast.Name):
        named = [one.value for one in tree.body if isinstance(one, ast.Assign) and _is_name(one.targets, given.id)]
        given = named[0] if len(named) == 1 else given
    try:
        return ast.literal_eval(given) if given else None
    except (ValueError, TypeError, SyntaxError):
        return COMPUTED


def lines_of(folder: Path, names: list[str]) -> list[str]:
    """Return the requirements in files of a folder, as setuptools reads them; a file that is missing has none."""
    files = [folder / name.strip() for name in names if name.strip()]
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file()]
    return _requirements("\n".join(texts).splitlines())


def _requirements(lines: list[str]) -> list[str]:
    whole = (line.strip().partition(" #")[0].strip() for line in lines)
    return [line for line in whole if line and not line.startswith("#")]


def _keywords(tree: ast.Module) -> Iterator[ast.keyword]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "setup":
            yield from node.keywords


def _is_name(targets: list[ast.expr], name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in targets)
