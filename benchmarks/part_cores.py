"""`.venv-node/bin/python -m benchmarks.part_cores`: how PageRank scales over 1, 2 and 4 nodes of a part of a core.

As root. Each rank is a process in a cgroup of its own with a CPU quota, and with `--mbit` in a network namespace of its
own whose link sends no faster. Graphs are R-MAT, both ways, as edge lists. Numbers of nodes take turns; a speed-up is
the median over the turns. `--other FOLDER` runs the code of another tree in turn with this one.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from benchmarks.ppr import skewed, written
from benchmarks.said import events
from regatta.paths import PROJECT

EDGES, IDS = 7_000_000, 1 << 22
NODES = (1, 2, 4)
PERIOD_US = 5000
CPU = Path("/sys/fs/cgroup/cpu")
GROUP, BRIDGE, SUBNET = "regatta-part-cores", "rgpartcores", "10.213.77"
TOLERANCE = "1e-4"


@contextmanager
def hosts(count: int, cores: float, mbit: int) -> Iterator[list[list[str]]]:
    """The beginning of the command of a process on each of so many hosts."""
    commands = []
    try:
        if mbit:
            _ip("link", "add", BRIDGE, "type", "bridge")
            _ip("link", "set", BRIDGE, "up")
        for number in range(count):
            folder = CPU / GROUP / f"node{number}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(round(cores * PERIOD_US)))
            joined = ["sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh"]
            commands.append([*joined, *(_namespace(number, mbit) if mbit else [])])
        yield commands
    finally:
        for number in range(count):
            if mbit:
                subprocess.run(["ip", "netns", "del", f"{BRIDGE}{number}"], check=False, capture_output=True)
        if mbit:
            _ip("link", "del", BRIDGE)
        for folder in [*(CPU / GROUP).glob("node*"), CPU / GROUP]:
            folder.rmdir()


def _namespace(number: int, mbit: int) -> list[str]:
    """Make a network namespace, linked to the bridge; gives how to run a command in it."""
    name, link, there = f"{BRIDGE}{number}", f"rgpc{number}", "eth0"
    inside = ["ip", "netns", "exec", name]
    _ip("netns", "add", name)
    _ip("link", "add", link, "type", "veth", "peer", "name", there, "netns", name)
    _ip("link", "set", link, "master", BRIDGE, "up")
    for words in (
        ["ip", "addr", "add", f"{SUBNET}.{number + 1}/24", "dev", there],
        ["ip", "link", "set", there, "up"],
        ["ip", "link", "set", "lo", "up"],
        [*f"tc qdisc add dev {there} root tbf rate {mbit}mbit burst 256kb latency 50ms".split()],
    ):
        subprocess.run([*inside, *words], check=True)
    return [*inside, "env", f"GLOO_SOCKET_IFNAME={there}"]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def run(tree: Path, commands: Sequence[Sequence[str]], address: str, words: Sequence[str]) -> dict[str, Any]:
    """Run the workload on some hosts; gives seconds of loading and computing, bytes an exchange and the answer."""
    world = len(commands)
    shared = {
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": 1,
        "LOCAL_RANK": 0,
        "MASTER_PORT": free_port(),
        "OMP_NUM_THREADS": 1,
    }
    program = [sys.executable, "-m", "workloads.ppr", "--framework", "torch", "--undirected", *words]
    started = []
    for rank, command in enumerate(commands):
        environment = {name: str(value) for name, value in {**shared, "RANK": rank, "MASTER_ADDR": address}.items()}
        full = [*command, *program] if world > 1 else [*command, *program, "--framework", "single"]
        started.append(
            subprocess.Popen(full, cwd=tree, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)
        )
    printed = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("\n".join(printed)[-2000:])
    phases = [one for text in printed for one in events(text, "phase")]
    sent = [one["sent_bytes"] / one["times"] for text in printed for one in events(text, "exchanged")]
    (result,) = events(printed[0], "result")
    return {
        **{name: max(one["seconds"] for one in phases if one["name"] == name) for name in ("load", "compute")},
        "sent": max(sent, default=0.0),
        "answer": result["answer"]["checksum"],
        "chosen": [one["value"] for text in printed for one in events(text, "chosen")],
    }


def free_port() -> int:
    """Find a port of this machine that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> None:
    """Run with the arguments of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="of the graphs, made where they are missing")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cores", type=float, default=0.4)
    parser.add_argument("--edges", type=int, default=EDGES)
    parser.add_argument("--mbit", type=int, default=0, help="bandwidth of each node's link; 0: the loopback's")
    parser.add_argument("--count", type=int, nargs="+", default=[4])
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--weak", action="store_true", help="edges grow with nodes")
    parser.add_argument("--partition", nargs="+", default=["auto"])
    parser.add_argument("--other", type=Path, help="another tree, which runs with each --other-partition")
    parser.add_argument("--other-partition", nargs="+", default=["sources", "graph"])
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    trees = [(PROJECT, partition) for partition in given.partition]
    trees += [(given.other, partition) for partition in given.other_partition] if given.other else []
    taken: dict[tuple[str, str, int, int], list[dict[str, Any]]] = defaultdict(list)
    for turn in range(given.repeats):
        for count in given.count:
            for tree, partition in trees:
                for nodes in given.nodes:
                    graph = _graph(given.folder, given.edges * (nodes if given.weak else 1), given.edges)
                    words = ["--graph", str(graph), "--count", str(count), "--tolerance", TOLERANCE]
                    words += ["--partition", partition] if nodes > 1 else []
                    with hosts(nodes, given.cores, given.mbit if nodes > 1 else 0) as commands:
                        address = f"{SUBNET}.1" if given.mbit and nodes > 1 else "127.0.0.1"
                        one = run(tree, commands, address, words)
                    taken[tree.name, partition, count, nodes].append(one)
                    load = os.getloadavg()[0]
                    print(
                        turn, tree.name, partition, count, nodes, one, f"load {load:.1f}", file=sys.stderr, flush=True
                    )
    _publish(taken, weak=given.weak)


def _graph(folder: Path, edges: int, base: int) -> Path:
    path = folder / f"rmat-{edges}.txt"
    return path if path.exists() else written(path, skewed(edges, IDS * edges // EDGES))


def _publish(taken: dict[tuple[str, str, int, int], list[dict[str, Any]]], *, weak: bool) -> None:
    found = describe()
    print(f"{found}, commit {found.commit}\n")
    print(f"| tree | partition | sources | nodes | load | compute | {'efficiency' if weak else 'speed-up'} | sent |")
    print("|---|---|---|---|---|---|---|---|")
    for (tree, partition, count, nodes), runs in taken.items():
        alone = taken.get((tree, partition, count, 1), [])
        ratios = [one["compute"] / other["compute"] for one, other in zip(alone, runs, strict=False)]
        load, compute = (statistics.median(one[name] for one in runs) for name in ("load", "compute"))
        span = f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "-"
        ratio = f"{statistics.median(ratios):.2f} ({span})" if ratios else "-"
        sent = f"{runs[0]['sent'] / 1e6:.2f} MB" if runs[0]["sent"] else "-"
        chosen = f"{partition}: {runs[0]['chosen'][0]}" if runs[0]["chosen"] and partition == "auto" else partition
        print(f"| {tree} | {chosen} | {count} | {nodes} | {load:.2f} s | {compute:.2f} s | {ratio} | {sent} |")


if __name__ == "__main__":
    main()
