"""Every figure: what it is called, what was asked for, and the function that takes its samples."""

import json
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks import shell
from benchmarks.report import Figure
from benchmarks.shell import BenchError
from benchmarks.trees import DEATH_MARK, VICTIM_SCRIPT, Tree
from regatta import paths
from regatta.hosts import inventories
from regatta.hosts.remote import Remote
from regatta.release import sync as syncing
from regatta.release import tree
from regatta.run import catalogue

FIGURES = (
    Figure("provision", "provision", "provision three bare hosts, caches warm", 120),
    Figure("cold", "cold", "provision three bare hosts, caches empty", 400),
    Figure("again", "again", "provision again, nothing to do (changed=0)", 40),
    Figure("teardown", "teardown", "teardown, proven", 30),
    Figure("sync-change-library", "sync", "sync one changed line of 500 files to 3 hosts, in the library", 1),
    Figure("sync-change-command", "sync", "the same as a command, `fab sync`", 1),
    Figure("sync-same-library", "sync", "sync with nothing changed to 3 hosts, in the library", 0.4),
    Figure("sync-same-command", "sync", "the same as a command, `fab sync`", 0.4),
    Figure("sync-first-command", "sync", "the same as a command, no SSH connection open yet"),
    Figure("run-torch", "run", "`fab run-ppr` under torch: sync + launch + rendezvous + collect", 5),
    Figure("run-ray", "run", "`fab run-ppr` under Ray: sync + launch + rendezvous + collect", 4),
    Figure("sync16-change-library", "sync16", "sync one changed line of 500 files to 16 hosts, in the library", 4),
    Figure("sync16-change-command", "sync16", "the same as a command, `fab sync`", 4),
    Figure("sync16-same-library", "sync16", "sync with nothing changed to 16 hosts, in the library"),
    Figure("sync16-same-command", "sync16", "the same as a command, `fab sync`"),
    Figure("sync16-first-command", "sync16", "the same as a command, no SSH connection open yet"),
    Figure("death-others", "death", "a rank is killed: until the last other rank has ended", 2),
    Figure("death-command", "death", "a rank is killed: until the command has ended"),
)
GROUPS = tuple(dict.fromkeys(figure.group for figure in FIGURES))
WORKERS = 4

_PROGRAMS = Path(sys.executable).parent
_OVERHEAD = ("sync", "launch", "rendezvous", "collect")
_RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)
_CACHES = ("wheels", "env", "apt")

Samples = dict[str, list[float]]
Phases = Mapping[str, float | None]


def provision(inventory: Path) -> tuple[float, bool]:
    """Bare hosts -> a cluster: seconds, and whether everything came out of the caches."""
    before = _cached()
    taken = _make("provision", inventory).seconds
    return taken, _cached() == before


def provision_cold(inventory: Path) -> float:
    """The same with Regatta's, pip's and uv's caches empty; the lab's image is no part of it."""
    with tempfile.TemporaryDirectory(prefix="regatta-bench-", dir="/var/tmp") as empty:
        folders = {"REGATTA_CACHE": "regatta", "PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv"}
        return _make("provision", inventory, {name: f"{empty}/{folder}" for name, folder in folders.items()}).seconds


def provision_again(inventory: Path) -> float:
    """A provisioned cluster provisioned once more. BenchError where that changed anything."""
    done = _make("provision", inventory, {"VERBOSE": "yes"})
    if busy := {host: changed for host, changed in recap(done.output).items() if changed}:
        raise BenchError(f"provisioning again changed something: {busy}\n{shell.last_lines(done.output)}")
    return done.seconds


def teardown(inventory: Path) -> float:
    """Remove what provisioning made."""
    return _make("teardown", inventory, {"CONFIRM": "yes"}).seconds


def recap(output: str) -> dict[str, int]:
    """Ansible's last words -> number of changed tasks by host. BenchError where there are none, or a host failed."""
    found = {host: (int(changed), int(lost) + int(failed)) for host, changed, lost, failed in _RECAP.findall(output)}
    if not found or any(failed for _, failed in found.values()):
        raise BenchError(f"Ansible's recap is missing or tells of a failure:\n{shell.last_lines(output)}")
    return {host: changed for host, (changed, _) in found.items()}


def sync(inventory: Path, rounds: int, group: str) -> Samples:
    """One changed line and none, in the library and as a command, interleaved, in a tree of 500 files."""
    taken: Samples = {figure.key: [] for figure in FIGURES if figure.group == group}
    with _new_tree() as source:
        nodes = len(inventories.load(str(inventory)).nodes)
        for _ in range(2):  # what only a first time costs: connections, the tree as a whole
            source.edit()
            sync_library(inventory, source.root, changed=nodes)
        for _ in range(rounds):
            source.edit()
            taken[f"{group}-change-library"].append(sync_library(inventory, source.root, changed=nodes))
            taken[f"{group}-same-library"].append(sync_library(inventory, source.root, changed=0))
            source.edit()
            taken[f"{group}-change-command"].append(sync_command(inventory, source.root, nodes, changed=True))
            taken[f"{group}-same-command"].append(sync_command(inventory, source.root, nodes, changed=False))
            Remote(inventories.load(str(inventory))).close()
            taken[f"{group}-first-command"].append(sync_command(inventory, source.root, nodes, changed=False))
    return taken


def run_ppr(inventory: Path, repeats: int) -> tuple[Samples, dict[str, list[Phases]]]:
    """PPR under both frameworks, interleaved: the overhead of each run, and all its phases by framework."""
    words = ["run-ppr", "--workers", str(WORKERS), "--no-single", "--repeats", str(repeats)]
    with tempfile.TemporaryDirectory(prefix="regatta-bench-") as folder:
        shell.run([_PROGRAMS / "fab", *words, "--inventory", inventory], env={"REGATTA_RESULTS": folder})
        records = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
    phases: dict[str, list[Phases]] = {"torch": [], "ray": []}
    for record in sorted(records, key=lambda record: record["identity"]["started"]):
        phases[record["identity"]["framework"]].append(record["phases"])
    return {f"run-{name}": [overhead(one) for one in of_runs] for name, of_runs in phases.items()}, phases


def overhead(phases: Phases) -> float:
    """Seconds of a run that are neither load nor compute."""
    return sum(phases[name] or 0.0 for name in _OVERHEAD)


def death(inventory: Path, repeats: int) -> Samples:
    """Kill a rank in mid-run. The times compare nodes' clocks with ours, which are one clock in a lab."""
    taken: Samples = {"death-others": [], "death-command": []}
    with _new_tree(files=1) as source:
        for _ in range(repeats):
            name = f"bench-death-{secrets.token_hex(3)}"
            words = ["--workers", str(WORKERS), "--name", name]
            results = {"REGATTA_RESULTS": str(source.root.parent / "results")}
            command: list[str | Path] = [
                _PROGRAMS / "regatta",
                "torchrun",
                *words,
                "--inventory",
                inventory,
                VICTIM_SCRIPT,
            ]
            done = shell.run(command, cwd=source.root, env=results, check=False)
            died = re.search(rf"{DEATH_MARK} (\d+\.\d+)", done.output)
            if not died or "SIGKILL" not in done.output:
                raise BenchError(f"no rank was killed as planned:\n{shell.last_lines(done.output)}")
            ended = catalogue.find(Remote(inventories.load(str(inventory))), name).ended
            if ended is None:
                raise BenchError(f"{name}: nodes do not know its end")
            taken["death-others"].append(ended - float(died[1]))
            taken["death-command"].append(done.ended - float(died[1]))
    return taken


def ray_up(inventory: Path) -> None:
    """Wait until Ray has all its nodes."""
    shell.run([_PROGRAMS / "fab", "up", "--inventory", inventory])


def _make(target: str, inventory: Path, env: Mapping[str, str] | None = None) -> shell.Done:
    return shell.run(["make", "--silent", target, f"INVENTORY={inventory}"], env=env)


def _cached() -> set[Path]:
    return {path for name in _CACHES for path in (paths.cache_dir() / name).rglob("*")}


@contextmanager
def _new_tree(files: int = 500) -> Iterator[Tree]:
    with tempfile.TemporaryDirectory(prefix="regatta-bench-") as folder:
        yield Tree.make(Path(folder) / "tree", files)


def sync_library(inventory: Path, root: Path, *, changed: int) -> float:
    """Sync a tree with the library: seconds. BenchError where it went to other than `changed` nodes."""
    began = time.monotonic()
    chosen = inventories.load(str(inventory))
    remote = Remote(chosen)
    done = syncing.sync(remote, tree.read(tree.find_root(root)), chosen.nodes)
    taken = time.monotonic() - began
    remote.rest(chosen.nodes)
    if len(done.sent_to) != changed:
        raise BenchError(f"sync went to {len(done.sent_to)} node(s) instead of {changed}")
    return taken


def sync_command(inventory: Path, root: Path, nodes: int, *, changed: bool) -> float:
    """The same with `fab sync`."""
    done = shell.run([_PROGRAMS / "fab", "sync", "--inventory", inventory, "--path", root])
    if f"proven on {nodes} node(s)" not in done.output or ("sent to" in done.output) != changed:
        raise BenchError(f"fab sync did not do what was measured:\n{shell.last_lines(done.output)}")
    return done.seconds
