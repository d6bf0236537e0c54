"""The packages that a project asks for: its lock or its requirements, as one list for uv, and a name for just this
list.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regatta import paths
from regatta.cards import project
from regatta.environment import inline, other_lists, pyproject, setup_files
from regatta.errors import EnvironmentFault

FORMAT = 2
READERS: dict[str, Callable[[Path], list[str]]] = {
    "pyproject.toml": pyproject.listed,
    "setup.cfg": setup_files.of_cfg,
    "setup.py": setup_files.of_script,
}
"""Files that are no list by themselves, and what reads the requirements in them."""
FOUND = paths.LISTS
_OPTION = re.compile(r"(-r|-c|--requirement|--constraint)(?:\s+|=|(?<=-[rc]))(\S+)")
_INDEX = re.compile(r"(-i|--index-url|--extra-index-url|-f|--find-links|--no-index)(?:\s+|=|$)(\S*)")
_EDITABLE = re.compile(r"(-e|--editable)\b")
_LOCAL = re.compile(r"(\.{0,2}/|\.{1,2}$|file:)|\S+\s*@\s*(\.{0,2}/|file:)")
_REMOTE_SOURCE = re.compile(r"(\S+\s*@\s*)?(git|hg|svn|bzr)\+")


@dataclass(frozen=True)
class Requirements:
    """A person's choice of a run's packages: `requirements` is a file, `more` are requirements besides it.

    Where no file is named, the block in the `script` counts (PEP 723), then the project's own file. `off` asks for
    nothing at all. `lock`: see `Wanted`.
    """

    requirements: Path | None = None
    more: tuple[str, ...] = ()
    off: bool = False
    lock: Path | None = None
    script: Path | None = None


@dataclass(frozen=True)
class Wanted:
    """A list of requirements: the `file` it is from (None: only `more`), and `digest`, a name for what it says.

    `index`: lines in it that say where packages are looked for. `fixed`: packages that stay as the nodes have them,
    whatever the list says, as a service of the cluster is made of them. `lock`: a file of versions that are taken
    where the list allows them, each with the SHA-256 of its files. `lines`: the requirements in a file that is no list
    by itself. `provided`: versions of packages that a service has besides the nodes' environment.
    """

    file: Path | None
    more: tuple[str, ...]
    digest: str
    index: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    lock: Path | None = None
    lines: tuple[str, ...] | None = None
    provided: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Return where it is from, in words."""
        return " and ".join([*([self.file.name] if self.file else []), *self.more])


def of(wish: Requirements, root: Path, fixed: tuple[str, ...] = ()) -> Wanted | None:
    """Return what the project whose tree is `root` needs; None where it needs nothing. EnvironmentFault names file and
    line.

    `fixed`: see `Wanted`.
    """
    if wish.off:
        return None
    own = project.read(root).environment
    file = wish.requirements or (root / own.requirements if own.requirements else None)
    block = inline.tables(wish.script) if wish.script and not file else {}
    file = file or (wish.script if block else _found(root))
    more = (*own.more, *wish.more)
    if file is None and not more:
        return None
    content: list[tuple[str, str]] = []
    index: list[str] = []
    lines = _lines(file, block) if file else None
    if file is not None and not block:
        _read(file, content, index)
    if file is not None and lines is not None:
        content.append((file.name, "\n".join(lines)))
    locked = [wish.lock.read_text(encoding="utf-8")] if wish.lock else []
    name = digest([FORMAT, [text for _, text in content], more, *locked])
    return Wanted(file, more, name, tuple(index), fixed, wish.lock, lines)


def unread(wish: Requirements, root: Path) -> str | None:
    """Return a line about lists of a project that no run reads, where it has some and nothing else was asked for."""
    own = project.read(root).environment
    if wish.off or wish.requirements or own.requirements or (wish.script and inline.tables(wish.script)):
        return None
    if root.resolve() == paths.PROJECT.resolve() or not (others := other_lists.of(root)):
        return None
    names, command = ", ".join(others), next(iter(others.values()))
    if taken := _found(root):
        return f"environment: packages come from {taken.name}, and not from {names} ('{command}' makes a list of that)"
    return (
        f"environment: Regatta does not read {names}, so the run gets no packages of it: make {other_lists.MADE} by "
        f"'{command}' in the project's own environment"
    )


def digest(value: Any) -> str:
    """A name for a value of JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _found(root: Path) -> Path | None:
    """The project's own file; Regatta's own tree has none: the base is made for it."""
    if root.resolve() == paths.PROJECT.resolve():
        return None
    for name in FOUND:
        path = root / name
        if path.is_file() and (name not in READERS or READERS[name](path)):
            return path
    return None


def _lines(file: Path, block: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The requirements in a file that is no list. EnvironmentFault for one that another tool has to read first."""
    if command := other_lists.COMMANDS.get(file.name):
        raise EnvironmentFault(f"{file}: is not read: '{command}' makes a list that is")
    if block:
        return tuple(pyproject.listed(file, block))
    return tuple(READERS[file.name](file)) if file.name in READERS else None


def _read(file: Path, content: list[tuple[str, str]], index: list[str]) -> None:
    """Add a file and all that it includes. Refuses by line what cannot become part of a layer."""
    path = file.resolve()
    if str(path) in (name for name, _ in content):
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise EnvironmentFault(f"{file}: cannot be read ({reason}); it should list the packages of the run") from None
    content.append((str(path), text))
    if path.suffix == ".toml" or path.name == "uv.lock" or path.name in READERS:
        return
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        where = f"{file}: line {number}: '{line[:80]}'"
        if included := _OPTION.match(line):
            if "://" in included[2]:
                raise EnvironmentFault(f"{where}: a list from the network is not read: put it next to the project")
            _read(path.parent / included[2], content, index)
        elif option := _INDEX.match(line):
            word = option[2]
            beside = path.parent / word
            index.append(f"{option[1]} {beside if word and beside.exists() else word}".rstrip())
        elif _EDITABLE.match(line) or _LOCAL.match(line):
            raise EnvironmentFault(
                f"{where}: a folder of this machine cannot be installed on the nodes. Take the line out: the tree "
                "itself goes along with each run and can be imported; for other code name a package and its version"
            )
        elif _REMOTE_SOURCE.match(line):
            raise EnvironmentFault(
                f"{where}: only published packages are taken, no repository's source: name a version"
            )
