"""A cgroup for every node.

Without its own one, all nodes share the caller's cgroup (nspawn runs with --keep-unit): each node's systemd would
then see, and on `systemctl stop` kill, the processes of equally named units of the other nodes. It also tells
which processes a node has, whatever became of their parents.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

from .model import Lab, Node
from .system import LabError

KINDS = {"name=systemd", "memory", "pids", "cpuset", "cpu"}
"""Hierarchies of the first kind: where systemd keeps its processes, and limits."""
_CORES, _MEMORIES = "cpuset.cpus", "cpuset.mems"
_QUOTA, _PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"
PERIOD_US = 5000
"""A short period keeps the steps of a program even: of the usual 100 ms it would work 40 and stand still for 60."""


def hierarchies() -> list[Path]:
    """Mount points where a node has its own cgroup: cgroup2, and those of `KINDS` where there are any."""
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup2" or (kind == "cgroup" and KINDS & set(options.split(","))):
            found.append(Path(point))
    return found


def _folders(node: Node) -> list[Path]:
    return [point / node.lab.table / node.name for point in hierarchies()]


def make(node: Node) -> list[Path]:
    """Make the node's cgroups; a process joins each by writing its number to its cgroup.procs."""
    lab = node.lab
    bound = lab.cores is not None and not lab.part
    folders = [folder for folder in _folders(node) if (bound or not _only(folder.parents[1], _CORES))]
    folders = [folder for folder in folders if lab.part or not _only(folder.parents[1], _QUOTA)]
    if not folders:
        raise LabError(
            "this machine has no cgroups mounted, and systemd in a node needs them: mount them, or use another machine"
        )
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LabError(f"cannot make the cgroup {folder}: see 'python3 -m lab check' ({error.strerror})") from error
        _delegate(folder.parent)
    if bound and not sum(_bind(folder, node.cpus) for folder in folders):
        raise LabError("a node cannot be bound to cores here, as no cgroup has cpuset: leave --cores out")
    if lab.part and not sum(_ration(folder, lab.part) for folder in folders):
        raise LabError(
            "a node cannot get a part of a core here, as no cgroup has the controller cpu: leave --cores out"
        )
    return folders


def _only(point: Path, file: str) -> bool:
    """Whether this hierarchy of the first kind is the one with this file: nodes join it only where they need it."""
    return (point / file).exists() and not (point / "cgroup.controllers").exists()


def _ration(folder: Path, part: float) -> bool:
    """Let the cgroup's processes use so many cores' worth of time; False where its hierarchy cannot do that."""
    period = max(PERIOD_US, round(1000 / part))  # the kernel takes no quota of less than a millisecond
    quota = round(part * period)
    try:
        if (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text(f"{quota} {period}")
            return True
        if (folder / _QUOTA).exists():
            (folder / _PERIOD).write_text(str(period))
            (folder / _QUOTA).write_text(str(quota))
            return True
    except OSError as error:
        raise LabError(f"cannot give {folder.name} {part:g} cores: leave --cores out ({error.strerror})") from error
    return False


def _bind(folder: Path, cores: list[int]) -> bool:
    """Let the cgroup's processes use these cores and no others; False where its hierarchy cannot do that."""
    if not (folder / _CORES).exists():
        return False
    try:
        if _only(point := folder.parents[1], _CORES):
            for one in (folder.parent, folder):
                for name in (_CORES, _MEMORIES):
                    (one / name).write_text((point / name).read_text())
        (folder / _CORES).write_text(",".join(map(str, cores)))
    except OSError as error:
        raise LabError(f"cannot bind {folder.name} to cores {cores}: leave --cores out ({error.strerror})") from error
    return True


def _delegate(folder: Path) -> None:
    """Pass on the controllers that are at hand, so that limits set inside a node hold (only cgroup2)."""
    with contextlib.suppress(OSError):
        for controller in (folder / "cgroup.controllers").read_text().split():
            with contextlib.suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def processes(node: Node) -> set[int]:
    """Numbers of all processes of the node, with its systemd-nspawn."""
    found: set[int] = set()
    for folder in _folders(node):
        for parent, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                found.update(int(word) for word in (Path(parent) / "cgroup.procs").read_text().split())
    return found


def supervisor(node: Node) -> int | None:
    """Number of the node's systemd-nspawn."""
    wanted = f"--directory={node.root}".encode()
    for number in processes(node):
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0"):
                return number
    return None


def kill(nodes: list[Node], *, seconds: float = 20) -> None:
    """End every process of the nodes as a power loss would, and remove their cgroups."""
    end = time.monotonic() + seconds
    left = list(nodes)
    while True:
        for node in left:
            for number in processes(node):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
        left = [node for node in left if not _remove(_folders(node))]
        if not left:
            return
        if time.monotonic() > end:
            raise LabError(
                f"{left[0].machine}: its processes do not end: kill {sorted(processes(left[0]))}, and try again"
            )
        time.sleep(0.02)


def _remove(folders: list[Path]) -> bool:
    """Remove empty cgroups; False where one is still in use."""
    for folder in folders:
        for parent, _, _ in os.walk(folder, topdown=False):
            try:
                Path(parent).rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return False
    return True


def remove_lab(lab: Lab) -> None:
    """Remove the lab's own cgroup once its nodes have none."""
    for point in hierarchies():
        with contextlib.suppress(FileNotFoundError):
            (point / lab.table).rmdir()


def node_numbers(lab: Lab) -> set[int]:
    """Numbers of the nodes that have a cgroup."""
    names = [entry.name for point in hierarchies() for entry in (point / lab.table).glob("node*")]
    return {int(name[4:]) for name in names if name[4:].isdigit()}
