"""The folders of a tree from which a project's own packages are imported, as its build system finds them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regatta.environment import own, pyproject, setup_files
from regatta.errors import EnvironmentFault

SOURCES = "src"
"""The folder that setuptools, flit, hatchling and uv look into without being told."""
_DEEPER = ("", "*/", "*/*/", "*/*/*/")
"""How deep modules of it may be: a namespace has none of its own."""


def folders(root: Path, project: Path, named: tuple[Path, ...] = ()) -> tuple[str, ...]:
    """Return these folders, relative to the tree `root`; `project` is the folder of the project in it.

    `named`: folders that its list names. A folder that does not exist, or is outside of the tree, is left out; so is
    the tree itself, which is always there.
    """
    root, found = root.resolve(), dict[Path, None]()
    for package in own.closure(project, root, named):
        found |= dict.fromkeys((package, *sources(package)))
    inside = [folder for folder in found if folder != root and folder.is_relative_to(root) and folder.is_dir()]
    return tuple(str(folder.relative_to(root)) for folder in inside)


def sources(package: Path) -> Iterator[Path]:
    """Return where the modules of one package are, but for its own folder."""
    if any(any((package / SOURCES).glob(f"{deeper}*.py")) for deeper in _DEEPER):
        yield package / SOURCES
    for name in (*_of_tables(_toml(package / "pyproject.toml")), *_of_setup_cfg(package), *_of_setup_py(package)):
        yield (package / name).resolve()


def _of_tables(document: Mapping[str, Any]) -> Iterator[str]:
    tool = document.get("tool", {})
    yield from pyproject.at(tool, "setuptools", "packages", "find", "where", otherwise=[])
    yield from _of_package_dir(pyproject.at(tool, "setuptools", "package-dir", otherwise={}))
    wheel = pyproject.at(tool, "hatch", "build", "targets", "wheel", otherwise={})
    yield from (str(Path(path).parent) for path in wheel.get("packages", []))
    sources = wheel.get("sources", [])
    yield from sources if isinstance(sources, list) else (path for path, name in sources.items() if not name)
    yield from (one["from"] for one in pyproject.at(tool, "poetry", "packages", otherwise=[]) if "from" in one)
    yield from filter(None, [pyproject.at(tool, "pdm", "build", "package-dir", otherwise="")])
    yield from filter(None, [pyproject.at(tool, "maturin", "python-source", otherwise="")])
    yield from filter(None, [pyproject.at(tool, "uv", "build-backend", "module-root", otherwise="")])


def _of_setup_cfg(package: Path) -> Iterator[str]:
    read = setup_files.cfg(package / "setup.cfg")
    yield from read.get("options.packages.find", "where", fallback="").split()
    lines = (line.partition("=") for line in read.get("options", "package_dir", fallback="").splitlines())
    yield from _of_package_dir({name.strip(): folder.strip() for name, equals, folder in lines if equals})


def _of_setup_py(package: Path) -> Iterator[str]:
    said = setup_files.written(package / "setup.py", "package_dir")
    yield from _of_package_dir(said if isinstance(said, dict) else {})


def _of_package_dir(said: Mapping[Any, Any]) -> Iterator[str]:
    """The folder of each package, and of all, by setuptools; but for one under another name, which only a build has."""
    for name, folder in said.items():
        package, parts = tuple(str(name).split(".")) if name else (), Path(str(folder)).parts
        above = len(parts) - len(package)
        if above >= 0 and parts[above:] == package:
            yield str(Path(*parts[:above]))


def _toml(path: Path) -> dict[str, Any]:
    """A file of TOML; empty where there is none, or none that can be read: who needs it reports that."""
    try:
        return pyproject.document(path)
    except EnvironmentFault:
        return {}
