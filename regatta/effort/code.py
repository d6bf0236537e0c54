"""Lines of code that a workload has under a framework and not in a plain loop, by a diff of normalised sources.

Normalised: as `ast.unparse` writes a file without its docstrings, so that comments, blank lines and line breaks do not
count. Imports count wherever they are, also within functions.
"""

import ast
import difflib
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from regatta import paths
from regatta.records.record import SINGLE

FRAMEWORKS = "workloads/common/frameworks"
BARE = "benchmarks/programs/bare_items.py"
"""Perfect numbers under each framework as people write it without Regatta: a function `by_*` each, by `FRAMEWORKS`."""
_OURS = ("workloads", "regatta_protocol")


def of_workload(package: str, framework: str, root: Path = paths.PROJECT) -> int | None:
    """Lines that a package of `workloads/` needs under a framework and not in the plain loop; None: it has no module.

    These are the framework's module as a diff with the plain loop's, all modules that only it brings, and the modules
    of the package that import a package of the framework.
    """
    loop, own = root / FRAMEWORKS / f"{SINGLE}.py", _module(framework, root)
    if not own.is_file():
        return None
    brought = _reached([own], root) - _reached([loop], root)
    theirs, near = outside(framework, root), {path.parent for path in _near(framework, root)}
    files = {*(root / "workloads" / package).glob("*.py")}
    parts = {path for path in files if theirs & _foreign(path) or near & {one.parent for one in _ours(path, root)}}
    shared = _reached(files - parts, root, without=parts)
    brought |= _reached(sorted(parts), root) - _reached([loop], root)
    more = brought - shared - {own, loop}
    return differing(_lines(loop), _lines(own)) + sum(len(_lines(path)) for path in more)


def bare(root: Path = paths.PROJECT) -> Mapping[str, int]:
    """Lines by which each framework's bare program differs from the bare loop; empty where the programs are not here,
    as in an installed Regatta.
    """
    path = root / BARE
    if not path.is_file():
        return {}
    tree = ast.parse(path.read_text())
    parts = {part.name: part for part in tree.body if isinstance(part, ast.FunctionDef | ast.ClassDef)}
    table = next(_table(part) for part in tree.body if isinstance(part, ast.Assign) and _named(part, "FRAMEWORKS"))
    written = {name: _program(parts, function) for name, function in table.items()}
    loop = written.pop(SINGLE)
    return {name: differing(loop, lines) for name, lines in written.items()}


@cache
def outside(framework: str, root: Path = paths.PROJECT) -> frozenset[str]:
    """Packages that a framework's modules import and no other of `workloads/common`: the module by its name, and
    those in a folder by the name of a framework. One by the name of the framework may be imported in functions of
    others.
    """
    own = {_module(framework, root)} | _near(framework, root)
    others = {path for path in (root / "workloads/common").glob("**/*.py") if not _of_a_framework(path, root)}
    at_top, anywhere = (_all_foreign(others, top=top) for top in (True, False))
    named = {path.parent.name for path in own} | {path.stem for path in own}
    return frozenset(_all_foreign(own) - at_top - (anywhere - named))


@cache
def _near(framework: str, root: Path) -> frozenset[Path]:
    """The modules that a framework's module reaches in a folder by the name of a framework."""
    reached = _reached([_module(framework, root)], root)
    return frozenset(path for path in reached if path.parent != root / FRAMEWORKS and _of_a_framework(path, root))


def differing(before: Sequence[str], after: Sequence[str]) -> int:
    """Lines of `after` that are not in `before`, or are others there."""
    found = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return sum(end - begin for kind, _, _, begin, end in found if kind in ("insert", "replace"))


def normalised(tree: ast.AST) -> list[str]:
    """The lines of a program without docstrings and comments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [one for one in node.body if not _is_text(one)] or [ast.Pass()]
    return [line for line in ast.unparse(tree).splitlines() if line]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _module(framework: str, root: Path) -> Path:
    return root / FRAMEWORKS / f"{framework.replace('-', '_')}.py"


@cache
def _lines(path: Path) -> tuple[str, ...]:
    return tuple(normalised(_tree(path)))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _imported(path: Path, *, top: bool = False) -> frozenset[str]:
    """Full names of what a file imports anywhere, or only at its `top`."""
    found, tree = set(), _tree(path)
    for node in tree.body if top else _statements(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements of a tree, and what holds some: a tenth of its nodes, the only places of imports."""
    waiting = [tree]
    while waiting:
        yield (node := waiting.pop())
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(node, name, ())
            waiting += inside if isinstance(inside, list) else ()


@cache
def _foreign(path: Path, *, top: bool = False) -> set[str]:
    tops = {name.partition(".")[0] for name in _imported(path, top=top)}
    return {name for name in tops if name not in sys.stdlib_module_names and name not in _OURS}


def _reached(begin: Iterable[Path], root: Path, without: Collection[Path] = ()) -> set[Path]:
    """The files of workloads that these import, directly or through others, and these; never through `without`."""
    found: set[Path] = set()
    waiting = [*begin]
    while waiting:
        path = waiting.pop()
        if path not in found and path not in without:
            found.add(path)
            waiting += _ours(path, root)
    return found


@cache
def _ours(path: Path, root: Path) -> frozenset[Path]:
    found = []
    for name in _imported(path):
        if name.startswith("workloads."):
            places = [root / f"{one.replace('.', '/')}.py" for one in (name, name.rpartition(".")[0])]
            found += [place for place in places if place.is_file()][:1]
    return frozenset(found)


def _of_a_framework(path: Path, root: Path) -> bool:
    """Whether a file is a framework's module, or in a folder by the name of a framework."""
    return path.parent == root / FRAMEWORKS or _module(path.parent.name, root).is_file()


def _all_foreign(files: Iterable[Path], *, top: bool = False) -> set[str]:
    return {name for path in files for name in _foreign(path, top=top)}


def _named(part: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in part.targets)


def _table(part: ast.Assign) -> dict[str, str]:
    """A dictionary of texts to names of functions, as it is written."""
    assert isinstance(part.value, ast.Dict)
    pairs = zip(part.value.keys, part.value.values, strict=True)
    return {
        str(key.value): value.id
        for key, value in pairs
        if isinstance(key, ast.Constant) and isinstance(value, ast.Name)
    }


def _program(parts: Mapping[str, ast.FunctionDef | ast.ClassDef], begin: str) -> list[str]:
    """The function by this name, called `spread`, and the functions that it uses, as lines."""
    used, waiting = [], [begin]
    while waiting:
        name = waiting.pop()
        if name not in used:
            used.append(name)
            names = {node.id for node in ast.walk(parts[name]) if isinstance(node, ast.Name)}
            waiting += sorted(names & parts.keys())
    lines = [line for name in parts if name in used for line in normalised(parts[name])]
    return [line.replace(f"def {begin}(", "def spread(") for line in lines]
