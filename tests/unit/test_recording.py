"""Runs whose `fab` died: their records are made by whoever attaches, or asks for `runs` next."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regatta import paths
from regatta.records.record import Record
from regatta.records.store import Store
from regatta.run import recording
from regatta_protocol.operations.runs import ListRuns

SCRIPT = """\
import json, os, sys, time
def tell(event, **fields):
    line = json.dumps({"event": event, "rank": int(os.environ["RANK"]), "t": time.time(), **fields})
    print("@regatta " + line, flush=True)
print("begun", flush=True)
tell("ready")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
if len(sys.argv) > 2 and os.environ["RANK"] == "1":
    sys.exit(7)
tell("phase", name="compute", seconds=0.05)
if os.environ["RANK"] == "0":
    tell("result", answer={"sum": 1.0}, tolerance={"sum": 0.1})
if len(sys.argv) > 2:
    time.sleep(60)
"""


class Fab:
    """`regatta` in a tree with the script, on this machine only."""

    def __init__(self, tree: Path, inventory: Path, sign: Path) -> None:
        self.tree, self.inventory, self.sign = tree, inventory, sign
        (tree / "train.py").write_text(SCRIPT)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        program = str(Path(sys.executable).with_name("regatta"))
        return subprocess.Popen(
            [program, words[0], "--inventory", str(self.inventory), *words[1:]],
            cwd=self.tree,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )

    def run(self, *words: str) -> tuple[int, str]:
        done = self.start(*words)
        said, _ = done.communicate(timeout=120)
        return done.returncode, said

    def orphan(self, name: str, *words: str) -> None:
        """Start a run and kill its `regatta`; the run ends when the sign is given."""
        fab = self.start("torchrun", f"--name={name}", "--workers=2", "train.py", str(self.sign), *words)
        assert fab.stdout is not None
        assert any("begun" in line for line in fab.stdout)
        os.kill(fab.pid, signal.SIGKILL)
        fab.wait()


@pytest.fixture
def fab(source: Path, here: Path, tmp_path: Path) -> Fab:
    return Fab(source, here, tmp_path / "sign")


def kept(name: str) -> Record | None:
    store = Store(paths.results_dir())
    return store.find(name) if store.has(name) else None


def test_attach_writes_the_record_of_a_run_that_nobody_follows(fab: Fab) -> None:
    fab.orphan("alone")
    assert kept("alone") is None
    attached = fab.start("attach", "alone")
    fab.sign.touch()
    said, _ = attached.communicate(timeout=60)
    assert attached.returncode == 0, said
    found = kept("alone")
    assert found is not None and found.exit.state == "succeeded"
    assert found.answer == {"sum": 1.0}
    assert found.identity.workload == "train" and found.identity.parameters["argv"][0] == "train.py"
    assert found.identity.release and found.cluster.nodes[0].cores and found.use
    assert found.cluster.rank_map == ("here", "here")
    assert found.phases.compute == 0.05 and found.phases.total is None
    assert recording.NOTE in found.warnings


def let_end(fab: Fab, remote) -> None:
    """Give the sign, and wait until the run has ended."""
    fab.sign.touch()
    end = time.monotonic() + 30
    while remote.call(remote.cluster.head, ListRuns()).runs[0].state == "running":
        assert time.monotonic() < end
        time.sleep(0.1)


def test_runs_gc_deletes_no_run_before_its_record_is_kept(
    fab: Fab, remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for from another project: the record comes to its own."""
    fab.orphan("unfollowed")
    let_end(fab, remote)
    paths.results_dir().mkdir(parents=True, exist_ok=True)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("REGATTA_RESULTS", str(tmp_path / "others"))
        code, said = fab.run("runs-gc", "--before", "0m", "--yes")
        assert code == 0 and "1 run(s)" in said, said
        assert kept("unfollowed") is None
    project = f":{paths.results_dir().resolve()}".removesuffix("/results")
    assert any(line.startswith("unfollowed ") and line.endswith(project) for line in said.splitlines()), said
    found = kept("unfollowed")
    assert found is not None and found.answer == {"sum": 1.0}


def test_runs_writes_it_and_tells_how_the_run_ended_as_show_does(fab: Fab, remote) -> None:
    fab.orphan("failing", "fail")
    assert "failing" in fab.run("runs")[1]
    assert kept("failing") is None, "it is still running"
    let_end(fab, remote)
    _, said = fab.run("runs")
    found = kept("failing")
    assert found is not None and found.exit.state == "failed"
    assert found.exit.failure is not None and found.exit.failure.rank == 1
    assert [line.split()[1] for line in said.splitlines() if line.startswith("failing ")] == ["failed"]


def test_a_run_that_has_a_record_gets_none_elsewhere(fab: Fab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fab.sign.touch()
    code, said = fab.run("torchrun", "--name=mine", "--workers=2", "train.py", str(fab.sign))
    assert code == 0, said
    assert kept("mine") is not None
    monkeypatch.setenv("REGATTA_RESULTS", str(tmp_path / "others"))
    assert fab.run("attach", "mine")[0] == 0
    assert "mine" in fab.run("runs")[1]
    assert kept("mine") is None


def test_what_a_run_wrote_over_its_own_spec_makes_no_record(fab: Fab, remote) -> None:
    fab.orphan("spoilt")
    spec = Path(remote.cluster.head.state) / "runs/spoilt/spec.json"
    text = spec.read_text()
    assert '"workload": "train"' in text
    spec.write_text(text.replace('"workload": "train"', '"workload": 3'))
    fab.sign.touch()
    code, said = fab.run("attach", "spoilt")
    assert code == 0 and "spoilt" in said
    assert kept("spoilt") is None
