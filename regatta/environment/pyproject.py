"""Requirements of a `pyproject.toml`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regatta.environment import setup_files
from regatta.errors import EnvironmentFault

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def document(path: Path) -> dict[str, Any]:
    """A TOML file. EnvironmentFault where it is none."""
    try:
        return parsed(path.read_text(encoding="utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise EnvironmentFault(f"{path}: is not in UTF-8: save it so") from None
    except (OSError, ValueError) as error:
        raise EnvironmentFault(f"{path}: {error}") from None


def parsed(text: str, where: str) -> dict[str, Any]:
    """A text as TOML. EnvironmentFault, which says `where`, if it is none."""
    try:
        return dict(tomllib.loads(text))
    except ValueError as error:
        raise EnvironmentFault(f"{where}: {error}") from None


def listed(file: Path, block: Mapping[str, Any] | None = None) -> list[str]:
    """Return the requirements of a `pyproject.toml`, or of the `block` in a script, which is the file then."""
    if block is None and not file.is_file():
        return []
    return own(document(file) if block is None else {**block, "project": block}, file)


def own(tables: Mapping[str, Any], file: Path) -> list[str]:
    """Return the requirements that a `pyproject.toml` has, or names files with, for setuptools or hatchling."""
    said = at(tables, "project", otherwise={}).get("dependencies", [])
    if not isinstance(said, list) or not all(isinstance(one, str) for one in said):
        raise EnvironmentFault(f'{file}: dependencies is no list of names: write dependencies = ["NAME>=1.0"]')
    found = [*said, *at(tables, "tool", "flit", "metadata", "requires", otherwise=[])]
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


def at(table: Any, *keys: str, otherwise: Any) -> Any:
    """Return the value below these keys, if it is of the kind of `otherwise`, which else is returned."""
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table if isinstance(table, type(otherwise)) else otherwise
