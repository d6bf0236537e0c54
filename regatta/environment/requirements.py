"""The packages that a project asks for: its lock or its requirements, as one list for uv, and a name for just this
list.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from regatta import paths
from regatta.cards import project
from regatta.environment import inline, lists, optional, other_lists, own, pyproject, setup_files, sources
from regatta.environment.lists import Listed
from regatta.environment.own import OwnPackage
from regatta.environment.sources import Sources
from regatta.errors import EnvironmentFault

FORMAT = 3
READERS: dict[str, Callable[[Path], list[str]]] = {
    "pyproject.toml": pyproject.listed,
    "setup.cfg": setup_files.of_cfg,
    "setup.py": setup_files.of_script,
}
"""Files that are no list by themselves, and what reads the requirements in them."""
FOUND = paths.LISTS
UV_LOCK = "uv.lock"


@dataclass(frozen=True)
class Requirements:
    """A person's choice of a run's packages: `requirements` is a file, `more` are requirements besides it.

    Where no file is named, the block in the `script` counts (PEP 723), then the project's own file. `extras` and
    `groups` are the project's own. `off` asks for nothing at all. `lock`: see `Wanted`.
    """

    requirements: Path | None = None
    more: tuple[str, ...] = ()
    off: bool = False
    lock: Path | None = None
    script: Path | None = None
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """A list of requirements: the `file` it is from (None: only `more`), and `digest`, a name for what it says.

    `index`: lines in it that say where packages are looked for. `fixed`: packages that stay as the nodes have them,
    whatever the list says, as a service of the cluster is made of them. `lock`: a file of versions that are taken
    where the list allows them, each with the SHA-256 of its files. `lines`: the requirements in a file that is no list
    by itself. `provided`: versions of packages that a service has besides the nodes' environment. `extras`, `groups`:
    those of the project that are asked for; a lock of uv has them, too, and `more` where the list is another one.
    """

    file: Path | None
    more: tuple[str, ...]
    digest: str
    index: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    lock: Path | None = None
    lines: tuple[str, ...] | None = None
    provided: Mapping[str, str] = field(default_factory=dict)
    own: tuple[OwnPackage, ...] = ()
    sources: Sources = field(default_factory=Sources)
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Return where it is from, in words."""
        return " and ".join([*([self.file.name] if self.file else []), *self.more]) or "the project's own packages"

    @property
    def asks(self) -> bool:
        """Whether it asks for a package, and not only for the names of the project's own."""
        return self.file is not None or bool(self.more)


def of(given: Requirements, root: Path, fixed: tuple[str, ...] = ()) -> Wanted | None:
    """Return what the project in the folder `root` needs; None where it needs nothing. EnvironmentFault names file and
    line.

    `fixed`: see `Wanted`.
    """
    if given.off:
        return None
    said = project.read(root).environment
    file = given.requirements or (root / said.requirements if said.requirements else None)
    block = inline.tables(given.script) if given.script and not file else {}
    file = file or (given.script if block else _found(root))
    tree = sources.tree_of(root.resolve())
    listed = Listed(root.resolve(), tree)
    lines = _lines(file, block, listed) if file else None
    by_uv = file is not None and file.name == UV_LOCK
    chosen = [] if by_uv else optional.lines(root, tree, given.extras, given.groups)
    more = tuple(listed.plain(one, f"'{one}'", root) for one in (*said.more, *given.more, *chosen))
    taken, packages = _of_tree(root, tree, listed, given.script if block else None, block)
    if file is None and not more and not any(one.built for one in packages):
        return None
    _refuse_sources([*(lines or ()), *more], taken)
    index = (*listed.index, *(f"--extra-index-url {url}" for url in taken.more))
    locked = [given.lock.read_text(encoding="utf-8")] if given.lock else []
    content = [*listed.files.values(), *(["\n".join(lines)] if lines else []), *_settings(root.resolve(), tree)]
    told = [asdict(one) for one in packages], asdict(replace(taken, folders={}))
    name = digest([FORMAT, content, more, *locked, *told, *((given.extras, given.groups) if by_uv else ())])
    made = Wanted(file, more, name, index, fixed, given.lock, lines, own=packages, sources=taken)
    return replace(made, extras=given.extras, groups=given.groups)


def _settings(root: Path, tree: Path) -> list[str]:
    """What uv itself reads when it resolves in a folder: limits of versions, of dates, and more."""
    folders = [folder for folder in (root, *root.parents) if folder.is_relative_to(tree)]
    tables = (
        pyproject.at(pyproject.document(file), "tool", "uv", otherwise={}) for file in _in(folders, "pyproject.toml")
    )
    return [*(repr(table) for table in tables if table), *(lists.text(file) for file in _in(folders, "uv.toml"))]


def _in(folders: Sequence[Path], name: str) -> list[Path]:
    return [folder / name for folder in folders if (folder / name).is_file()]


def _of_tree(
    root: Path, tree: Path, listed: Listed, script: Path | None, block: Mapping[str, Any]
) -> tuple[Sources, tuple[OwnPackage, ...]]:
    """The sources that a project's tables give names, and the packages in its tree. Regatta's own tree has none."""
    taken = sources.of(script, tree, block) if script else Sources()
    if root.resolve() == paths.PROJECT.resolve():
        return taken, ()
    named = (*listed.folders, *taken.folders.values())
    folders = own.closure(root, tree, named)
    for folder in folders:
        taken = taken.beside(sources.of(folder / "pyproject.toml", tree))
    return taken, tuple(package for folder in folders if (package := own.read(folder, tree)))


def _refuse_sources(lines: Sequence[str], taken: Sources) -> None:
    """EnvironmentFault for a line whose package comes from where runs take none."""
    for line in lines:
        if message := taken.refused.get(lists.name_of(line)):
            raise EnvironmentFault(message)


def unread(given: Requirements, root: Path) -> str | None:
    """Return a line about lists of a project that no run reads, where it has some and nothing else was asked for."""
    own = project.read(root).environment
    if given.off or given.requirements or own.requirements:
        return None
    if given.script and (block := inline.tables(given.script)):
        return _unread_settings(given.script, block)
    if root.resolve() == paths.PROJECT.resolve():
        return None
    others = other_lists.of(root)
    if not others:
        named = [] if _found(root) else other_lists.elsewhere(root)
        which = f"environment: no list is taken of {', '.join(named)}"
        return f"{which}: choose one by '--requirements {named[0]}'" if named else _above(root.resolve())
    names, command = ", ".join(others), next(iter(others.values()))
    if taken := _found(root):
        return f"environment: packages come from {taken.name}, and not from {names} ('{command}' makes a list of that)"
    return (
        f"environment: Regatta does not read {names}, so the run gets no packages of it: make {other_lists.MADE} by "
        f"'{command}' in the project's own environment"
    )


def _unread_settings(script: Path, block: Mapping[str, Any]) -> str | None:
    """A line about settings of uv in the block of a script that a run does not follow."""
    left = [name for name in pyproject.at(block, "tool", "uv", otherwise={}) if name not in ("sources", "index")]
    if not left:
        return None
    return f"environment: [tool.uv] {', '.join(left)} of {script.name} has no effect: write versions into dependencies"


def _above(root: Path) -> str | None:
    """A line about a project around a folder that is synced by itself, as nothing says where the tree begins."""
    if _found(root) or sources.tree_of(root) != root or sources.is_tree(root):
        return None
    upwards = [folder for folder in root.parents if folder != folder.parent and folder != Path.home()]
    named = next((folder / name for folder in upwards for name in FOUND if (folder / name).is_file()), None)
    if named is None:
        return None
    return (
        f"environment: {named} has no effect, and its folder is not synced, as there is no git here: start from "
        f"{named.parent}, or make an empty regatta.toml there"
    )


def unread_own(wanted: Wanted, root: Path) -> str | None:
    """Return a line about lists of the tree's further packages that no run reads; None where there are none."""
    root, tree = root.resolve(), sources.tree_of(root.resolve())
    folders = [tree / one.path for one in wanted.own if tree / one.path != root]
    found = [f"{name} of {folder.relative_to(tree)}" for folder in folders for name in other_lists.of_tables(folder)]
    if not found:
        return None
    return (
        f"environment: Regatta does not read {', '.join(found)}, so the run gets no packages of it: write them into "
        "[project.dependencies] there, or into the project's own list"
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


def _lines(file: Path, block: Mapping[str, Any], listed: Listed) -> tuple[str, ...] | None:
    """The requirements in a file; None for a lock. EnvironmentFault for one that another tool has to read first."""
    if command := other_lists.COMMANDS.get(file.name):
        raise EnvironmentFault(f"{file}: is not read: '{command}' makes a list that is")
    if block or file.name in READERS:
        found = pyproject.listed(file, block) if block else READERS[file.name](file)
        listed.files[str(file)] = file.name
        return tuple(listed.plain(line, f"{file}: '{line}'", file.parent) for line in found)
    if file.suffix == ".toml" or file.name == UV_LOCK:
        listed.files[str(file.resolve())] = lists.text(file)
        return None
    listed.read(file)
    return tuple(listed.lines)
