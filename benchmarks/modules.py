"""`python -m benchmarks.modules --inventory inventory/NAME`: each Ansible module of Regatta and the stock tasks for it.

`modules.yml` beside this file has both. They take turns on one provisioned host of the cluster, over SSH. A round trip
is a command that Ansible sends there. The table is for docs/results/modules.md; each module's own note says the same.
What is made on the host lies below /opt/regatta-bench and is removed: take a lab all the same.
"""

import argparse
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks import machine, shell
from benchmarks.report import seconds
from benchmarks.shell import BenchError
from regatta import paths
from regatta.errors import RegattaError
from regatta.hosts import inventories, sshconfig
from regatta.hosts.cluster import Cluster

ANSIBLE = paths.PROJECT / "ansible"
PAIRS = Path(__file__).with_suffix(".yml")
ARMS = ("ours", "stock")
HEAD = (
    "| module | what was done | stock tasks | round trips: ours, stock | seconds: ours, stock |",
    "|---|---|---|---|---|",
)
_WORK = "/opt/regatta-bench"
_STATE = "/var/lib/regatta-bench"
_TASK = re.compile(r"^TASK \[(.*)\] \*+$")
_SENT = re.compile(r"^<[^>]+> SSH: EXEC ")
_SECONDS = 600


@dataclass
class Taken:
    """What the tasks of one arm took, by repetition: seconds, and commands sent to the host."""

    seconds: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    trips: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def median(self) -> tuple[int, float]:
        """Round trips and seconds."""
        return round(statistics.median(self.trips[n] for n in self.seconds)), statistics.median(self.seconds.values())


@dataclass(frozen=True)
class Pair:
    """A module of Regatta and the stock tasks for it, measured."""

    module: str
    what: str
    beside: str
    ours: Taken
    stock: Taken

    def line(self) -> str:
        """A row for docs/results/modules.md."""
        (trips, took), (other, others) = self.ours.median, self.stock.median
        shown = f"{trips}, {other} | {seconds(took)}, {seconds(others)}"
        return f"| `{self.module}` | {self.what} | {self.beside} | {shown} |"


def libraries() -> list[Path]:
    """The folders of our modules."""
    return [ANSIBLE / "library", *sorted(ANSIBLE.glob("roles/*/library"))]


def play(cluster: Cluster, module: str, pair: Mapping[str, Any], repeats: int) -> list[dict[str, Any]]:
    """A play that does both so often, interleaved; each task's name says to which of them it belongs."""
    tasks: list[dict[str, Any]] = []

    def add(part: Sequence[Mapping[str, Any]], arm: str, number: int) -> None:
        tasks.extend({**task, "name": f"{arm} {number}"} for task in part)

    for number in range(1, repeats + 1):
        for arm in ARMS if number % 2 else reversed(ARMS):
            add([*_prepared(), *pair.get("before", ())], "before", number)
            add(pair[arm], arm, number)
            add(pair.get("after", ()), "after", number)
    add([{"ansible.builtin.file": {"path": path, "state": "absent"}} for path in (_WORK, _STATE)], "end", 0)
    return [
        {
            "name": module,
            "hosts": pair.get("on", "head"),
            "gather_facts": False,
            "become": True,
            "vars": _variables(cluster),
            "tasks": tasks,
        }
    ]


def _prepared() -> list[dict[str, Any]]:
    return [{"ansible.builtin.file": {"path": _WORK, "state": "directory", "mode": "0755"}}]


def _variables(cluster: Cluster) -> dict[str, Any]:
    wheels = _wheels()
    return {
        "address": "{{ cluster_address }}",
        "addresses": {node.name: node.cluster_address for node in cluster.nodes},
        "namenode": f"http://{cluster.head.cluster_address}:9870",
        "urls": [
            f"http://{cluster.head.cluster_address}:9100/metrics",
            f"http://{cluster.head.cluster_address}:9101/metrics",
            "http://127.0.0.1:9090/-/ready",
        ],
        "plan": [
            *("plan", "--lock", str(paths.PROJECT / "requirements/node.lock")),
            *("--torch-lock", str(paths.PROJECT / "requirements/torch-cpu.lock")),
            *("--python", "3.11.2", "--machine", "x86_64", "--glibc", "2.36"),
        ],
        "wheels": [str(path) for path in wheels],
        "wheel_sums": [hashlib.sha256(path.read_bytes()).hexdigest() for path in wheels],
        "environment_hash": "{{ lookup('ansible.builtin.env', 'REGATTA_BENCH_HASH') }}",
        "ray_program": _ray_program(),
    }


def _wheels() -> list[Path]:
    """The wheel of uv and a small one, as the cache has them since some provisioning."""
    for folder in (paths.cache_dir() / "wheels").glob("*"):
        found = [path for name in ("uv", "typing_extensions") for path in folder.glob(f"{name}-*.whl")]
        if len(found) == 2:
            return found
    raise BenchError("this machine's cache has no wheels: provision the cluster once more from here")


def _ray_program() -> str:
    text = (ANSIBLE / "roles/ray/library/ray_verify.py").read_text()
    return text.partition('SCRIPT = """\n')[2].partition('"""')[0]


def _hash(cluster: Cluster, env: Mapping[str, str]) -> str:
    """Of the environment that the head has."""
    command = ["ssh", *env["ANSIBLE_SSH_ARGS"].split(), cluster.head.name, "cat /opt/regatta/env/regatta-env.json"]
    return str(json.loads(shell.run(command).output)["hash"])


def settings(cluster: Cluster) -> dict[str, str]:
    """Ansible's, as provisioning has them, with all of our modules and every task named as it begins."""
    config = sshconfig.write(cluster.folder, cluster.nodes, accept_new=False)
    env = {
        "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
        "ANSIBLE_SSH_ARGS": f"-F {config}",
        "ANSIBLE_LIBRARY": os.pathsep.join(map(str, libraries())),
        "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "true",
        "ANSIBLE_NOCOLOR": "1",
        "COLUMNS": "200",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(paths.PROJECT), os.environ.get("PYTHONPATH")])),
    }
    return env | {"REGATTA_BENCH_HASH": _hash(cluster, env)}


def measure(cluster: Cluster, inventory: Path, module: str, pair: Mapping[str, Any], repeats: int) -> Pair:
    """Both of them, over a connection that is open. BenchError says what went wrong."""
    taken = {arm: Taken() for arm in ARMS}
    said: list[str] = []
    with tempfile.NamedTemporaryFile("w", suffix=".json") as book:
        json.dump(play(cluster, module, pair, repeats), book)
        book.flush()
        program = Path(sys.executable).parent / "ansible-playbook"
        command = [str(program), "-vvv", "-i", str(inventory), book.name]
        arm, number, began = "", 0, time.monotonic()
        for line in _lines(command, os.environ | settings(cluster), said):
            now = time.monotonic()
            if found := _TASK.match(line):
                if arm in taken:
                    taken[arm].seconds[number] += now - began
                arm, _, count = found.group(1).partition(" ")
                number, began = int(count), now
            elif _SENT.match(line) and arm in taken:
                taken[arm].trips[number] += 1
    return Pair(module, pair["what"], pair["beside"], taken["ours"], taken["stock"])


def _lines(command: Sequence[str], env: Mapping[str, str], said: list[str]) -> Iterator[str]:
    """What a command prints, as it comes. BenchError where it fails, or prints nothing for long."""
    with subprocess.Popen(
        ["timeout", str(_SECONDS), *command],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout
        try:
            for line in process.stdout:
                said.append(line)
                yield line
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        wrong = [line for line in said if line.startswith(("fatal:", "failed:", "ERROR", "[ERROR]"))]
        raise BenchError(f"ansible-playbook ended with {process.returncode}:\n{''.join(wrong[-2:] or said[-20:])}")


def main() -> int:
    """Measure what is asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.modules", description="Our modules beside stock tasks.")
    parser.add_argument("--inventory", required=True, help="of a provisioned lab")
    parser.add_argument("--repeats", type=int, default=5, help="of each, interleaved (default %(default)s)")
    parser.add_argument("--only", default="", help="names of modules, with commas between")
    given = parser.parse_args()
    shell.interruptible()
    pairs = yaml.safe_load(PAIRS.read_text())
    chosen = given.only.split(",") if given.only else list(pairs)
    found = machine.describe()
    print(f"{found.cpu}, {found.cores} core(s), load {found.load:.2f}, {found.date}\n")
    print("\n".join(HEAD), flush=True)
    failed, samples = 0, {}
    try:
        inventory = inventories.choose(given.inventory)
        cluster = inventories.load(given.inventory)
        for name in chosen:
            try:
                pair = measure(cluster, inventory, name, pairs[name], given.repeats)
            except BenchError as error:
                failed = 1
                print(f"modules: {name} FAILED: {error}", file=sys.stderr, flush=True)
                continue
            print(pair.line(), flush=True)
            samples[name] = {arm: vars(getattr(pair, arm)) for arm in ARMS}
    except (RegattaError, OSError) as error:
        print(f"modules FAILED: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"bench: interrupted; {_WORK} may be left on the hosts", file=sys.stderr)
        return 130
    machine.keep("modules", found.date, samples)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
