"""`fab bench` on this machine only: real runs of a small plan, interrupted, refused, failed, continued."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regatta import paths
from regatta.bench import order
from regatta.bench.findings import findings, lines
from regatta.bench.runner import Bench
from regatta.bench.survey import check_room, survey
from regatta.bench.view import View
from regatta.errors import PlanError, RecordError, RunError
from regatta.experiments import job
from regatta.experiments.plan_file import load
from regatta.experiments.plans import expand
from regatta.frameworks import plan
from regatta.hosts import inventories
from regatta.hosts.lease import Lease
from regatta.hosts.remote import Remote
from regatta.node import energy
from regatta.options.declaration import RunOptions
from regatta.projects import place
from regatta.records import store
from regatta.records.record import Record, Series
from regatta.release import tree
from regatta.run.request import Request
from regatta.run.session import Session

PLAN = """
repeats = 1
frameworks = ["torch"]
[[experiments]]
workload = "ppr"
sizes = [500]
workers = [2]
parameters = { count = 2 }
published = [{ framework = "torch", workers = 2, time = "6'25''" }]
"""
SHORT = """
repeats = 1
frameworks = []
cache = "cold"
[[experiments]]
name = "long"
workload = "ppr"
sizes = [500]
workers = [1]
[[experiments]]
name = "short"
workload = "ppr"
sizes = [500]
workers = [1]
time_limit = 0.2
"""
NODE_PYTHON = paths.PROJECT / ".venv-node/bin/python"

pytestmark = pytest.mark.skipif(not NODE_PYTHON.exists(), reason="needs the nodes' environment: make setup-node")


class Fab:
    """Types `fab bench` in the project; records, caches and the cluster's folders are the test's own."""

    def __init__(self, folder: Path, inventory: Path) -> None:
        hosts = inventory / "hosts.yml"
        hosts.write_text(hosts.read_text().replace(sys.executable, str(NODE_PYTHON)))
        self.folder = folder
        self.inventory = inventory
        self.results = folder / "results"

    def plan(self, name: str, text: str) -> Path:
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return path

    def start(self, *words: str | Path, **env: str) -> "subprocess.Popen[str]":
        command = [Path(sys.executable).parent / "fab", "bench", *words, "--inventory", self.inventory]
        return subprocess.Popen(
            [str(word) for word in command],
            cwd=paths.PROJECT,
            env=os.environ | {"XDG_CACHE_HOME": str(self.folder / "xdg")} | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, *words: str | Path, **env: str) -> tuple[int, str]:
        process = self.start(*words, **env)
        text, _ = process.communicate(timeout=300)
        return process.returncode, text

    def records(self) -> list[Record]:
        listing = store.Store(self.results).list()
        assert listing.broken == ()
        return list(listing.records)


@pytest.fixture
def fab(tmp_path: Path, here: Path) -> Iterator[Fab]:
    made = Fab(tmp_path, here)
    yield made
    for pid in processes(str(tmp_path)):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def processes(mark: str) -> list[int]:
    """Supervisors of runs below a folder."""
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0") if path.name.isdigit() else []
            if any(word.endswith(b"/supervisor.py") and mark.encode() in word for word in words):
                found.append(int(path.name))
    return found


def test_a_bench_is_interrupted_refused_to_others_and_goes_on(fab: Fab) -> None:
    plan_file = fab.plan("mine", PLAN)
    code, text = fab.type(plan_file, "--dry-run")
    assert code == 0, text
    assert re.search("mine: 1 points, 1 repeats .* 1 warm-up.*, caches warm, 4 runs", text)
    assert "4 runs to go" in text
    assert not fab.results.exists()

    first = fab.start(plan_file)
    assert first.stdout is not None
    before = []
    for line in first.stdout:
        before.append(line)
        if line.startswith("[1/4]"):
            code, text = fab.type(plan_file)
            assert code == 1
            assert "error: here is in use: fab bench mine by " in text
            assert f"(process {first.pid}), for " in text
            end = time.monotonic() + 60
            while not processes(str(fab.folder)) and time.monotonic() < end:
                time.sleep(0.05)
            first.send_signal(signal.SIGINT)
    assert first.wait(60) == 130, before
    assert any(re.search("interrupted: .*`fab bench` continues.* mine-", line) for line in before)
    assert processes(str(fab.folder)) == []
    kept = {record.run_id for record in fab.records() if record.exit.state == "succeeded"}
    assert kept

    code, text = fab.type(plan_file)
    assert code == 0, text
    assert f"continues: {len(kept)} of 4 runs are recorded" in text
    assert f"{4 - len(kept)} runs in " in text
    assert "4 of 4 runs recorded" in text
    table = text.partition("end to end, as the user waits")[2].splitlines()
    assert (table[1].split()[-2:], table[2].split()[-1]) == (["published:", "torch"], "385")
    assert "ray" not in table[1], "which did not run"
    assert text.count("too few runs") == 2
    found = [record for record in fab.records() if record.exit.state == "succeeded"]
    assert kept < {record.run_id for record in found}
    entries = order.ordered(chosen := load(str(plan_file)), expand(chosen, 1))
    assert [order.key_of(record) for record in found] == [entry.key for entry in entries]
    (set_,) = {record.series.set for record in found if record.series}
    one = next(r for r in found if r.identity.framework == "torch" and r.series and not r.series.warm_up)
    assert one.series == Series(f"{set_}/ppr-500-w2", 1, 1, "mine", set_, "ppr-500-w2", False, 385.0)
    assert one.speed.cache == "warm"
    assert one.identity.parameters["size"] == 500
    assert len({record.identity.release for record in found}) == 1

    code, text = fab.type(plan_file, "--dry-run")
    assert "4 runs to go" in text
    assert "(rough)" not in text
    plan_file.write_text(PLAN.replace("repeats = 1", "repeats = 2"))
    code, text = fab.type(plan_file, "--dry-run")
    assert f"{set_} continues: 4 of 6 runs are recorded" in text
    code, text = fab.type(plan_file, "--dry-run", "--fresh")
    assert "6 runs to go" in text


def test_what_a_killed_controller_leaves_running_is_not_timed_with_the_next_bench(fab: Fab) -> None:
    plan_file = fab.plan("mine", PLAN)
    first = fab.start(plan_file)
    end = time.monotonic() + 120
    while not list(fab.folder.glob("root/state/runs/*/pid.json")) and time.monotonic() < end:
        time.sleep(0.02)
    for pid in processes(str(fab.folder)):
        os.kill(pid, signal.SIGSTOP)  # so that its run does not end before the next bench looks
    first.kill()
    first.wait()
    code, text = fab.type(plan_file)
    assert code == 1, text
    assert re.search("on here .*'fab cancel ppr-", text)


def test_a_failed_run_is_a_row_and_cold_says_what_it_means(fab: Fab) -> None:
    prepared = fab.folder / "xdg" / "regatta" / "prepared" / "0123"
    prepared.mkdir(parents=True)
    plan_file = fab.plan("short", SHORT)
    code, text = fab.type(plan_file, "--report")
    assert code == 1, text
    assert "error: 1 run(s) failed: see above" in text
    assert "2 of 2 runs recorded" in text
    assert "here: caches are cold only for input files" in text
    assert not prepared.exists()
    by_point = {record.series.point: record for record in fab.records() if record.series}
    good, bad = by_point["long-500-w1"], by_point["short-500-w1"]
    assert (good.exit.state, bad.exit.state) == ("succeeded", "failed")
    assert good.speed.cache is None
    assert good.warnings[0].startswith("here: caches are cold only for input files")
    assert f"(run {bad.run_id})" in text
    assert f"{(page := fab.results / 'report/report.html')}: 2 run(s)" in text
    assert good.run_id in (shown := page.read_text()) and bad.run_id in shown
    code, text = fab.type(plan_file, "--dry-run", "--retry")
    assert "short continues" not in text
    assert "continues: 1 of 2 runs are recorded" in text
    plan_file.write_text(SHORT.replace("[[experiments]]", "", 0).replace("repeats = 1", "repeats = 2"))
    code, text = fab.type(plan_file, "--dry-run")
    assert "continues: 2 of 4 runs are recorded" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLAN.replace("parameters", "memory_mb = 9e9\nparameters"), "(memory_mb), and it has"),
        (
            PLAN.replace("sizes = [500]", 'data = "/nowhere/graph.txt"'),
            "data /nowhere/graph.txt: there is no such file",
        ),
        (
            PLAN.replace("workers = [2]", "workers = [0]"),
            "experiments[1].workers: must be whole numbers of at least 1, not 0",
        ),
        (PLAN.replace("sizes = [500]", 'data = "hdfs:///x"'), "data hdfs:///x: inventory/local has no HDFS"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(fab: Fab, text: str, said: str) -> None:
    code, shown = fab.type(fab.plan("wrong", text))
    assert code == 2, shown
    assert said in shown
    assert not fab.results.exists()


def test_results_that_cannot_be_kept_stop_the_bench_before_it_begins(fab: Fab) -> None:
    (fab.folder / "file").write_text("")
    code, text = fab.type(fab.plan("mine", PLAN), REGATTA_RESULTS=str(fab.folder / "file" / "results"))
    assert code == 1
    assert "is no folder: records cannot be kept in" in text or "Not a directory" in text
    with pytest.raises(RecordError, match=r"MB free, the records of 1000000000000 runs may need"):
        check_room(fab.results, 10**12)


AWAY = """\
head: {{hosts: {{away: }}}}
workers: {{hosts: {{away: }}}}
all:
  vars: {{ansible_host: 127.0.0.1, ansible_port: 1, cluster_address: 127.0.0.1, regatta_root: {root}}}
"""


def test_frameworks_that_a_cluster_has_not_are_left_out_and_named(fab: Fab) -> None:
    text = PLAN.replace('["torch"]', '["torch", "spark"]')
    with contextlib.closing(Remote(inventories.load(str(fab.inventory)))) as here:
        found = survey(here, load(str(fab.plan("mine", text))), fab.results)
        assert {entry.framework for entry in found.left} == {"single", "torch"}
        (said,) = found.notes
        assert said.startswith("spark is left out: ") and "spark_enabled: true" in said
        with pytest.raises(PlanError, match="spark is left out"):
            survey(here, load(str(fab.plan("none", PLAN.replace('["torch"]', '["spark"]')))), fab.results)


def test_a_node_that_does_not_answer_makes_a_lost_row_and_is_waited_for(
    fab: Fab, capsys: pytest.CaptureFixture[str]
) -> None:
    """The node is an address where no process listens: real connections, really refused."""
    here = Remote(inventories.load(str(fab.inventory)))
    found = survey(here, load(str(fab.plan("mine", PLAN))), fab.results)
    here.close()
    inventory = fab.folder / "inventory" / "away"
    inventory.mkdir()
    (inventory / "hosts.yml").write_text(AWAY.format(root=fab.folder / "root"))
    with View() as view, Session(inventories.load(str(inventory)), view, fab.results) as session:
        bench = Bench(session, found, view, Lease(session.remote, "mine"), wait_seconds=0.0)
        entry = found.left[0]
        programs = dict.fromkeys(entry.point.frameworks, plan.Program((), "ppr"))
        bench._jobs[entry.point.name] = job.Job(programs, {"size": 500}, place.of(paths.PROJECT, paths.PROJECT))
        bench._one(len(found.left) - 1, found.left[-1])  # nothing follows that a node is needed for
        with pytest.raises(
            RunError, match=r"away did not come back within 0 s\. When it is up again: the same `regatta"
        ):
            bench._one(0, entry)
    rows = fab.records()
    assert [row.exit.state for row in rows] == ["lost", "lost"]
    assert rows[0].exit.failure is not None
    assert "away" in rows[0].exit.failure.cause
    assert order.recorded(rows) == {found.left[-1].key, entry.key}
    assert capsys.readouterr().out.count(" LOST (") == 2
    said = f"ppr-500-w2: {found.left[-1].framework}, repeat 1 lost: sync failed on 1 node(s): away: 127.0.0.1 does not"
    assert said in "\n".join(lines(findings(found.points, rows)))


def test_an_unstarted_run_has_a_record_that_fits_the_schema(fab: Fab) -> None:
    source = tree.read(paths.PROJECT)
    with View() as view, Session(inventories.load(str(fab.inventory)), view, fab.results) as session:
        request = Request(plan.Program((), "ppr"), "ray", paths.PROJECT, RunOptions(2, "never-began"), source=source)
        session.keep_unstarted(request, "no way to it", lost=False)
    document = json.loads((fab.results / "never-began.json").read_text())
    assert document["exit"]["failure"]["cause"] == "no way to it"
    assert document["identity"]["release"] == source.release
    assert fab.records()[0].phases.total is None


DUET = """
repeats = 2
[[experiments]]
name = "same"
workload = "pi"
sizes = [20000]
workers = [1]
frameworks = ["multiprocessing"]
"""


def test_a_duet_runs_both_at_the_same_moment_on_halves_of_the_cores(fab: Fab) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a duet needs two cores")
    code, text = fab.type(fab.plan("mine", DUET), "--duet", "single,multiprocessing", "--shuffle-hosts")
    assert code == 0, text
    assert "has one host that runs ranks: --shuffle-hosts changes nothing there" in text
    assert "duet: single and multiprocessing run at the same moment, each on half of the cores" in text
    assert "still run" not in text and "is running on" not in text and "left out" not in text
    assert "beside it" in text and "pi: samples=20000, duet on here" in text
    runs = {run.run_id: run for run in fab.records() if run.series and not run.series.warm_up}
    assert len(runs) == 4
    for run in runs.values():
        assert run.series is not None and run.series.partner is not None
        partner = runs[run.series.partner]
        assert partner.series is not None and partner.series.partner == run.run_id
        assert {run.series.half, partner.series.half} == {1, 2} and run.series.index == partner.series.index
        assert run.series.shuffled
        assert run.others == () and any(place.runs == (partner.run_id,) for place in run.beside)
        assert run.cluster.nodes[0].cores == len(os.sched_getaffinity(0)) // 2
        assert (run.joules is None) == (not energy.counters()), "measured where this host shows it, and only there"
    halves = [run.series.half for run in runs.values() if run.identity.framework == "single" and run.series]
    assert sorted(filter(None, halves)) == [1, 2], "they change halves with each duet"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--duet", "torch"], "--duet takes two frameworks, as torch,ray, or one twice, not 'torch'"),
        (["--duet", "torch,ray"], "no point has both torch and ray"),
        (["--max-repeats", "9"], "--max-repeats is the end of --until"),
        (["--until", "0%"], "--until takes a part above 0"),
        (["--until", "2%", "--max-repeats", "7"], "--max-repeats at least 8"),
    ],
)
def test_duets_and_ends_that_cannot_be_are_refused(fab: Fab, words: list[str], said: str) -> None:
    code, text = fab.type(fab.plan("mine", DUET), *words)
    assert code == 2 and said in text, text


@pytest.mark.whole
def test_ctrl_c_ends_both_of_a_duet(fab: Fab) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a duet needs two cores")
    going = fab.start(fab.plan("long", DUET.replace("20000", "80_000_000")), "--duet", "single,multiprocessing")
    end = time.monotonic() + 120
    while len(processes(str(fab.folder))) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    going.send_signal(signal.SIGINT)
    text, _ = going.communicate(timeout=120)
    assert going.returncode == 130 and "interrupted: the same" in text, text
    assert processes(str(fab.folder)) == []
    runs = fab.records()
    assert [run.exit.state for run in runs] == ["cancelled", "cancelled"]
    assert order.recorded(runs) == set(), "both run again"
