"""`python -m benchmarks.top`: what `fab top` costs the nodes that it looks at, and this machine.

On a lab of bare hosts, whose processes this machine sees in /proc, each host in its own PID namespace.
"""

import argparse
import os
import pty
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import labs, machine, shell
from benchmarks.shell import BenchError
from regatta import paths

SHARE_TARGET = 0.02
START_SECONDS, SETTLE_SECONDS = 60.0, 5.0
_TICKS = os.sysconf("SC_CLK_TCK")
_SCREEN = {"COLUMNS": "200", "LINES": "60", "TERM": "xterm-256color"}


@dataclass(frozen=True)
class Process:
    """A process of a lab host or of this machine: its PID namespace, CPU in seconds, and how often it has written."""

    namespace: str
    sampler: bool
    command: str
    seconds: float
    writes: int


@dataclass(frozen=True)
class Cost:
    """Shares of a core: of the sampling processes and of all processes of each node, and of this machine's side.

    `samples` and `screens`: a second, the former of the slowest node.
    """

    nodes: int
    seconds: float
    sampler: tuple[float, ...]
    whole: tuple[float, ...]
    controller: float
    samples: float
    screens: float


def measure(inventory: Path, nodes: int, seconds: float) -> Cost:
    """Look with `fab top` in a terminal for so long. BenchError where it does not come to see all nodes."""
    reading, terminal = pty.openpty()
    title = f"{inventory.name}, {nodes} node(s)".encode()
    screens: list[float] = []
    with subprocess.Popen(
        [str(shell.FAB), "top", "--inventory", str(inventory)],
        cwd=paths.PROJECT,
        env={**os.environ, **_SCREEN},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    ) as process:
        os.close(terminal)
        threading.Thread(target=_drain, args=(reading, title, screens), daemon=True).start()
        try:
            _wait_for_samplers(nodes)
            time.sleep(SETTLE_SECONDS)
            before, began = _processes(), time.monotonic()
            drawn = len(screens)
            time.sleep(seconds)
            after, taken = _processes(), time.monotonic() - began
            drawn = len(screens) - drawn
        finally:
            os.killpg(process.pid, signal.SIGINT)
    return _cost(before, after, taken, nodes, drawn, (str(inventory), *_connections(inventory)))


def _cost(
    before: dict[int, Process], after: dict[int, Process], taken: float, nodes: int, drawn: int, marks: Sequence[str]
) -> Cost:
    sampler, whole, writes = Counter[str](), Counter[str](), Counter[str]()
    controller = 0.0
    here = _namespace("self")
    for pid, process in after.items():
        earlier = before.get(pid)
        used = process.seconds - (earlier.seconds if earlier else 0.0)
        if process.namespace == here:
            controller += used if any(mark in process.command for mark in marks) else 0.0
            continue
        whole[process.namespace] += used
        if process.sampler and earlier:
            sampler[process.namespace] += used
            writes[process.namespace] += process.writes - earlier.writes
    found = [namespace for namespace in sampler if writes[namespace]]
    if len(found) < nodes:
        raise BenchError(f"only {len(found)} of {nodes} nodes kept reporting")
    return Cost(
        nodes=nodes,
        seconds=taken,
        sampler=tuple(sorted(sampler[namespace] / taken for namespace in found)),
        whole=tuple(sorted(whole[namespace] / taken for namespace in found)),
        controller=controller / taken,
        samples=min(writes[namespace] for namespace in found) / taken,
        screens=drawn / taken,
    )


def _connections(inventory: Path) -> list[str]:
    """Return how the paths of the kept SSH connections begin, which their processes have as titles."""
    texts = [path.read_text() for path in inventory.glob("ssh_config*")]
    return [found for text in texts for found in re.findall(r'ControlPath "(.+)-%C"', text)]


def _drain(reading: int, title: bytes, screens: list[float]) -> None:
    """Take what the terminal shows; each screen has the title once."""
    rest = b""
    while True:
        try:
            block = os.read(reading, 1 << 16)
        except OSError:
            return
        if not block:
            return
        rest += block
        screens += [time.monotonic()] * rest.count(title)
        rest = rest.rpartition(title)[2][-len(title) :]


def _wait_for_samplers(nodes: int) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if len({process.namespace for process in _processes().values() if process.sampler}) >= nodes:
            return
        time.sleep(0.5)
    raise BenchError(f"`fab top` did not reach {nodes} nodes within {START_SECONDS:g} s")


def _processes() -> dict[int, Process]:
    """All processes that this machine sees, those of lab hosts too; needs root."""
    found = {}
    here = _namespace("self")
    for name in (path.name for path in Path("/proc").iterdir()):
        try:
            pid, namespace = int(name), _namespace(name)
            command = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            said = Path(f"/proc/{name}/io").read_text().split()
        except (OSError, ValueError):
            continue
        sampler = namespace != here and command.startswith("/usr/bin/python3 -ISuc")
        seconds = (int(fields[11]) + int(fields[12])) / _TICKS
        found[pid] = Process(namespace, sampler, command, seconds, int(said[said.index("syscw:") + 1]))
    return found


def _namespace(process: str) -> str:
    return str(Path(f"/proc/{process}/ns/pid").readlink())


def lines(cost: Cost) -> list[str]:
    """The table for docs/results/overhead.md."""
    middle, most = statistics.median(cost.sampler), cost.sampler[-1]
    whole = statistics.median(cost.whole)
    return [
        f"| `fab top`, {cost.nodes} hosts, {cost.seconds:.0f} s | target | measured |",
        "|---|---|---|",
        f"| CPU of the sampling process | {SHARE_TARGET:.0%} of a core a node | {middle:.2%} (most: {most:.2%})"
        f"{'' if most <= SHARE_TARGET else ': **missed**'} |",
        f"| CPU of all processes of a node (SSH, sudo, the system) | - | {whole:.2%} (most: {cost.whole[-1]:.2%}) |",
        f"| CPU of the controller, with its SSH | - | {cost.controller:.1%} of a core |",
        f"| samples a second of the slowest node | 1 | {cost.samples:.2f} |",
        f"| screens a second | 1 | {cost.screens:.2f} |",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; writes `results/benchmarks/top-<date>.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.top", description="Measure what `fab top` costs.")
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args(arguments)
    shell.interruptible()
    found = machine.describe()
    try:
        with labs.lab("bench-top", given.nodes) as inventory:
            cost = measure(inventory, given.nodes, given.seconds)
    except (BenchError, OSError) as error:
        print(f"top FAILED: {error}", file=sys.stderr)
        return 1
    print(f"{found}\n")
    print("\n".join(lines(cost)))
    machine.keep("top", found.date, {"machine": asdict(found), **asdict(cost)})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
