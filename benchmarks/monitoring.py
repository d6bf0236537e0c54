"""`python -m benchmarks.monitoring --inventory inventory/NAME`: what monitoring costs the nodes, and what a run.

Runs with and without it take turns; the other services stay as they are. It is started again in the end.
"""

import argparse
import json
import secrets
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import rows, shell
from benchmarks.rows import Row
from benchmarks.shell import BenchError
from regatta.errors import RegattaError
from regatta.hosts import inventories
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote

UNITS = "regatta-node-exporter.service regatta-metrics.service regatta-prometheus.service"
CPU_TARGET, RUN_TARGET = 72.0, 1.02
HOUR = 3600
WARM_UP_SECONDS, SETTLE_SECONDS = 20.0, 10.0
USED = """
for unit in UNITS; do
    pid=$(systemctl show -p MainPID --value $unit)
    if [ "$pid" -gt 0 ]; then
        ticks=$(awk '{sub(/.*[)] /, ""); print $12 + $13}' /proc/$pid/stat)
        memory=$(awk '/^VmRSS/ {print $2}' /proc/$pid/status)
        echo "$unit $ticks $memory $(getconf CLK_TCK)"
    fi
done
""".replace("UNITS", UNITS)


class Bench:
    """Measures on one cluster."""

    def __init__(self, chosen: Cluster, inventory: Path, repeats: int, seconds: float) -> None:
        self.cluster, self.inventory, self.repeats, self.seconds = chosen, inventory, repeats, seconds
        self.remote = Remote(chosen)

    def cost(self) -> list[Row]:
        """CPU seconds an hour of each of its services, on the head and on the other nodes."""
        time.sleep(WARM_UP_SECONDS)
        before, began = {node.name: self._used(node) for node in self.cluster.nodes}, time.monotonic()
        time.sleep(self.seconds)
        taken = time.monotonic() - began
        after = {node.name: self._used(node) for node in self.cluster.nodes}
        found: list[Row] = []
        for what, names in (("head", [self.cluster.head.name]), ("other nodes", self._others())):
            for unit in after[names[0]] if names else ():
                shares = [HOUR * (after[name][unit][0] - before[name][unit][0]) / taken for name in names]
                memory = max(after[name][unit][1] for name in names)
                text = f"CPU seconds an hour of {unit.removesuffix('.service')}, {what} (at most {memory:.0f} MB)"
                reached = statistics.median(shares) <= CPU_TARGET
                found.append(Row(text, shares, (), f"{CPU_TARGET:g} s (2 % of a core)", reached))
        return found

    def runs(self) -> list[Row]:
        """`fab run-ppr` under torch as a person waits for it, with monitoring and without, interleaved."""
        taken: dict[str, list[float]] = {"start": [], "stop": []}
        try:
            for number in range(self.repeats + 1):
                for action in ("start", "stop") if number % 2 else ("stop", "start"):
                    self._units(action)
                    seconds = self._run()
                    if number:  # the first of each fills caches
                        taken[action].append(seconds)
        finally:
            self._units("start")
        ratios = [ours / other for ours, other in zip(taken["start"], taken["stop"], strict=True)]
        ratio = statistics.geometric_mean(ratios)
        target = f"{RUN_TARGET:g} times a run without it: {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        return [Row("a run with monitoring", taken["start"], taken["stop"], target, ratio <= RUN_TARGET)]

    def _others(self) -> list[str]:
        return [node.name for node in self.cluster.nodes if node.name != self.cluster.head.name]

    def _shell(self, node: Node, command: str) -> str:
        return shell.run([*self.remote.ssh(node), "--", self.remote.destination(node), command]).output

    def _used(self, node: Node) -> dict[str, tuple[float, float]]:
        """CPU seconds and resident megabytes by unit."""
        found = {}
        for line in self._shell(node, USED).splitlines():
            unit, ticks, memory, second = line.split()
            found[unit] = (int(ticks) / int(second), int(memory) / 1000)
        if not found:
            raise BenchError(f"{node.name}: no monitoring runs there: 'make provision'")
        return found

    def _units(self, action: str) -> None:
        for node in self.cluster.nodes:
            known = f"$(systemctl list-unit-files --no-legend {UNITS} | cut -d' ' -f1)"
            self._shell(node, f"sudo -n systemctl {action} {known}")
        time.sleep(SETTLE_SECONDS)  # Prometheus writes much when it ends, and reads it when it starts

    def _run(self) -> float:
        """The record's total of one run."""
        with tempfile.TemporaryDirectory(prefix="regatta-bench-") as folder:
            words = ["run-ppr", "--framework", "torch", "--no-single", "--workers", "4"]
            name = f"bench-monitoring-{secrets.token_hex(3)}"
            shell.run(
                [shell.FAB, *words, "--name", name, "--inventory", self.inventory], env={"REGATTA_RESULTS": folder}
            )
            (record,) = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
        return float(record["phases"]["total"])


def main() -> int:
    """Measure what is asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.monitoring", description="The cost of monitoring.")
    parser.add_argument("--inventory", required=True)
    parser.add_argument("--repeats", type=int, default=8, help="pairs of runs (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=180, help="how long CPU use is watched (default %(default)s)")
    parser.add_argument("--only", default="cost,runs")
    given = parser.parse_args()
    shell.interruptible()
    inventory = inventories.choose(given.inventory)
    bench = Bench(inventories.load(given.inventory), inventory, given.repeats, given.seconds)
    taken: list[Row] = []
    try:
        for name in given.only.split(","):
            taken += getattr(bench, name)()
    except (BenchError, RegattaError, OSError) as error:
        print(f"monitoring FAILED: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted; monitoring runs again, nothing was written", file=sys.stderr)
        return 130
    rows.publish("monitoring", taken)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
