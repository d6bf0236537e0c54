"""`python -m benchmarks.probes INVENTORY`: how often `fab probe` names a host although all are alike.

Each probe is kept in `results/benchmarks/` at once: after an interruption the same command continues from there.
"""

import argparse
import json
import os
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine, shell
from benchmarks.shell import BenchError
from regatta.records.calibration import share

PROBES = 100
LIMIT = 600.0


@dataclass(frozen=True)
class Probe:
    """One probe: when it began, the load of this machine then, its seconds, and the hosts that it named, with what."""

    date: str
    commit: str | None
    load: float
    seconds: float
    slow: list[dict[str, Any]]


def taken(inventory: str) -> Probe:
    """Probe once. BenchError where that fails."""
    before = machine.describe()
    done = shell.run([shell.FAB, "probe", "--json", "--inventory", inventory], limit=LIMIT)
    told = json.loads(done.output[done.output.index("{") :])
    return Probe(before.date, before.commit, round(before.load, 2), round(done.seconds, 1), told["slow"])


def read(path: Path) -> list[Probe]:
    """The probes that are kept; a last line that is not whole is none."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [Probe(**json.loads(line)) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def lines(probes: Sequence[Probe]) -> Iterator[str]:
    """The figures of docs/results/method.md."""
    named = [probe for probe in probes if probe.slow]
    loads, seconds = [probe.load for probe in probes], [probe.seconds for probe in probes]
    yield f"{len(probes)} probes, {probes[0].date} to {probes[-1].date}"
    yield f"{len(named)} named a host that is like the others: {share(len(named), len(probes))}"
    yield f"load {min(loads):.1f} to {max(loads):.1f} (median {statistics.median(loads):.1f});"
    yield f"a probe took {statistics.median(seconds):.0f} s ({min(seconds):.0f} to {max(seconds):.0f})"
    parts = Counter(what for probe in named for what in {one["what"] for one in probe.slow})
    if parts:
        yield "what was named: " + ", ".join(f"{what} {count}" for what, count in parts.most_common())


def main(arguments: Sequence[str] | None = None) -> int:
    """Probe until there are as many as asked for, and print the rate."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probes", description=__doc__)
    parser.add_argument("inventory", help="of hosts that are alike")
    parser.add_argument("--probes", type=int, default=PROBES, help="altogether, with those that are kept")
    given = parser.parse_args(arguments)
    shell.interruptible()
    machine.SAMPLES.mkdir(parents=True, exist_ok=True)
    path = machine.SAMPLES / f"probes-{Path(given.inventory).name}.jsonl"
    probes = read(path)
    path.write_text("".join(f"{json.dumps(asdict(probe))}\n" for probe in probes), encoding="utf-8")
    try:
        while len(probes) < given.probes:
            probes.append(taken(given.inventory))
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(asdict(probes[-1]))}\n")
                file.flush()
                os.fsync(file.fileno())
            print(f"{len(probes)} of {given.probes}: {probes[-1].slow or 'none named'}", flush=True)
    except (BenchError, OSError, ValueError) as error:
        print(f"probes FAILED: {error}; the same command continues from here", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"stopped after {len(probes)} probes: the same command continues from here", file=sys.stderr)
        return 130
    print("\n".join(lines(probes)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
