"""`python -m benchmarks.spark_provision`: what Spark adds to the provisioning of bare hosts.

Two bare hosts are made and provisioned, with Spark and without, in pairs whose order alternates. A provision before
them fills the controller's caches and does not count.
"""

import argparse
import statistics
from collections.abc import Sequence

from benchmarks import labs, shell
from benchmarks.spark import shown, where

NODES = 2
ENABLED = {"with": "true", "without": "false"}


def provision(name: str, enabled: str) -> float:
    """Seconds of `make provision` on bare hosts that are made for it and removed again."""
    with labs.lab(name, NODES) as inventory:
        variables = inventory / "group_vars/all.yml"
        variables.parent.mkdir(exist_ok=True)
        variables.write_text(f"spark_enabled: {enabled}\nmonitoring_enabled: false\n")
        return shell.run(["make", "provision", f"INVENTORY=inventory/{name}"]).seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--name", default="spark-bare", help="name of the lab that is made")
    options = parser.parse_args(arguments)
    shell.interruptible()
    machine = where()
    print(f"caches: {provision(options.name, ENABLED['with']):.1f} s, which does not count", flush=True)
    taken: dict[str, list[float]] = {kind: [] for kind in ENABLED}
    for pair in range(options.pairs):
        for kind in sorted(ENABLED, reverse=pair % 2 == 1):
            taken[kind].append(provision(options.name, ENABLED[kind]))
            print(f"{kind} Spark: {taken[kind][-1]:.1f} s", flush=True)
    more = [one - other for one, other in zip(taken["with"], taken["without"], strict=True)]
    print(f"{machine}; {options.pairs} pairs on {NODES} bare hosts, seconds as medians (least to most)\n")
    for kind, seconds in taken.items():
        print(f"| `make provision` {kind} Spark | {shown(seconds)} |")
    print(f"| more with Spark, in pairs: median | {statistics.median(more):.1f} ({min(more):.1f} to {max(more):.1f}) |")


if __name__ == "__main__":
    main()
