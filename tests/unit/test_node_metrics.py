"""A node's metrics of runs: those that live, each rank where it is, nothing that a run could break."""

import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regatta.frameworks.spark.node import metrics as sparkmetrics
from regatta.hosts.remote import Remote
from regatta.node import metrics, progress, queuemetrics, rundirs
from regatta.terminal import top

PLAN = {"label": "digits", "ranks": {"0": "n1", "1": "n2"}}
EVENTS = [
    {"event": "ready", "rank": 1, "t": 0},
    {"event": "phase", "name": "load", "seconds": 1, "rank": 1, "t": 0},
    {"event": "progress", "what": "epochs", "done": 2, "total": 5, "loss": 0.25, "rank": 1, "t": 0},
]


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "runs").mkdir()
    return {"state": str(tmp_path)}


@pytest.fixture
def living(tmp_path: Path) -> Iterator[int]:
    """A process whose command line names the folder of the run `r1`, as its supervisor's does."""
    program = "import sys; print('here', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, f"{tmp_path}/runs/r1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()
        yield process.pid
        process.kill()


def make(place: dict[str, str], pid: int, **spec: Any) -> Path:
    """The folder of a Ray run's driver `r1`, one rank here and one on another node."""
    folder = Path(place["state"], "runs/r1")
    folder.mkdir()
    whole = {"mode": "member", "framework": "ray", "ranks": [{"rank": -1}], "plan": PLAN, "started": time.time()}
    (folder / "spec.json").write_text(json.dumps(whole | spec))
    (folder / "pid.json").write_text(json.dumps({"pid": pid}))
    (folder / "log").write_text("".join(f"-1|@regatta {json.dumps(event)}\n" for event in EVENTS))
    return folder


def seen(place: dict[str, str]) -> str:
    return metrics.exposition(metrics.samples(place, progress.Runs(place)))


SINK = """\
metrics_worker_coresFree_Number{type="gauges"} 2
metrics_worker_coresFree_Value{type="gauges"} 2
metrics_worker_coresUsed_Value{type="gauges"} 0
metrics_worker_memFree_MB_Value{type="gauges"} 2048
metrics_CodeGenerator_compilationTime_Mean{type="histograms"} 0.0
"""
"""Lines of a worker of Spark 4.3."""


def test_spark_is_told_of_by_what_its_pages_say(place: dict[str, str], tmp_path: Path, monkeypatch: Any) -> None:
    asked = []

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(SINK.encode())

        def log_message(self, *_: object) -> None:
            pass

    conf = tmp_path / "spark.json"
    monkeypatch.setattr(sparkmetrics, "CONF", str(conf))
    assert "spark" not in seen(place)
    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        conf.write_text(json.dumps({"worker": server.server_address[1]}))
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        said = seen(place)
        thread.join()
    assert asked == ["/metrics/prometheus/"]
    assert "\nspark_worker_cores_free{} 2.0\n" in said and "\nspark_worker_memory_free_bytes{} 2147483648.0\n" in said
    assert "CodeGenerator" not in said and "# TYPE spark_worker_cores_used gauge" in said
    assert "spark" not in seen(place)


def test_a_living_run_with_its_ranks(place: dict[str, str], living: int) -> None:
    make(place, living)
    said = seen(place)
    assert 'regatta_run_info{run="r1",workload="digits",framework="ray",workers="2"} 1.0\n' in said
    assert 'regatta_run_rank_info{run="r1",rank="0",node="n1",phase="starting"} 1.0\n' in said
    assert 'regatta_run_rank_info{run="r1",rank="1",node="n2",phase="load"} 1.0\n' in said
    assert 'regatta_run_progress_total{run="r1",rank="1",node="n2",what="epochs"} 5.0\n' in said
    assert 'regatta_run_loss{run="r1",rank="1",node="n2"} 0.25\n' in said
    assert "residual" not in said
    assert said.count("# TYPE regatta_run_rank_info gauge\n") == 1


def test_a_run_whose_supervisor_is_gone_has_no_series(place: dict[str, str], living: int) -> None:
    make(place, living)
    runs = progress.Runs(place)
    assert "r1" in metrics.exposition(metrics.samples(place, runs))
    os.kill(living, 9)
    os.waitpid(living, 0)
    assert "r1" not in metrics.exposition(metrics.samples(place, runs))


def test_an_ended_run_has_no_series(place: dict[str, str], living: int) -> None:
    (make(place, living) / "exit.json").write_text("{}")
    assert "r1" not in seen(place)


def test_the_folder_of_a_ray_run_without_its_driver_has_no_series(place: dict[str, str]) -> None:
    folder = make(place, 0, ranks=[])
    (folder / "pid.json").unlink()
    assert "r1" not in seen(place)


def test_names_of_any_kind_stay_one_short_label(place: dict[str, str], living: int) -> None:
    make(place, living, plan={"label": 'a"b\\c\nd' + "x" * 1000, "ranks": {}})
    (line,) = (line for line in seen(place).splitlines() if line.startswith("regatta_run_info"))
    assert 'workload="a\\"b\\\\c?d' in line
    assert len(line) < 300


def test_a_run_is_seen_although_its_folder_was_there_first(
    place: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look between the folder and the unit's start is no verdict."""
    make(place, 0, mode="unit", framework="torch", ranks=[{"rank": 0}])
    started = Path(place["state"], "invocation:")
    monkeypatch.setattr(rundirs, "STARTED", str(started))
    runs = progress.Runs(place)
    assert list(runs.going()) == []
    Path(f"{started}regatta-run-r1.service").touch()
    assert [run["id"] for run in runs.going()] == ["r1"]


@pytest.mark.parametrize(("program", "phase"), [(["train.py", "-m"], "running"), (["-m", "workloads.ppr"], "starting")])
@pytest.mark.parametrize("framework", ["torch", "ray"])
def test_a_script_that_tells_nothing_is_running_once_its_processes_are(
    place: dict[str, str], living: int, remote: Remote, program: list[str], phase: str, framework: str
) -> None:
    mode, rank = ("member", -1) if framework == "ray" else ("session", 1)
    told = {"framework": framework, "mode": mode, "ranks": [{"rank": rank}], "plan": {**PLAN, "program": program}}
    folder = make(place, living, **told)
    (folder / "log").write_text("1|epoch 1\n")
    assert f'rank="1",node="n2",phase="{phase}"}} 1.0\n' in seen(place)
    shown = top.Seen(remote.cluster.head, {"runs": list(progress.Runs(place).going())})
    (_, row) = top.run_rows([shown], lambda framework: framework == "ray")
    assert row[5] == phase and row[3] == ("driver" if framework == "ray" else "-")


def test_a_run_that_prints_nothing_for_long_is_pointed_to_why(
    place: dict[str, str], living: int, remote: Remote
) -> None:
    folder = make(place, living)
    (folder / "log").write_text("1|epoch 1\n")

    def lines() -> list[str]:
        return top.quiet_lines([top.Seen(remote.cluster.head, {"runs": list(progress.Runs(place).going())})])

    assert lines() == []
    before = time.time() - 100
    os.utime(folder / "log", (before, before))
    assert [line.partition(";")[2] for line in lines()] == [" 'regatta why r1' says where each rank stands"]
    (folder / "live.json").write_text("{}")  # a bar that moves
    assert lines() == []


def test_a_log_that_grows_faster_than_it_is_read(
    place: dict[str, str], living: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(place, living)
    runs = progress.Runs(place)
    list(runs.going())
    monkeypatch.setattr(progress, "MOST_BYTES", 1000)
    event = {"event": "progress", "what": "epochs", "done": 3, "total": 5, "rank": 1, "t": 0}
    with (folder / "log").open("a") as log:
        log.write("x" * 5000 + f"\n-1|@regatta {json.dumps(event)}\n")
    (run,) = runs.going()
    assert run["ranks"]["1"]["progress"]["done"] == 3


@pytest.mark.parametrize(
    ("jobs", "nodes", "stuck"),
    [
        ("", "n1 idle\nn2 idle", 0.0),
        ("PENDING|2|(null)|(null)|Resources", "n1 idle\nn2 alloc", 0.0),
        ("PENDING|2|(null)|(null)|PartitionDown", "n1 idle\nn2 plnd", 1.0),
        ("PENDING|1|n2|(null)|Resources", "n1 idle\nn2 down*", 0.0),
        ("PENDING|1||n1|Resources", "n1 idle\nn2 alloc", 0.0),
        ("PENDING|1|(null)|(null)|Dependency\nPENDING|2|n1,n2||Priority", "n1 idle\nn2 idle", 1.0),
        ("PENDING|2|(null)|(null)|Resources\nPENDING|1|(null)|(null)|Priority", "n1 idle\nn2 mix", 0.0),
        ("RUNNING|1|(null)|(null)|None\nPENDING|1|(null)|(null)|JobHeldAdmin", "n1 idle\nn2 alloc", 0.0),
    ],
)
def test_a_queue_is_stuck_while_the_first_in_line_could_start(jobs: str, nodes: str, stuck: float) -> None:
    lines = [line.split("|", 4) for line in jobs.splitlines()]
    found = {name: value for name, _, value in queuemetrics._samples(lines, nodes)}
    assert found["regatta_queue_stuck"] == stuck
    assert found["regatta_queue_waiting"] + found["regatta_queue_holding"] == len(lines)
