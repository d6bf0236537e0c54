"""A program uses a cluster, here this machine: runs that it starts, follows, ends, and whose files it brings."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regatta.api.cluster import Cluster
from regatta.api.run import Line
from regatta.errors import RunError, RunFailedError, UsageError
from regatta.records.store import Store

JOB = """\
import os, sys, time
print("rank", os.environ["RANK"], *sys.argv[1:], flush=True)
with open("said.txt", "w") as file:
    file.write("made")
if "wait" in sys.argv:
    time.sleep(120)
sys.exit(int(sys.argv[1]) if sys.argv[1:] else 0)
"""


CARD = """\
[workloads.tiles]
about = "Says how many tiles it has"
command = "tiles.py"
frameworks = ["single", "torch"]
options = { tiles = { kind = "whole number", least = 1, help = "so many" } }
"""
TILES = "import os, sys; print(*sys.argv[1:], os.environ.get('SAYS', ''))\n"
SETTLE_SECONDS = 15.0
"""For what is just ending."""
MOST_MB = 10
"""So much more memory a program may have after many runs than after some at once."""


@pytest.fixture
def cluster(here: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    (source / "job.py").write_text(JOB)
    monkeypatch.chdir(source)
    with Cluster(here) as made:
        yield made


def open_now() -> tuple[int, int]:
    """Descriptors and threads of this process."""
    return len([*Path("/proc/self/fd").iterdir()]), threading.active_count()


def more_than(before: tuple[int, int]) -> bool:
    """Whether more is open now; of the run before that something may have been ending still."""
    return any(now > then for now, then in zip(open_now(), before, strict=True))


def resident_mb() -> float:
    """Memory of this process."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def test_a_run_is_started_followed_recorded_and_its_files_come(cluster: Cluster, tmp_path: Path) -> None:
    run = cluster.start("job.py", ["0"], workers=2, name="first")
    assert run.id == "first" and sorted(line.text for line in run.follow()) == ["rank 0 0", "rank 1 0"]
    record = run.wait()
    assert record.exit.state == "succeeded" and [rank.rank for rank in record.ranks] == [0, 1]
    assert cluster.records() == [record] == list(Store(tmp_path / "results").list().records)
    assert {*cluster.find("fir").logs()} == {Line("here", 0, "rank 0 0"), Line("here", 1, "rank 1 0")}
    assert (run.fetch("*.txt", to=tmp_path / "there") / "said.txt").read_text() == "made"
    assert [info.run for info in cluster.runs()] == ["first"] and run.info.state == "succeeded"
    assert [node.node.name for node in cluster.status().nodes] == ["here"] == list(cluster.nodes)


@pytest.mark.parametrize(
    ("turns", "at_once"), [(2, 3), pytest.param(200, 20, marks=[pytest.mark.whole, pytest.mark.timeout(1200)])]
)
def test_many_in_turn_and_several_at_once_leave_nothing_open(cluster: Cluster, turns: int, at_once: int) -> None:
    cluster.run("job.py", workers=1)
    before = open_now()
    _several(cluster, at_once)
    memory = resident_mb()
    for _ in range(turns):
        cluster.run("job.py", workers=1)
    assert resident_mb() < memory + MOST_MB
    _several(cluster, at_once)
    memory = resident_mb()  # several at once read the states of all runs before: that takes memory, but only once
    _several(cluster, at_once)
    until = time.monotonic() + SETTLE_SECONDS
    while more_than(before) and time.monotonic() < until:
        time.sleep(0.05)
    assert not more_than(before) and resident_mb() < memory + MOST_MB
    assert [record.exit.state for record in cluster.records()].count("cancelled") == 3 * at_once


def _several(cluster: Cluster, at_once: int) -> None:
    """So many runs at once, which are cancelled while they are open."""
    going = [cluster.start("job.py", ["0", "wait"], workers=1, now=True) for _ in range(at_once)]
    assert {run.info.state for run in going} == {"running"}
    with pytest.raises(TimeoutError):
        going[0].wait(timeout=0.1)
    first = next(iter(going[0].follow()))
    assert first.text == "rank 0 0 wait", "who stops reading in the middle leaves nothing"
    for run in going:
        run.cancel()
    for run in going:
        with pytest.raises(RunFailedError, match="was cancelled"):
            run.wait()


def test_a_run_within_a_run_does_not_wait_for_it(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    around = cluster.start("job.py", ["0", "wait"], workers=1, name="around")
    monkeypatch.setenv("REGATTA_RUN_ID", "around")
    with pytest.raises(UsageError, match="a part of around"):
        cluster.start("job.py", workers=1)
    around.cancel()
    with pytest.raises(RunFailedError, match="was cancelled"):
        around.wait()


def test_a_run_that_fails_has_its_code_and_a_record(cluster: Cluster) -> None:
    with pytest.raises(RunFailedError, match="exited with code 3") as error:
        cluster.run("job.py", ["3"], workers=1)
    assert error.value.exit_code == 3
    (record,) = cluster.records()
    assert record.exit.state == "failed"
    with pytest.raises(RunError, match="not running"):
        cluster.find("last").cancel()


def test_bad_input_is_refused_before_anything_starts(cluster: Cluster) -> None:
    for options, said in (
        ({"worker": 1}, r"there is no option worker of a run: there are workers"),
        ({"workers": 0}, "workers: must be a whole number of at least 1, not 0"),
        ({"inventory": "x"}, "no option inventory"),
        ({"restarts": True}, "restarts: must be a whole number"),
        ({"detach": True}, r"put into the queue by submit\(\)"),
        ({"sweep": ["lr=1,2"]}, "no option sweep"),
    ):
        with pytest.raises(UsageError, match=said):
            cluster.run("job.py", **options)
    with pytest.raises(UsageError, match="--detach needs a cluster of hosts"):
        cluster.submit("job.py", workers=1)
    with pytest.raises(UsageError, match=r"no script nojob\.py"):
        cluster.run("nojob.py")
    assert cluster.runs() == []


@pytest.fixture
def tiles(cluster: Cluster) -> Cluster:
    Path("regatta.toml").write_text(CARD)
    Path("tiles.py").write_text(TILES)
    return cluster


def test_a_workload_runs_by_its_name_with_its_cards_options(tiles: Cluster) -> None:
    record = tiles.run_workload("tiles", tiles=3, workers=2, name="two", env=["SAYS=x"])
    assert (record.identity.workload, record.identity.framework, len(record.ranks)) == ("tiles", "torch", 2)
    assert record.identity.parameters["options"] == ["--tiles=3"] and record.series is None
    run = tiles.start_workload("tiles", framework="single", tiles=1)
    assert run.wait().identity.framework == "single"
    assert {line.text for line in tiles.find("two").logs()} == {"--tiles=3 x"}


def test_a_workload_is_compared_under_several_frameworks_in_turns(tiles: Cluster) -> None:
    found = tiles.compare("tiles", framework="single,torch", repeats=2, workers=1, tiles=2)
    assert {name: len(records) for name, records in found.items()} == {"single": 2, "torch": 2}
    series = [record.series for records in found.values() for record in records]
    assert len({one.label for one in series if one}) == 1 and [one.index for one in series if one] == [1, 2, 1, 2]


def test_what_a_card_does_not_take_is_refused(tiles: Cluster) -> None:
    for options, said in (
        ({"tiles": 0}, "tiles must be at least 1, not 0"),
        ({"tile": 1}, r"no option tile of a run: there are .*workers.*tiles"),
        ({"restarts": 1}, "no option restarts"),
        ({"framework": "single,torch"}, "one framework"),
        ({"framework": "ray"}, "does not run under ray"),
        ({"detach": True}, r"submit\(\)"),
    ):
        with pytest.raises(UsageError, match=said):
            tiles.run_workload("tiles", **options)
    with pytest.raises(UsageError, match="no workload 'tile', did you mean tiles"):
        tiles.run_workload("tile")
    assert tiles.runs() == []


def test_waiting_for_a_run_of_another_ends_in_time_or_with_its_record(cluster: Cluster) -> None:
    cluster.start("job.py", ["0", "wait"], workers=1, name="long")
    another = cluster.find("long")
    with pytest.raises(TimeoutError, match="long is still running"):
        another.wait(timeout=0.1)
    another.cancel()
    with pytest.raises(RunFailedError, match="was cancelled"):
        another.wait()
