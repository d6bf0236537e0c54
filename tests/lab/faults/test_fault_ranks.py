"""A rank ends in every way in which a process can; the person learns which, where and why."""

import re
from pathlib import Path

import pytest
from clusters import Cluster, finish
from faulty import begin, explained, new_name, nothing_left, strike, tell_rank, trained_and_kept, whole
from kernel import little_memory
from telling import Teller

BOTH = pytest.mark.parametrize("framework", ["torch", "ray"])
RAY_IN_CI = pytest.mark.parametrize("framework", [pytest.param("torch", marks=pytest.mark.whole), "ray"])


@pytest.mark.first
@BOTH
@pytest.mark.parametrize("number", ["KILL", pytest.param("SEGV", marks=pytest.mark.whole)], ids=["sigkill", "sigsegv"])
def test_a_rank_gets_a_signal(struck: Cluster, project: Path, tell: Teller, framework: str, number: str) -> None:
    tell.begin("rank", f"a rank gets SIG{number}", framework)
    run = begin(struck, project, framework)
    told = strike(run.process, lambda: struck.lab.ssh("node2", f"sudo kill -{number} {run.pids[1]}"))
    explained(told, "node2", f"rank 1 on node2: killed by SIG{number}")
    tell.end("the run ends everywhere", told.first, told.seconds)
    nothing_left(struck, project)


@RAY_IN_CI
@pytest.mark.parametrize(
    ("word", "fault", "said"),
    [
        pytest.param("exit", "a rank exits with 1", r"exited with code 1|os\._exit", marks=pytest.mark.whole),
        ("raise", "a rank raises an exception", "ValueError: the rank was told to fail"),
    ],
    ids=["exit", "raise"],
)
def test_a_rank_fails(
    struck: Cluster, project: Path, tell: Teller, framework: str, word: str, fault: str, said: str
) -> None:
    tell.begin("rank", fault, framework)
    run = begin(struck, project, framework)
    told = strike(run.process, lambda: tell_rank(struck, run, word))
    explained(told, "node2", said)
    assert told.code == 1
    assert "rank 1 on node2: " in told.first
    tell.end("the run ends everywhere", told.first, told.seconds)
    nothing_left(struck, project)


@BOTH
@pytest.mark.whole
def test_a_rank_runs_out_of_memory(struck: Cluster, project: Path, tell: Teller, framework: str) -> None:
    tell.begin("rank", "a rank takes too much memory, and the kernel kills it", framework)
    run = begin(struck, project, framework)
    with little_memory(struck.lab, "node2", run.pids[1], 400):
        told = strike(run.process, lambda: tell_rank(struck, run, "memory"))
    explained(told, "node2", "out of memory")
    tell.end("the run ends everywhere", told.first, told.seconds)
    nothing_left(struck, project)


@pytest.mark.whole  # tests/unit/workloads/test_restarts.py does so on one host
@BOTH
def test_a_lost_rank_starts_again_from_its_checkpoint(
    struck: Cluster, project: Path, tell: Teller, tmp_path: Path, framework: str
) -> None:
    tell.begin("rank", "a rank gets SIGKILL, `--restarts 1`", framework)
    name = new_name()
    words = ["run-digits", "--framework", framework, "--workers", "3", "--size", "3000", "--epochs", "12"]
    words += ["--checkpoint", "hdfs:///checkpoints/{run}.pt", "--restarts", "1", "--name", name]
    process = struck.background(project, *words)
    trained_and_kept(process)
    rank = "python -[u] -m workloads" if framework == "torch" else "ray::.*[R]ayTrainWorker"
    struck.lab.ssh("node3", f"sudo pkill -KILL -f '{rank}'")
    said = finish(process, 240)
    assert process.returncode == 0, said
    undisturbed = struck.fab(*words[:9], "--name", new_name(), results=tmp_path / "results")
    assert weights(said) == weights(undisturbed.stdout)
    tell.end("continues from its checkpoint, and ends with bit-identical weights")
    nothing_left(struck, project)
    whole(struck)


def weights(said: str) -> str:
    """The checksum of a training's weights, out of what was printed."""
    found = re.search(r"^weights (\w+)$", said, re.M)
    assert found, said
    return found[1]
