"""`python -m benchmarks.curve`: provisioning 3, 10 and 30 bare hosts of a lab, and what they wait for.

Python's environment, firewall and monitoring as always; HDFS, of which a host would hold a gigabyte, only with --hdfs;
Ray, whose daemons are never idle and share this machine's cores, not with --without-ray.
"""

import argparse
import os
import resource
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import figures, labs, machine, shell
from benchmarks.shell import BenchError

_HOST_BYTES = 2.9e9
"""Bytes that a host takes while it unpacks."""
_TICKS = os.sysconf("SC_CLK_TCK")
HEAD = (
    "| hosts | provision | a host | processors a host | of that the controller | processors busy | wait for disks "
    "| written a host | again |",
    "|---|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Used:
    """The resources that this machine, with all hosts of the lab, has used: processor seconds, seconds waiting for
    disks, bytes.

    `controller`: processor seconds of Ansible and all else that provisioning runs here.
    """

    busy: float
    controller: float
    waiting: float
    written: int

    @classmethod
    def now(cls) -> "Used":
        """Counters of the kernel since it started."""
        with Path("/proc/stat").open() as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
        stats = (path.read_text().split() for path in Path("/sys/block").glob("*/stat"))
        ours = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy, waiting = (sum(ticks) - ticks[3] - ticks[4]) / _TICKS, ticks[4] / _TICKS
        return cls(busy, ours.ru_utime + ours.ru_stime, waiting, sum(int(words[6]) * 512 for words in stats))


@dataclass(frozen=True)
class Point:
    """Provisioning so many bare hosts, and again: seconds; and what the machine had used before and after the first."""

    nodes: int
    seconds: float
    again: float
    before: Used
    after: Used

    def line(self, cores: int) -> str:
        """A row for docs/results/provisioning.md."""
        first, last = self.before, self.after
        busy, ours = last.busy - first.busy, last.controller - first.controller
        a_host = f"{self.seconds / self.nodes:.1f} s | {busy / self.nodes:.1f} s | {ours / self.nodes:.1f} s"
        shares = f"{busy / self.seconds / cores:.0%} | {(last.waiting - first.waiting) / self.seconds / cores:.0%}"
        written = f"{(last.written - first.written) / self.nodes / 1e6:.0f} MB"
        return f"| {self.nodes} | {self.seconds:.0f} s | {a_host} | {shares} | {written} | {self.again:.0f} s |"


def measure(nodes: int, hdfs: bool) -> Point:
    """A lab of so many bare hosts, provisioned twice."""
    if (free := shutil.disk_usage("/var/lib").free) < nodes * _HOST_BYTES:
        raise BenchError(
            f"{nodes} hosts need {nodes * _HOST_BYTES / 1e9:.0f} GB below /var/lib, free: {free / 1e9:.0f}"
        )
    with labs.lab(f"bench-curve{nodes}", nodes) as inventory:
        (inventory / "group_vars").mkdir(exist_ok=True)
        (inventory / "group_vars" / "all.yml").write_text(f"hdfs_enabled: {str(hdfs).lower()}\n")
        before, began = Used.now(), time.monotonic()
        figures.provision(inventory)
        seconds, after = time.monotonic() - began, Used.now()
        again = figures.provision_again(inventory)
    return Point(nodes, seconds, again, before, after)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table, a row as soon as it is there."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curve", description="Provisioning more and more hosts.")
    parser.add_argument("--nodes", default="3,10,30")
    parser.add_argument("--hdfs", action="store_true")
    parser.add_argument("--without-ray", action="store_true")
    given = parser.parse_args(arguments)
    if given.without_ray:
        os.environ["ARGS"] = "--skip-tags ray"  # make's
    shell.interruptible()
    found = machine.describe()
    print(f"{found}\n")
    print("\n".join(HEAD), flush=True)
    try:
        for nodes in map(int, given.nodes.split(",")):
            print(measure(nodes, given.hdfs).line(found.cores), flush=True)
    except (BenchError, OSError) as error:
        print(f"curve FAILED: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
