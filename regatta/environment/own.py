"""The packages that a project has in its own tree: what each is called, needs and offers, as its files say.

Nothing of them is run or built. On nodes they are imported from the tree; `importlib.metadata` knows them by a small
folder in the layer.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name as canonical

from regatta.environment import own_version, pyproject, setup_files, sources
from regatta.environment.pyproject import at
from regatta.errors import EnvironmentFault

UNKNOWN = "0"
"""The version of a package whose own build would have to tell it."""


@dataclass(frozen=True)
class OwnPackage:
    """A package of the tree: `path` from the tree; `requires` and `extras` as in its metadata; `points`: entry points
    by group. `known`: whether its version is written out. `built`: whether its own tools would install it.
    """

    name: str
    version: str
    path: str
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    points: tuple[tuple[str, str, str], ...] = ()
    known: bool = True
    built: bool = True

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "OwnPackage":
        """Of what `asdict` gave, by way of JSON."""
        points = tuple((group, name, at) for group, name, at in value["points"])
        return cls(
            **{**value, "requires": tuple(value["requires"]), "extras": tuple(value["extras"]), "points": points}
        )

    @property
    def stub_version(self) -> str:
        """Return the version by which uv knows it: no public index may have one with such a label."""
        return f"{self.version}{'.' if '+' in self.version else '+'}tree"

    @property
    def metadata(self) -> str:
        """Return its METADATA."""
        return self._metadata(self.version)

    @property
    def stub(self) -> str:
        """Return the METADATA that uv reads."""
        return self._metadata(self.stub_version)

    def _metadata(self, version: str) -> str:
        lines = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {version}"]
        lines += [f"Provides-Extra: {extra}" for extra in self.extras]
        return "\n".join([*lines, *(f"Requires-Dist: {one}" for one in self.requires), "", ""])

    @property
    def entry_points(self) -> str:
        """Return its entry_points.txt."""
        groups = dict.fromkeys(group for group, _, _ in self.points)
        lines = [
            line
            for group in groups
            for line in (f"[{group}]", *(f"{name} = {at}" for mine, name, at in self.points if mine == group), "")
        ]
        return "\n".join([*lines, ""]) if lines else ""

    @property
    def shown(self) -> str:
        """Return it in words."""
        version = self.version if self.known else "of a version that only its build tells"
        return f"{self.name} {version} ({self.path or '.'})"


def closure(project: Path, tree: Path, named: tuple[Path, ...] = ()) -> list[Path]:
    """Return the folder of a project, those `named` besides it, and all that their tables take from the tree."""
    found, waiting = dict[Path, None](), [project.resolve(), *named]
    while waiting:
        folder = waiting.pop(0)
        if folder not in found and folder.is_relative_to(tree):
            found[folder] = None
            waiting += [one.resolve() for one in _taken(folder / "pyproject.toml", tree)]
    return [*found]


def _taken(file: Path, tree: Path) -> list[Path]:
    try:
        return sources.folders(file, tree)
    except EnvironmentFault:
        return []  # who needs the file reports its damage


def read(folder: Path, tree: Path) -> OwnPackage | None:
    """Return the package in a folder of the tree; None where nothing there has a name. EnvironmentFault for damage."""
    file, cfg = folder / "pyproject.toml", setup_files.cfg(folder / "setup.cfg")
    tables = pyproject.document(file) if file.is_file() else {}
    standard, poetry = at(tables, "project", otherwise={}), at(tables, "tool", "poetry", otherwise={})
    written = setup_files.written(folder / "setup.py", "name")
    flit = at(tables, "tool", "flit", "metadata", "module", otherwise="")
    choices = (standard.get("name"), poetry.get("name"), cfg.get("metadata", "name", fallback=None), written, flit)
    name = next((one for one in choices if one and isinstance(one, str)), None)
    if name is None:
        return None
    version = own_version.read(folder, tables, name)
    extras = _extras(folder, tables)
    requires = [*_requires(folder, tables)]
    for extra, lines in extras.items():
        requires += [_only_for(extra, line) for line in lines]
    has_build = "build-system" in tables or (folder / "setup.py").is_file() or cfg.has_section("metadata")
    packaged = at(tables, "tool", "uv", otherwise={}).get("package", has_build)
    return OwnPackage(
        name,
        version or UNKNOWN,
        "/".join(folder.resolve().relative_to(tree).parts),
        tuple(_plain(line) for line in requires),
        tuple(extras),
        tuple(_points(folder, tables)),
        version is not None,
        bool(packaged),
    )


def _requires(folder: Path, tables: Mapping[str, Any]) -> list[str]:
    found = pyproject.own(tables, folder / "pyproject.toml")
    return found or setup_files.of_cfg(folder / "setup.cfg") or setup_files.of_script(folder / "setup.py")


def _extras(folder: Path, tables: Mapping[str, Any]) -> dict[str, list[str]]:
    found = {str(k): list(v) for k, v in at(tables, "project", "optional-dependencies", otherwise={}).items()}
    cfg = setup_files.cfg(folder / "setup.cfg")
    if cfg.has_section("options.extras_require"):
        for name, text in cfg.items("options.extras_require"):
            found.setdefault(name, [line.strip() for line in text.splitlines() if line.strip()])
    said = setup_files.written(folder / "setup.py", "extras_require")
    for name, lines in said.items() if isinstance(said, dict) else ():
        found.setdefault(str(name), [lines] if isinstance(lines, str) else [str(line) for line in lines])
    return found


def _only_for(extra: str, line: str) -> str:
    text, _, marker = (part.strip() for part in line.partition(";"))
    return f'{text} ; ({marker}) and extra == "{extra}"' if marker else f'{text} ; extra == "{extra}"'


def _plain(line: str) -> str:
    """A requirement without its URL: what has one is taken from its folder, or is refused by name."""
    try:
        one = Requirement(line)
    except InvalidRequirement:
        return line
    one.url = None
    return str(one)


def _points(folder: Path, tables: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    tool = at(tables, "tool", "poetry", otherwise={})
    groups: dict[str, Any] = {
        "console_scripts": {**at(tool, "scripts", otherwise={}), **at(tables, "project", "scripts", otherwise={})},
        "gui_scripts": at(tables, "project", "gui-scripts", otherwise={}),
        **at(tool, "plugins", otherwise={}),
        **at(tables, "project", "entry-points", otherwise={}),
    }
    for group, table in (*groups.items(), *_points_of_setup(folder)):
        for name, where in table.items() if isinstance(table, Mapping) else ():
            if isinstance(where, str):
                yield group, name, where


def _points_of_setup(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    cfg = setup_files.cfg(folder / "setup.cfg")
    section = "options.entry_points"
    given = {key: text.splitlines() for key, text in cfg.items(section)} if cfg.has_section(section) else {}
    said = setup_files.written(folder / "setup.py", "entry_points")
    given |= {key: lines for key, lines in said.items() if isinstance(lines, list)} if isinstance(said, dict) else {}
    for group, lines in given.items():
        pairs = (str(line).partition("=") for line in lines if "=" in str(line))
        yield group, {name.strip(): where.strip() for name, _, where in pairs}


def by_name(packages: tuple[OwnPackage, ...]) -> dict[str, OwnPackage]:
    """Return packages by canonical name; the first counts."""
    found: dict[str, OwnPackage] = {}
    for package in packages:
        found.setdefault(canonical(package.name), package)
    return found


_PROGRAM = """\
#!/usr/bin/env python
import sys
from {module} import {first}
sys.exit({call}())
"""
_OBJECT = re.compile(r"([\w.]+)\s*:\s*([\w.]+)")


def describe(package: OwnPackage, layer: Path) -> None:
    """Write what `importlib.metadata` reads of a package, and its programs, into a layer."""
    stem = re.sub("[-_.]+", "_", package.name)
    info = layer / f"{stem}-{package.version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(package.metadata)
    (info / "INSTALLER").write_text("regatta\n")
    if package.points:
        (info / "entry_points.txt").write_text(package.entry_points)
    for group, name, where in package.points:
        if group == "console_scripts" and (there := _OBJECT.match(where)) and "/" not in name:
            (layer / "bin").mkdir(exist_ok=True)
            program = layer / "bin" / name
            first = there[2].partition(".")[0]
            program.write_text(_PROGRAM.format(module=there[1], first=first, call=there[2]))
            program.chmod(0o755)
