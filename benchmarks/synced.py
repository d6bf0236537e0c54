"""python -m benchmarks.synced INVENTORY [PAIRS]: what it costs that HDFS has each file on the disks when it is closed.

One file of 500 MB and 1,000 files of 1 kB are written by hdfs-native on the head, with `dfs.datanode.synconclose` off
and on, in so many pairs (3), every other one the other way round; medians. For each the DataNodes are restarted with
the setting changed in their hdfs-site.xml; it ends as provisioning has it: on.
"""

import json
import statistics
import sys
import time

from benchmarks import shell
from benchmarks.shell import BenchError
from regatta.hosts import inventories
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta_protocol.operations.hdfs import AskHdfs

PAIRS = 3
WAIT_SECONDS = 180.0
SITE = "/etc/regatta/hadoop/hdfs-site.xml"
NAME = "dfs.datanode.synconclose"
SCRIPT = """
import json, os, time
from hdfs_native import Client
client, folder, block = Client(config_dir="/etc/regatta/hadoop"), "/tmp/.bench-synced", os.urandom(1 << 20)
client.delete(folder, True)
began = time.perf_counter()
with client.create(f"{folder}/large") as file:
    for _ in range(500):
        file.write(block)
large = time.perf_counter() - began
began = time.perf_counter()
for number in range(1000):
    with client.create(f"{folder}/{number}") as file:
        file.write(block[:1000])
print(json.dumps([large, time.perf_counter() - began]))
client.delete(folder, True)
"""


class Bench:
    """A cluster whose DataNodes sync, or do not."""

    def __init__(self, inventory: str) -> None:
        self.cluster = inventories.load(inventory)
        self.remote = Remote(self.cluster)

    def on(self, node: Node, *words: str) -> str:
        """Return what a command prints on a node."""
        return shell.run([*self.remote.ssh(node), "--", self.remote.destination(node), *words]).output

    def let(self, value: str) -> None:
        """Restart the DataNodes with this value; BenchError where they do not come back."""
        change = f"s|(<name>{NAME}</name><value>)[a-z]+|\\1{value}|"
        for node in self.cluster.workers:
            self.on(node, f"sudo sed -Ei '{change}' {SITE} && grep -q '{NAME}</name><value>{value}<' {SITE}")
            self.on(node, "sudo systemctl restart regatta-hdfs-datanode")
        end = time.monotonic() + WAIT_SECONDS
        while not self._ready():
            if time.monotonic() > end:
                raise BenchError(f"not all DataNodes were live after {WAIT_SECONDS:g} s")
            time.sleep(1)

    def _ready(self) -> bool:
        state = self.remote.call(self.cluster.head, AskHdfs())
        return len(state.live) == len(state.expected) and not state.safe_mode

    def written(self) -> list[float]:
        """Seconds for the large file and for the small ones."""
        head = self.cluster.head
        command = f"sudo -H -u regatta {head.python} -c '{SCRIPT}'"
        return [float(one) for one in json.loads(self.on(head, command).splitlines()[-1])]


def main() -> None:
    """Prints the figures."""
    shell.interruptible()
    inventory, *words = sys.argv[1:]
    bench = Bench(inventory)
    taken: dict[str, list[list[float]]] = {"false": [], "true": []}
    try:
        for number in range(int(words[0]) if words else PAIRS):
            for value in ("false", "true") if number % 2 == 0 else ("true", "false"):
                bench.let(value)
                taken[value].append(bench.written())
                print(value, *(f"{one:.2f}" for one in taken[value][-1]), file=sys.stderr, flush=True)
    finally:
        bench.let("true")
    for place, what in enumerate(("one file of 500 MB", "1,000 files of 1 kB")):
        off, on = (sorted(pair[place] for pair in taken[value]) for value in ("false", "true"))
        said = ", ".join(
            f"{word} {statistics.median(them):.2f} s ({them[0]:.2f} to {them[-1]:.2f})"
            for word, them in (("off", off), ("on", on))
        )
        print(f"{what:22} {said}")


if __name__ == "__main__":
    try:
        main()
    except (BenchError, ValueError) as error:
        sys.exit(f"error: {error}")
