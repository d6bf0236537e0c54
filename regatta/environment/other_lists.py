"""Files that name a project's packages and that a run does not read: each with the command that makes a list of it."""

from collections.abc import Iterator
from pathlib import Path

from regatta.environment import pyproject, setup_files

MADE = "requirements.txt"
_POETRY = f"poetry export -f requirements.txt -o {MADE}"
_INSTALLED = f"pip list --format=freeze > {MADE}"
"""In the environment that the file has made."""
_ELSEWHERE = ("requirements/*.txt", "*requirements*.txt")
COMMANDS = {
    "poetry.lock": _POETRY,
    "pdm.lock": f"pdm export -o {MADE}",
    "Pipfile.lock": f"pipenv requirements > {MADE}",
    "Pipfile": f"pipenv lock && pipenv requirements > {MADE}",
    "pixi.lock": _INSTALLED,
    "pixi.toml": _INSTALLED,
    "conda-lock.yml": _INSTALLED,
    **dict.fromkeys(("environment.yml", "environment.yaml", "conda.yml", "conda.yaml"), _INSTALLED),
}


def of(folder: Path) -> dict[str, str]:
    """Return such files of a project: the command for each, by name."""
    found = {name: command for name, command in COMMANDS.items() if (folder / name).is_file()}
    if "Pipfile.lock" in found:
        found.pop("Pipfile", None)
    return {**found, **of_tables(folder, locked="poetry.lock" in found)}


def of_tables(folder: Path, *, locked: bool = False) -> dict[str, str]:
    """Return a `pyproject.toml` and a `setup.py` whose requirements only their own build system knows, likewise."""
    return dict(_of_tables(folder, locked))


def _of_tables(folder: Path, locked: bool) -> Iterator[tuple[str, str]]:
    file = folder / "pyproject.toml"
    if file.is_file():
        tables = pyproject.document(file)
        poetry = pyproject.at(tables, "tool", "poetry", "dependencies", otherwise={})
        if not locked and poetry.keys() - {"python"} and not pyproject.own(tables, file):
            yield "[tool.poetry.dependencies]", f"poetry lock && {_POETRY}"
        elif not poetry and pyproject.hidden(tables, file):
            yield "pyproject.toml (dynamic)", f"uv pip compile pyproject.toml -o {MADE}"
        if pyproject.at(tables, "tool", "pixi", "dependencies", otherwise={}).keys() - {"python"}:
            yield "[tool.pixi.dependencies]", _INSTALLED
        if pyproject.at(tables, "tool", "hatch", "envs", "default", "dependencies", otherwise=[]):
            yield "[tool.hatch.envs.default]", f"hatch dep show requirements > {MADE}"
    if setup_files.written(folder / "setup.py", "install_requires") is setup_files.COMPUTED:
        yield "setup.py", f"uv pip compile setup.py -o {MADE}"


def elsewhere(folder: Path) -> list[str]:
    """Return lists of requirements that a project has under other names, in their order."""
    found = {path for pattern in _ELSEWHERE for path in folder.glob(pattern) if path.is_file()}
    return sorted(path.relative_to(folder).as_posix() for path in found)
