"""Python source sent to a process on a node, which imports it without a file: nothing is installed there."""

import hashlib
import json
from importlib import resources

from regatta import paths
from regatta_protocol import sent

_ELSEWHERE = {"__init__", "aptcache", "aptrelay", "sitecustomize_rank", "metrics", "siteproxy"}
_ELSEWHERE |= {"imports", "meeting", "spawn_guard", "events", "cards", "notebook", "place"}
"""Modules of the node's side, and of what is shared with it, that serve no request: a rank's, a service's, a run's."""
_GATE = ("gate", "members")
"""Modules that only members need."""
_SUPERVISOR = ("supervisor", "calls", "cgroup", "rank", "runlog", "standing", "usage", "waiting")
_OF_SUPERVISOR = ("__init__", "decoding", "log", "run", "standing", "states", "value")
"""The shared modules that it needs of the controller."""
NODE, FRAMEWORKS, PROTOCOL = "regatta.node", "regatta.frameworks", "regatta_protocol"
OPERATIONS = f"{PROTOCOL}.operations"
BOOT = "import sys;exec(sys.stdin.buffer.read(int(sys.argv[1])))"
"""The program of the process, with the length of the program that it is sent first."""


def of_requests() -> dict[str, str]:
    """Return what a node may need for a request, by full name."""
    return {
        f"{package}.{name}": source(name, package)
        for package in (NODE, PROTOCOL, OPERATIONS, *_of_frameworks())
        for name in _in(package)
        if package != NODE or name not in _GATE
    }


def of_gate() -> dict[str, str]:
    """Return what a host keeps to answer members, by full name."""
    return {**of_requests(), **{f"{NODE}.{name}": source(name) for name in _GATE}}


def identity() -> str:
    """Name what answers members: Regatta's version, and the beginning of a hash of the sources."""
    from importlib import metadata  # only members need it

    whole = json.dumps(of_gate(), sort_keys=True)
    return f"{metadata.version('regatta')} ({hashlib.sha256(whole.encode()).hexdigest()[:8]})"


def gate() -> str:
    """The program that hosts keep for members, see `regatta.node.gate`."""
    then = f"from regatta.node import gate\ngate.main({identity()!r})\n"
    return "#!/usr/bin/python3 -IS\n" + sent.program(of_gate(), then).decode()


def supervisor_files() -> dict[str, str]:
    """The run's supervisor and what it needs next to it, by path."""
    shared = {f"{PROTOCOL}/{module}.py": source(module, PROTOCOL) for module in _OF_SUPERVISOR}
    return {**{f"{module}.py": source(module) for module in _SUPERVISOR}, **shared}


def library_files() -> dict[str, str]:
    """Regatta's `workloads.common` and what that shares with the controller, by path, for trees that lack them."""
    package = paths.PROJECT / "workloads"
    found = [package / "__init__.py", *sorted((package / "common").rglob("*.py")), *(package / "common").glob("*.toml")]
    found += sorted((paths.PROJECT / PROTOCOL).glob("*.py"))
    return {str(path.relative_to(paths.PROJECT)): path.read_text() for path in found}


def source(module: str, package: str = NODE) -> str:
    """Source text of a module of the node's side."""
    return resources.files(package).joinpath(f"{module}.py").read_text()


def _of_frameworks() -> list[str]:
    """The packages by which frameworks answer requests on a node: `node` in the folder of each that has one."""
    found = (folder.name for folder in resources.files(FRAMEWORKS).iterdir() if folder.joinpath("node").is_dir())
    return sorted(f"{FRAMEWORKS}.{name}.node" for name in found)


def _in(package: str) -> list[str]:
    files = (file.name for file in resources.files(package).iterdir())
    return sorted({name.removesuffix(".py") for name in files if name.endswith(".py")} - _ELSEWHERE)
