"""`python -m benchmarks.hdfs --inventory inventory/NAME`: HDFS of a provisioned cluster, a lab's for the last figure.

Comparisons (Regatta's command and Hadoop's own, HDFS and a local disk) are measured interleaved, in the same run.
"""

import argparse
import contextlib
import re
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import rows, shell
from benchmarks.rows import Row, within
from benchmarks.shell import BenchError
from regatta import paths
from regatta.errors import RegattaError
from regatta.hdfs import client as hdfs
from regatta.hdfs import status
from regatta.hosts import inventories
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.release import sync, tree
from regatta.run import services

HDFS = "sudo -n -H -u regatta env HADOOP_CONF_DIR=/etc/regatta/hadoop {root}/hadoop/bin/hdfs"
HDFS_UNITS = "regatta-hdfs-*"
FOLDER = "/bench-hdfs"
PUT_BYTES = 500_000_000
EDGE_LIST_BYTES = 100_000_000
BYTES_PER_EDGE = 15.4
READY_TARGET, REPLICATION_TARGET = 15.0, 60.0
REPLICATION_LIMIT = 180.0
LOAD = """
import sys, time
from workloads.ppr import edgelist
for path in sys.argv[1:]:
    began = time.perf_counter()
    edges = edgelist.read(path).edges
    print(path, time.perf_counter() - began, len(edges))
"""


class Bench:
    """Measures on one cluster; its files are in FOLDER and go in the end."""

    def __init__(self, chosen: Cluster, inventory: Path, repeats: int) -> None:
        self.cluster, self.inventory, self.repeats = chosen, inventory, repeats
        self.remote = Remote(chosen)
        self.hdfs = HDFS.format(root=chosen.head.root)

    def head(self, command: str, *, node: str | None = None) -> shell.Done:
        """A shell command on the head."""
        where = self.cluster.node(node) if node else self.cluster.head
        return shell.run([*self.remote.ssh(where), "--", self.remote.destination(where), command])

    def fab(self, *words: str) -> float:
        """A task, in seconds as a person waits."""
        return shell.run([shell.FAB, *words, "--inventory", self.inventory]).seconds

    def transfers(self) -> list[Row]:
        """`data-put` and `data-get` of 500 MB compared with `hdfs dfs -put` and `-get` on the head."""
        taken: dict[str, list[float]] = {"put": [], "get": [], "dfs -put": [], "dfs -get": []}
        with tempfile.TemporaryDirectory(prefix="regatta-bench-", dir="/var/tmp") as folder:
            source, back, there = Path(folder) / "data", Path(folder) / "back", "/var/tmp/regatta-bench-data"
            with source.open("wb") as file:
                for _ in range(PUT_BYTES // 1_000_000):
                    file.write(secrets.token_bytes(1_000_000))
            try:
                self.fab("data-put", str(source), f"{FOLDER}/data")
                self.head(f"{self.hdfs} dfs -get -f {FOLDER}/data {there}")
                for _ in range(self.repeats):
                    taken["put"].append(self.fab("data-put", str(source), f"{FOLDER}/data", "--force"))
                    taken["dfs -put"].append(self.head(f"{self.hdfs} dfs -put -f {there} {FOLDER}/direct").seconds)
                    taken["get"].append(self.fab("data-get", f"{FOLDER}/data", str(back), "--force"))
                    taken["dfs -get"].append(self.head(f"{self.hdfs} dfs -get -f {FOLDER}/data {there}").seconds)
            finally:
                self.head(f"sudo -n rm -f {there} /var/tmp/.regatta-bench-data*")
        found = []
        for word in ("put", "get"):
            share = statistics.median(taken[f"dfs -{word}"]) / statistics.median(taken[word])
            text = f"`fab data-{word}` of 500 MB ({PUT_BYTES / 1e6 / statistics.median(taken[word]):.0f} MB/s)"
            target = f"60 % of the rate of `hdfs dfs -{word}`: {100 * share:.0f} %"
            found.append(Row(text, taken[word], taken[f"dfs -{word}"], target, share >= 0.6))
        return found

    def edge_list(self) -> list[Row]:
        """A 100 MB edge list to arrays, on the head, from HDFS and from its disk."""
        size = round(EDGE_LIST_BYTES / BYTES_PER_EDGE)
        self.fab("data-gen", "graph", "--size", str(size), "--to", f"{FOLDER}/edges.txt", "--force")
        source = tree.read(paths.PROJECT)
        sync.sync(self.remote, source, [self.cluster.head])
        local, remote = "/var/tmp/regatta-bench-edges.txt", f"hdfs://{FOLDER}/edges.txt"
        python = f"env PYTHONPATH={self.cluster.head.root}/releases/{source.release} {self.cluster.head.python}"
        program = f"sudo -n -H -u regatta {python} - {f'{remote} {local} ' * self.repeats}"
        try:
            self.head(f"{self.hdfs} dfs -get -f {remote} {local}")
            said = self.head(f"{program} <<'PROGRAM'\n{LOAD}\nPROGRAM").output
        finally:
            self.head(f"sudo -n rm -f {local}")
        found = re.findall(r"^(\S+) ([\d.]+) (\d+)$", said, re.MULTILINE)
        if {int(count) for _, _, count in found} != {size}:
            raise BenchError(f"the edge lists were not read as planned:\n{shell.last_lines(said)}")
        times = {path: [float(taken) for name, taken, _ in found if name == path] for path in (remote, local)}
        ratio = statistics.median(times[remote]) / statistics.median(times[local])
        text = "edge list of 100 MB from HDFS to arrays"
        return [Row(text, times[remote], times[local], f"2 times a local disk: {ratio:.2f} times", ratio <= 2)]

    def ready(self) -> list[Row]:
        """HDFS stopped, started on all nodes at once: until all DataNodes are live and safe mode is off."""
        taken = []
        for _ in range(self.repeats):
            try:
                for node in self.cluster.nodes:
                    self.head(f"sudo -n systemctl stop '{HDFS_UNITS}'", node=node.name)
            finally:
                began = time.monotonic()
                services.act(self.remote, "start")
            services.wait_for_hdfs(self.remote)
            taken.append(time.monotonic() - began)
        return [within("HDFS stopped to all DataNodes live, out of safe mode", taken, READY_TARGET)]

    def replication(self) -> list[Row]:
        """A lab's DataNode loses its power: until every block has all copies that the live ones can hold."""
        if not (self.inventory / "secrets" / "lab_key").is_file() or len(self.cluster.nodes) < 3:
            print("no lab of three hosts: power-off is not measured", file=sys.stderr)
            return []
        taken, victim = [], self.cluster.nodes[-1].name
        self.fab("data-put", str(paths.PROJECT / "requirements"), f"{FOLDER}/", "--force")
        copies = len(self.cluster.nodes) - 1
        for _ in range(self.repeats):
            self.head(f"{self.hdfs} dfs -setrep -w {copies} {FOLDER}/requirements")
            self.lab("off", victim)
            began = time.monotonic()
            try:
                self.wait(lambda state: state.dead == 1)
                while not self.has_copies(f"{FOLDER}/requirements"):
                    if time.monotonic() - began > REPLICATION_LIMIT:
                        raise BenchError(f"copies are missing {REPLICATION_LIMIT:g} s after the power was cut")
                taken.append(time.monotonic() - began)
            finally:
                self.lab("on", victim)
            self.wait(lambda state: not state.dead and not state.under_replicated, 180)
        return [within("power-off of a DataNode to full replication", taken, REPLICATION_TARGET)]

    def wait(self, done: Callable[[status.Status], bool], limit: float = 90) -> None:
        """Wait until HDFS is in a state. BenchError after `limit` seconds."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            with contextlib.suppress(RegattaError):
                if done(status.read(hdfs.ask(self.remote, "status", "hdfs:///"))):
                    return
            time.sleep(0.2)
        raise BenchError(f"HDFS was not as it should be after {limit:g} s; see 'fab hdfs-status'")

    def has_copies(self, path: str) -> bool:
        """Whether every block below a path has all its copies, as `hdfs fsck` says."""
        said = self.head(f"{self.hdfs} fsck {path}").output
        return re.search(r"Under-replicated blocks:\s+0\b", said) is not None and "is HEALTHY" in said

    def lab(self, word: str, node: str) -> None:
        """`python -m lab WORD NODE`."""
        shell.run([sys.executable, "-m", "lab", word, node, "--name", self.inventory.name])


@contextlib.contextmanager
def cleaned(bench: Bench) -> Iterator[None]:
    """Remove the benchmark's files from HDFS in the end."""
    try:
        yield
    finally:
        with contextlib.suppress(RegattaError):
            hdfs.ask(bench.remote, "remove", f"hdfs://{FOLDER}", recursive=True)


def main() -> int:
    """Measure what is asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hdfs", description="Measure HDFS of a cluster.")
    parser.add_argument("--inventory", required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="transfers,edge_list,ready,replication")
    given = parser.parse_args()
    shell.interruptible()
    inventory = inventories.choose(given.inventory)
    bench = Bench(inventories.load(given.inventory), inventory, given.repeats)
    taken: list[Row] = []
    code = 0
    try:
        with cleaned(bench):
            for name in given.only.split(","):
                try:
                    taken += getattr(bench, name)()
                except (BenchError, RegattaError, OSError) as error:
                    print(f"{name} FAILED: {error}", file=sys.stderr)
                    code = 1
    except KeyboardInterrupt:
        print("bench: interrupted; nothing was written", file=sys.stderr)
        return 130
    rows.publish("hdfs", taken)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
