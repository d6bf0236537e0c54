"""A framework is added by one file on the controller's side: in a copy of this checkout, which then runs under it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regatta.paths import PROJECT
from regatta.records.store import Store

COPIED = ("regatta", "workloads", "fabfile.py", "fabric.yaml", "pyproject.toml", "requirements")
ADAPTER = '''\
"""Ranks that are started one by one and send what they have to rank 0."""

from regatta.frameworks import spec
from regatta.frameworks.api import Framework
from regatta.frameworks.plan import Plan
from regatta.frameworks.spec import Spec
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
"""Gathers a number of each rank at rank 0; alone without any other rank."""

import os
import socket
import time

RANK, WORLD = int(os.environ.get("TOY_RANK", "0")), int(os.environ["REGATTA_WORKERS"])


def gathered(number: float) -> list[float]:
    """The numbers of all ranks, at rank 0; elsewhere nothing."""
    if WORLD == 1:
        return [number]
    host, port = os.environ["TOY_FIRST"].split(":")
    if RANK:
        for _ in range(200):
            try:
                with socket.create_connection((host, int(port))) as there:
                    there.sendall(repr(number).encode())
                return []
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise TimeoutError("rank 0 does not listen")
    found = [number]
    with socket.create_server((host, int(port))) as server:
        while len(found) < WORLD:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as file:
                found.append(float(file.read()))
    return found
'''
SCRIPT = """\
import os, sys, time
from workloads.common.frameworks_of_a_test import RANK, WORLD, gathered

def tell(event, **fields):
    import json
    print("@regatta " + json.dumps({"event": event, "rank": RANK, "t": time.time(), **fields}), flush=True)

print("rank", RANK, "under", os.environ["REGATTA_FRAMEWORK"], flush=True)
if "fail" in sys.argv and RANK == 1:
    sys.exit(7)
tell("ready")
began = time.monotonic()
numbers = gathered(sum(number for number in range(1000) if number % WORLD == RANK))
tell("phase", name="compute", seconds=time.monotonic() - began)
if RANK == 0:
    tell("result", answer={"sum": sum(numbers)}, tolerance={"sum": 0.5})
"""
RUN = """\
import sys
from pathlib import Path
from regatta import paths
from regatta.frameworks.plan import Program
from regatta.hosts import inventories
from regatta.records.record import Series
from regatta.run.request import Request
from regatta.run.session import Session
from regatta.terminal.console import Console
inventory, framework, name, *words = sys.argv[1:]
program = Program.script("adding.py", words)
series = Series("toys", 1, 1)
with Console() as console, Session(inventories.load(inventory), console, paths.results_dir()) as session:
    session.run(
        Request(program, framework, Path.cwd(), workers=3, name=name, parameters={"numbers": 1000}, series=series)
    )
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
        """What `fab` prints in the copy; it must succeed."""
        done = self.python(str(Path(sys.executable).with_name("fab")), *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, framework: str, name: str, *words: str) -> "subprocess.CompletedProcess[str]":
        """The script on three ranks under a framework."""
        return self.python("-c", RUN, str(self.inventory), framework, name, *words)


@pytest.fixture
def toys(tmp_path: Path, here: Path) -> Checkout:
    """A checkout with one more framework."""
    made = Checkout(tmp_path / "checkout", here, tmp_path / "results")
    made.add("regatta/frameworks/adapters/toy.py", ADAPTER)
    made.add("workloads/common/frameworks_of_a_test.py", NODES_SIDE)
    made.add("adding.py", SCRIPT)
    return made


def test_a_framework_of_one_file_runs_and_is_reported(toys: Checkout, tmp_path: Path) -> None:
    for framework in ("single", "toy"):
        done = toys.run(framework, f"adding-{framework}")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"rank 0 under {framework}" in done.stdout
    assert "adding-toy: toy (sockets), 3 rank(s)" in done.stdout + done.stderr
    record = Store(toys.results).find("adding-toy")
    assert (record.identity.framework, record.speed.backend, record.speed.token) == ("toy", "socket", False)
    assert record.answer == {"sum": 499500.0} and record.cluster.rank_map == ("here",) * 3
    assert record.phases.launch is not None and {rank.rank for rank in record.ranks} == {0, 1, 2}
    assert "toy" in toys.fab("show", "adding-toy")
    listed = toys.fab("runs", "--framework", "toy", "--inventory", str(toys.inventory))
    assert "adding-toy" in listed and "adding-single" not in listed
    toys.fab("report", "--out", str(tmp_path / "report"), "--charts", "svg")
    tables = (tmp_path / "report/tables.md").read_text()
    assert "toy × 3" in tables and "single/3" in tables
    assert "toy × 3 | single/3 | total" in tables
    assert any("toy" in path.read_text() for path in (tmp_path / "report/charts").glob("*.svg"))


def test_a_rank_of_it_that_fails_ends_the_others_and_is_named(toys: Checkout) -> None:
    done = toys.run("toy", "failing", "fail")
    assert done.returncode != 0
    record = json.loads((toys.results / "failing.json").read_text())
    assert record["exit"]["state"] == "failed" and record["exit"]["failure"]["rank"] == 1


def test_its_name_is_known_where_a_framework_is_asked_for(toys: Checkout) -> None:
    code = "from regatta.frameworks import choice, registry; from regatta.hosts import inventories; import sys\n"
    code += "here = inventories.load(sys.argv[1])\n"
    code += "print(registry.ordered(registry.names()), choice.chosen('toy,torch', registry.names(), here))"
    said = toys.python("-c", code, str(toys.inventory)).stdout
    assert said.split("\n")[0] == "['single', 'torch', 'ray', 'toy'] ('toy', 'torch')"
