"""A framework is added by a file on each side: in a copy of this checkout, which then runs a workload under it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regatta.paths import PROJECT
from regatta.records.store import Store

COPIED = ("regatta", "regatta_protocol", "workloads", "fabfile.py", "fabric.yaml", "pyproject.toml", "requirements")
ADAPTER = '''\
"""Ranks that are started one by one and send what they have to rank 0."""

from regatta.frameworks import spec
from regatta.frameworks.api import Framework
from regatta.frameworks.plan import Plan
from regatta_protocol.run import Spec
from regatta.hosts.cluster import Cluster


class Toy(Framework):
    """A process a rank; they meet at a socket of rank 0."""

    name = "toy"
    backend = "socket"

    def headline(self, plan: Plan) -> str:
        """See `Framework`."""
        return "toy (sockets)"

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        first = f"{plan.ranks[0].node.cluster_address}:{plan.master_port}"
        return {
            node.name: spec.python_ranks(
                plan, node, spec.one_by_one(plan, node, lambda rank: {"TOY_RANK": str(rank.rank), "TOY_FIRST": first})
            )
            for node in plan.nodes
        }


FRAMEWORK = Toy()
'''
NODES_SIDE = '''\
"""Each rank works out its part, and rank 0 takes one answer after the other from a queue behind a socket."""

import contextlib
import json
import os
import socket
import time

from workloads.common import events
from workloads.common.part import steps
from workloads.common.ranks import Ranks

RANK, WORLD = int(os.environ["TOY_RANK"]), int(os.environ["REGATTA_WORKERS"])


@contextlib.contextmanager
def answers(make, *, grouped, restarts):
    events.set_rank(RANK)
    part = make(Ranks(RANK, WORLD, RANK, WORLD))
    events.ready()
    steps(part, None)
    with events.phase("collect"):
        gathered = gather(part.answer())
    yield gathered


def gather(answer):
    host, port = os.environ["TOY_FIRST"].split(":")
    if RANK:
        for _ in range(200):
            try:
                with socket.create_connection((host, int(port))) as there:
                    there.sendall(json.dumps([RANK, answer]).encode())
                return None
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise TimeoutError("rank 0 does not listen")
    found = {0: answer}
    with socket.create_server((host, int(port))) as server:
        while len(found) < WORLD:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as file:
                rank, other = json.loads(file.read())
                found[rank] = other
    return [found[rank] for rank in range(WORLD)]


def leave():
    pass
'''
CARD = """\
about = "Adds numbers"
module = "workloads.adding"
frameworks = ["single", "toy"]
unit = "numbers"
size = "numbers"

[options.numbers]
kind = "whole number"
default = 1000
least = 1
help = "how many"

[options.fail]
kind = "true or false"
help = "let rank 1 fail"
"""
MAIN = """\
from workloads.common import command

if __name__ == "__main__":
    command.main("workloads.adding")
"""
PART = """\
import os
import sys
from dataclasses import dataclass

TOLERANCE = {}


@dataclass(frozen=True)
class Options:
    numbers: int
    fail: bool


class Part:
    def __init__(self, options, ranks):
        self.options, self.ranks = options, ranks
        print("rank", ranks.rank, "under", os.environ["REGATTA_FRAMEWORK"], flush=True)

    def load(self, folder):
        if self.options.fail and self.ranks.rank == 1:
            sys.exit(7)

    def compute(self):
        self.sum = sum(range(self.ranks.rank, self.options.numbers, self.ranks.world))

    def answer(self):
        return self.sum


def combine(parts):
    return {"sum": sum(parts)}, [f"the sum is {sum(parts)}"]
"""


class Checkout:
    """A copy of this checkout, to which files are added, and what is typed in it."""

    def __init__(self, folder: Path, inventory: Path, results: Path) -> None:
        self.folder, self.inventory, self.results = folder, inventory, results
        folder.mkdir()
        unwanted = shutil.ignore_patterns("__pycache__", "*.pyc", "project")
        for name in COPIED:
            source = PROJECT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=unwanted)
            else:
                shutil.copy(source, folder / name)

    def add(self, path: str, text: str) -> None:
        """One more file; there was none of that name."""
        place = self.folder / path
        assert not place.exists()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def python(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """The controller's Python with the copy's modules."""
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder), "REGATTA_RESULTS": str(self.results)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def fab(self, *words: str) -> str:
        """Return what `fab` prints in the copy; it must succeed."""
        done = self.python(str(Path(sys.executable).with_name("fab")), *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """`fab run-adding` on three ranks."""
        fab = str(Path(sys.executable).with_name("fab"))
        return self.python(fab, "run-adding", "--workers=3", f"--inventory={self.inventory}", *words)


@pytest.fixture
def toys(tmp_path: Path, here: Path) -> Checkout:
    """A checkout with one more framework, and a workload that names it."""
    made = Checkout(tmp_path / "checkout", here, tmp_path / "results")
    made.add("regatta/frameworks/toy/adapter.py", ADAPTER)
    made.add("workloads/common/frameworks/toy.py", NODES_SIDE)
    files = {"__init__.py": "", "card.toml": CARD, "__main__.py": MAIN, "part.py": PART}
    for name, text in files.items():
        made.add(f"workloads/adding/{name}", text)
    return made


def test_a_framework_of_two_files_runs_a_workload_and_is_reported(toys: Checkout, tmp_path: Path) -> None:
    done = toys.run("--framework=all", "--name=adding")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "rank 0 under single" in said and "rank 2 under toy" in said
    assert "adding-toy-1: toy (sockets), 3 rank(s)" in said and "answers of 2 runs are equal" in said
    record = Store(toys.results).find("adding-toy-1")
    assert (record.identity.framework, record.speed.backend, record.speed.token) == ("toy", "socket", False)
    assert record.answer == {"sum": 499500} and record.cluster.rank_map == ("here",) * 3
    assert record.phases.launch is not None and {rank.rank for rank in record.ranks} == {0, 1, 2}
    assert "toy" in toys.fab("show", "adding-toy-1")
    listed = toys.fab("runs", "--framework", "toy", "--inventory", str(toys.inventory))
    assert "adding-toy-1" in listed and "adding-single-1" not in listed
    toys.fab("report", "--out", str(tmp_path / "report"), "--charts", "svg")
    tables = (tmp_path / "report/tables.md").read_text()
    assert "toy × 3" in tables and "single/3" in tables
    assert re.search(r"toy × 3 took \| [0-9.]+ times as long as \| single/3 \| end to end", tables)
    assert any("toy" in path.read_text() for path in (tmp_path / "report/charts").glob("*.svg"))


def test_a_rank_of_it_that_fails_ends_the_others_and_is_named(toys: Checkout) -> None:
    done = toys.run("--framework=toy", "--name=failing", "--fail")
    assert done.returncode != 0
    record = json.loads((toys.results / "failing.json").read_text())
    assert record["exit"]["state"] == "failed" and record["exit"]["failure"]["rank"] == 1


def test_its_name_is_known_where_a_framework_is_asked_for(toys: Checkout) -> None:
    code = "from regatta.frameworks import choice, registry; from regatta.hosts import inventories; import sys\n"
    code += "here = inventories.load(sys.argv[1])\n"
    code += "print('toy' in registry.names(), choice.chosen('toy,torch', registry.names(), here))"
    said = toys.python("-c", code, str(toys.inventory)).stdout
    assert said.split("\n")[0] == "True ('toy', 'torch')"
