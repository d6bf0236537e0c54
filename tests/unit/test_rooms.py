"""The rooms of `regatta/`: what each may import, as docs/explanation/architecture.md says.

No module imports itself through others, there, in `workloads/` and in `regatta_protocol/`, which both of them import.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

from regatta.hosts import sources
from regatta.paths import PROJECT

PACKAGE = PROJECT / "regatta"
GROUND = {"errors", "files", "paths", "program", "text", "typed"}
DOOR = {"cli", "completion"}
ON_NODES = re.compile(r"regatta\.frameworks\.\w+\.(node|run)\b")
ROW = re.compile(r"\| `(\w+)/` \|.*\| (?:`([\w ]+)`|) ?\|")


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py")) if "project" not in path.parts}
NODES = {name_of(path): path for path in sorted((PROJECT / "workloads").rglob("*.py"))}
SHARED = {name_of(path): path for path in sorted((PROJECT / "regatta_protocol").rglob("*.py"))}
ALL = {**FILES, **NODES, **SHARED}


def imports(path: Path) -> Iterator[str]:
    """Full names of what a file imports anywhere: at its top, in functions, and only for type checking."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports name their module in full"
            module = node.module or ""
            for alias in node.names:
                whole = f"{module}.{alias.name}"
                yield whole if whole in ALL else module


def room(module: str) -> str:
    """The room of a module; of one at the top of `regatta/` its own name. Code of frameworks on nodes is `node`'s."""
    return "node" if ON_NODES.match(module) else module.split(".")[1]


def arrows(files: dict[str, Path]) -> list[tuple[str, str]]:
    """(module, other of these that it imports), without the package that has all of them."""
    return [
        (importer, found)
        for importer, path in files.items()
        for found in imports(path)
        if found in files and "." in found and found != importer
    ]


ARROWS = arrows(FILES)


def table() -> dict[str, set[str]]:
    """Which rooms each room may import, in the order of the table."""
    page = (PROJECT / "docs/explanation/architecture.md").read_text()
    text = page.partition("\n## Packages of `regatta/`")[2].partition("\n## ")[0]
    return {name: set((below or "").split()) for name, below in ROW.findall(text)}


def circle(modules: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(modules).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_module_is_in_a_room_that_the_table_names() -> None:
    tops = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    assert tops == GROUND | DOOR
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == set(table())


def test_a_room_imports_only_rooms_below_it() -> None:
    rooms = list(table())
    for place, below in enumerate(table().values()):
        assert below <= set(rooms[place + 1 :]), rooms[place]


@pytest.mark.parametrize("name", table())
def test_a_room_imports_what_the_table_says_and_no_more(name: str) -> None:
    allowed = table()[name] | {name} | (GROUND if name != "node" else set())
    wrong = [f"{one} -> {other}" for one, other in ARROWS if room(one) == name and room(other) not in allowed]
    assert not wrong, "docs/explanation/architecture.md, Packages"
    used = {room(other) for one, other in ARROWS if room(one) == name}
    assert table()[name] <= used, "the table names a room that is not imported"


def test_what_stands_at_the_top_imports_no_room() -> None:
    assert not [(one, other) for one, other in ARROWS if room(one) in GROUND and room(other) not in GROUND]


@pytest.mark.parametrize("files", [FILES, NODES, SHARED], ids=["regatta", "workloads", "regatta_protocol"])
def test_no_module_imports_itself_through_others(files: dict[str, Path]) -> None:
    modules: dict[str, set[str]] = {name: set() for name in files}
    for one, other in arrows(files):
        modules[one].add(other)
    found = circle(modules)
    assert not found, " -> ".join(found)


def test_a_circle_would_be_found() -> None:
    found = circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert set(found) == {"a", "b", "c"} and found[0] == found[-1] and len(list(pairwise(found))) == 3


def test_the_controller_imports_nothing_of_the_nodes_library() -> None:
    for name, path in FILES.items():
        beside_ray = (
            {"ray"} if name == "regatta.frameworks.ray.run.private_ray" else set()
        )  # a run's own, in the nodes' environment
        assert not {found.partition(".")[0] for found in imports(path)} & {"torch", "ray", "workloads"} - beside_ray, (
            path
        )


def test_what_is_sent_to_nodes_needs_the_standard_library_alone() -> None:
    files = [(name, path) for name, path in FILES.items() if name != "regatta" and room(name) == "node"]
    beside = {name.rpartition(".")[2] for name, _ in files} | {"joined"}  # files in the folder of a run
    there = sys.stdlib_module_names | {"regatta", "regatta_protocol"} | beside
    for name, path in files:
        if not name.endswith(".private_ray"):
            assert {found.partition(".")[0] for found in imports(path)} <= there, path


def test_the_nodes_library_imports_nothing_of_the_controller() -> None:
    for path in NODES.values():
        assert not {found.partition(".")[0] for found in imports(path)} & {"regatta", "fabric", "ansible"}, path


def test_what_both_sides_share_needs_the_standard_library_alone() -> None:
    assert len(SHARED) > 3
    for path in SHARED.values():
        found = {one.partition(".")[0] for one in imports(path)}
        for_type_checkers = {"typing_extensions"}
        assert found - for_type_checkers <= sys.stdlib_module_names | {"regatta_protocol"}, path


def test_what_a_request_or_a_supervisor_loads_is_quick_to_import() -> None:
    """Dataclasses cost a start more than all else of the package."""
    quick = sources.of_requests().keys() & SHARED.keys() | {"regatta_protocol.states"}
    code = f"import sys, {', '.join(sorted(quick))}; assert 'dataclasses' not in sys.modules"
    subprocess.run([sys.executable, "-Sc", code], cwd=PROJECT, check=True)


@pytest.mark.parametrize("name", [name for name, path in {**FILES, **SHARED}.items() if path.name == "__init__.py"])
def test_an_init_has_no_code(name: str) -> None:
    body = ast.parse(ALL[name].read_text()).body
    assert not [node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
