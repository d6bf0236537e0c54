"""A rank that is lost in the middle of a training: all start again, by torchrun or by Ray, with the same weights."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from launching import PATIENCE, PROJECT, Ended, ended, ranks, start, weights

from workloads.common import training
from workloads.common.ranks import Ranks
from workloads.common.ray import train

pytestmark = pytest.mark.frameworks

DIGITS = ("-m", "workloads.digits", "--size=4000", "--epochs=30", "--seed=3")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3")
"""More than two: the order in which numbers of two are added does not matter."""
ALONE = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT)}


@pytest.fixture(scope="module")
def undisturbed() -> str:
    """The weights of torch ranks that nothing happens to."""
    first, *others = ranks(DIGITS, 3, **ALONE)
    assert [run.status for run in (first, *others)] == [0, 0, 0], first.err
    return weights(first)


def kept(folder: Path) -> tuple[str, ...]:
    return (f"--checkpoint={folder / 'saved-{run}.pt'}", "--checkpoint-every=1")


def one_killed(arguments: tuple[str, ...], environment: dict[str, str], is_rank: Callable[[Path], bool]) -> Ended:
    """Run, and kill a rank when the second epoch has ended."""
    process = start(arguments, environment)
    assert process.stdout is not None
    before = []
    for line in process.stdout:
        before.append(line)
        if '"what":"epochs","done":2,' in line:
            break
    ranks = [folder for folder in Path("/proc").glob("[0-9]*") if is_rank(folder)]
    assert ranks, "".join(before)
    os.kill(int(ranks[-1].name), signal.SIGKILL)
    after = ended(process, PATIENCE)
    return Ended(after.status, "".join(before) + after.out, after.err)


def has(folder: Path, variables: Mapping[str, str]) -> bool:
    """Whether a process was started with these variables."""
    try:
        found = (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return all(f"{name}={value}".encode() in found for name, value in variables.items())


@pytest.mark.whole  # on hosts: tests/lab/faults/test_fault_ranks.py
def test_torchrun_starts_lost_ranks_again(undisturbed: str, tmp_path: Path) -> None:
    mark = {"REGATTA_RUN_ID": f"killed-{os.getpid()}", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    words = (*TORCHRUN, "--max-restarts=1", *DIGITS, *kept(tmp_path))
    run = one_killed(words, mark, lambda folder: has(folder, {**mark, "RANK": "1"}))
    assert run.status == 0, run.err
    assert weights(run) == undisturbed
    assert (tmp_path / f"saved-{mark['REGATTA_RUN_ID']}.pt").is_file()
    assert len(run.of("progress", 0)) <= 31, "the training started again"


@pytest.mark.whole  # on hosts: tests/lab/faults/test_fault_ranks.py
def test_ray_starts_lost_ranks_again(undisturbed: str, tmp_path: Path, ray_cluster: dict[str, str]) -> None:
    def is_rank(folder: Path) -> bool:
        mark = {"RAY_AUTH_TOKEN_PATH": ray_cluster["RAY_AUTH_TOKEN_PATH"]}
        try:
            return b"RayTrainWorker" in (folder / "cmdline").read_bytes() and has(folder, mark)
        except OSError:
            return False

    environment = {**ray_cluster, "REGATTA_WORKERS": "3", "REGATTA_SCRATCH": str(tmp_path)}
    words = (*DIGITS, "--framework=ray", "--restarts=1", *kept(tmp_path))
    run = one_killed(words, environment, is_rank)
    assert run.status == 0, run.err
    assert weights(run) == undisturbed
    assert len(run.of("progress", 0)) <= 31, "the training started again"


def test_fewer_ranks_go_on_from_the_checkpoint_of_more(tmp_path: Path) -> None:
    def run(world: int, epochs: int, *words: str, place: Path = tmp_path) -> Ended:
        digits = ("-m", "workloads.digits", "--size=2000", f"--epochs={epochs}", "--seed=3", "--batch=64")
        keeping = (f"--checkpoint={place / 'saved.pt'}", "--checkpoint-every=1")
        first, *others = ranks([*digits, *keeping, *words], world)
        assert {one.status == 0 for one in others} == {first.status == 0}
        return first

    (tmp_path / "other").mkdir()
    undisturbed = run(3, 6, "--elastic=3", place=tmp_path / "other").of("result")[0]["answer"]
    assert run(3, 3, "--elastic=3").status == 0
    refused = run(2, 6)
    assert refused.status != 0
    assert "ranks is 3, here 2" in refused.of("error")[0]["message"]
    fewer = run(2, 6, "--elastic=3")
    assert fewer.status == 0, fewer.err
    assert [event["done"] for event in fewer.of("progress", 0)] == [4, 5, 6]
    answer = fewer.of("result")[0]["answer"]
    for name in ("accuracy", "losses"):
        assert answer[name] == pytest.approx(undisturbed[name], abs=training.TOLERANCE[name])


def test_a_step_has_as_many_rows_with_fewer_ranks() -> None:
    meant = training.Schedule(1, 64, 0.01, 0, 0, None, 0, 1, elastic=6)
    for world, batch in ((6, 64), (4, 96), (5, 77), (1, 384)):
        assert training.shared_out(meant, Ranks(0, world)).batch == batch
        assert training.growth(meant, Ranks(0, world)) == 6
    assert training.shared_out(replace(meant, elastic=0), Ranks(0, 4)).batch == 64


def test_the_rank_that_was_lost_is_named_before_those_that_noticed() -> None:
    from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError
    from ray.train.v2.api.exceptions import WorkerGroupError

    lost = WorkerHealthCheckFailedError("A worker health check failed.", failure=RuntimeError("the actor died"))
    found = train.explained(WorkerGroupError("two ranks", {0: RuntimeError("connection reset by peer"), 1: lost}))
    assert found.rank == 1 and "the actor died" in str(found)
