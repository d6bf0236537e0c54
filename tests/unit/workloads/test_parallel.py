"""Ranks that share a training asynchronously or as a pipeline, compared with one that does all."""

from __future__ import annotations

import itertools
import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import sharing
import torch
from launching import Ended, python, ranks, weights
from torch import nn

from workloads.common import training
from workloads.common.events import BadInput
from workloads.common.networks import named as networks
from workloads.common.parallel import asynchronous, layers, named, server
from workloads.common.ranks import Ranks

pytestmark = pytest.mark.frameworks

PROGRAM = "tests/unit/workloads/sharing.py"
IMAGES = ("-m", "workloads.images", "--size=200", "--epochs=2", "--batch=16", "--seed=5")


def shared(world: int, **given: Any) -> list[Ended]:
    """The training of sharing.py on so many torch ranks."""
    return ranks([PROGRAM, "torch", json.dumps(given)], world)


def answer(world: int, **given: Any) -> dict[str, Any]:
    runs = shared(world, **given)
    assert [run.status for run in runs] == [0] * world, runs[0].err + runs[-1].err
    return runs[0].answer


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """All weights, and what they came to, are equal up to rounding."""
    assert one["state"].keys() == other["state"].keys()
    for name, values in one["state"].items():
        if not name.endswith("num_batches_tracked"):
            assert other["state"][name] == pytest.approx(values, abs=1e-5), name
    for name in ("losses", "test_loss", "weights", "right"):
        assert other[name] == pytest.approx(one[name], abs=1e-4), name


@pytest.mark.parametrize(
    ("world", "given"),
    [
        pytest.param(2, {"batch": 16, "norm": True, "test_every": 1}, id="batch-normalisation"),
        pytest.param(3, {"batch": 8, "microbatches": 2, "scale_batch": 0}, id="few-parts", marks=pytest.mark.whole),
        pytest.param(3, {"batch": 8, "frozen": 4}, id="frozen-layers", marks=pytest.mark.whole),
    ],
)
def test_a_pipeline_has_the_weights_of_one_process(world: int, given: dict[str, Any]) -> None:
    whole = {**given, "batch": given["batch"] * world, "scale_batch": world if "scale_batch" in given else None}
    runs, several = shared(1, parallel="pipeline", **whole), shared(world, parallel="pipeline", **given)
    assert [run.status for run in several] == [0] * world, several[0].err + several[-1].err
    assert all(seen(run) == seen(runs[0]) for run in several), "accuracy over time"
    alone, piped = runs[0].answer, several[0].answer
    same(alone, piped)
    every = alone["kept"][0]
    assert sum(piped["kept"]) == every and max(piped["kept"]) < every, "a rank has other ranks' layers"


def seen(run: Ended) -> list[tuple[int, float]]:
    return [(one["done"], one["accuracy"]) for one in run.of("progress") if one["what"] == "accuracy"]


@pytest.mark.parametrize(
    ("world", "given", "said"),
    [
        (2, {"microbatches": 5}, "--microbatches 5: a step has 32 rows .*take a number that divides them"),
        (4, {}, r"4 ranks for the 2 layers of this network \(Linear, Linear\), .*take fewer --workers"),
        (1, {"accumulate": 2}, "--accumulate 2: under --parallel pipeline"),
    ],
)
def test_what_a_pipeline_cannot_take(world: int, given: dict[str, Any], said: str) -> None:
    schedule = named.Schedule(**{**sharing.DEFAULTS, "parallel": "pipeline", **given})
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = (torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))
    loss = nn.functional.cross_entropy
    work = training.Work(model, optimizer, loss, lambda rows: batch, 9, schedule, Ranks(0, world))
    with pytest.raises(BadInput, match=said):
        named.way(schedule).fit(work)


@pytest.mark.parametrize(("world", "staleness"), [(2, 0), pytest.param(3, 2, marks=pytest.mark.whole)])
def test_asynchronous_ranks_learn_and_are_bounded(world: int, staleness: int) -> None:
    asked = {"epochs": 8, "test_every": 4, "batch": 8, "learning_rate": 0.03}
    runs = shared(world, parallel="async", staleness=staleness, norm=True, **asked)
    assert [run.status for run in runs] == [0] * world, runs[0].err
    made = runs[0].answer
    assert made["accuracy"] > 0.8 and made["losses"][-1] < made["losses"][0] / 2 and len(made["losses"]) == 8
    assert 0 <= made["staleness"]["mean"] <= made["staleness"]["most"] <= (world - 1) * (2 * staleness + 1)
    assert [epoch for epoch, _ in seen(runs[0])] == [4, 8]


def test_gradients_are_sent_in_fewer_bytes() -> None:
    asked = {"batch": 8, "epochs": 6, "learning_rate": 0.03}
    made, sent = {}, {}
    for compress in ("none", "bf16", "powersgd"):
        runs = shared(2, parallel="sync", compress=compress, **asked)
        assert [run.status for run in runs] == [0, 0], runs[0].err
        made[compress] = runs[0].answer
        (told,), (other,) = (run.of("exchanged") for run in runs)
        assert told["sent_bytes"] == other["sent_bytes"] and told["times"] == 1 + 6 * 7
        phases = {one["name"]: one["seconds"] for one in runs[1].of("phase")}
        assert 0 < phases["exchange"] < phases["compute"]
        sent[compress] = told["sent_bytes"]
    assert sent["bf16"] * 2 == sent["none"] and sent["powersgd"] < 0.7 * sent["none"]
    for name, differ in (("bf16", 0.02), ("powersgd", 0.3)):
        assert made[name]["losses"] == pytest.approx(made["none"]["losses"], abs=differ)
        assert made[name]["state"] != made["none"]["state"], f"{name} changed nothing"
        assert made[name]["losses"][-1] < made[name]["losses"][0] / 2


@pytest.mark.whole
def test_one_asynchronous_rank_is_one_process() -> None:
    alone, one = answer(1, parallel="sync"), answer(1, parallel="async")
    assert one.pop("staleness") == {"mean": 0, "most": 0}
    assert one == alone


@pytest.mark.parametrize(
    ("parallel", "dies"),
    [
        ("async", 1),
        pytest.param("async", 0, marks=pytest.mark.whole),
        pytest.param("pipeline", 0, marks=pytest.mark.whole),
        pytest.param("pipeline", 2, marks=pytest.mark.whole),
    ],
)
def test_a_rank_that_dies_ends_the_others(parallel: str, dies: int) -> None:
    runs = shared(3, parallel=parallel, dies=dies, epochs=1000, microbatches=2, batch=8, at=12)
    assert [run.status for run in runs] == [-signal.SIGKILL if rank == dies else 1 for rank in range(3)]
    if parallel == "async" and dies:
        assert f"rank {dies}: " in runs[0].err


@pytest.mark.whole
def test_ray_train_gives_a_pipeline_the_weights_of_torch(tmp_path: Path, ray_cluster: dict[str, str]) -> None:
    words = (*IMAGES, "--parallel=pipeline", "--test-every=1")
    first, other = ranks(words, 2, TMPDIR=str(tmp_path))
    assert (first.status, other.status) == (0, 0), first.err + other.err
    run = python(*words, "--framework=ray", **ray_cluster, REGATTA_WORKERS="2", REGATTA_SCRATCH=str(tmp_path))
    assert run.status == 0, run.err
    assert weights(run) == weights(first) and run.answer == first.answer
    assert {one["rank"] for one in run.of("progress")} == {0, 1}


@pytest.mark.whole
def test_asynchronous_ranks_of_ray_train(tmp_path: Path, ray_cluster: dict[str, str]) -> None:
    words = (*IMAGES, "--parallel=async", "--data=handwritten", "--learning-rate=0.05")
    run = python(*words, "--framework=ray", **ray_cluster, REGATTA_WORKERS="2", REGATTA_SCRATCH=str(tmp_path))
    assert run.status == 0, run.err
    assert run.answer["accuracy"] > 0.7 and 0 < run.answer["staleness"]["most"] <= 9


def test_ranks_wait_for_the_slowest() -> None:
    weight = nn.Parameter(torch.zeros(3))
    made = server.Server(torch.optim.SGD([weight], lr=1.0), 2, 1, lambda number: 0.5**number)
    for _ in range(2):
        made.pull(0)
        made.push(0, torch.ones(3))
    begun = threading.Event()
    ahead = threading.Thread(target=lambda: (made.pull(0), begun.set()))
    ahead.start()
    assert not begun.wait(0.2), "it is two steps ahead of rank 1, and began a third"
    old = made.pull(1)
    made.push(1, torch.ones(3))
    ahead.join(60)
    assert begun.is_set()
    assert old.tolist() == [-1.5] * 3 and weight.tolist() == [-1.75] * 3
    assert (made.stale.count, made.stale.total, made.stale.most) == (3, 0, 0)
    made.push(0, torch.ones(3))
    made.push(1, torch.ones(3))
    assert (made.stale.total, made.stale.most) == (2, 2), "rank 1 had read before the third and the fourth"
    made.fail(RuntimeError("rank 1: gone"))
    with pytest.raises(RuntimeError, match="rank 1: gone"):
        made.pull(0)


def test_ranks_meet_where_the_model_is_tested() -> None:
    schedule = named.Schedule(**{**sharing.DEFAULTS, "parallel": "async", "epochs": 5, "test_every": 2})
    assert asynchronous.legs(schedule) == [range(2), range(2, 4), range(4, 5)]


def test_stages_cost_alike() -> None:
    assert layers.cut([1, 1, 1, 1], 2) == [range(2), range(2, 4)]
    assert layers.cut([8, 1, 1, 1], 3) == [range(1), range(1, 2), range(2, 4)]
    for costs in itertools.product((1, 2, 5), repeat=5):
        dearest = max(sum(costs[place] for place in stage) for stage in layers.cut(costs, 3))
        every = [(costs[:a], costs[a:b], costs[b:]) for a, b in itertools.combinations(range(1, 5), 2)]
        assert dearest == min(max(map(sum, stages)) for stages in every)
    with pytest.raises(ValueError, match="3 stages of 2 layers"):
        layers.cut([1, 1], 3)


@pytest.mark.parametrize(("name", "count"), [("resnet18", 11), ("mobilenetv2", 20)])
def test_layers_of_the_networks(name: str, count: int) -> None:
    network = networks.make(name, 10, small=False)
    before = training.checksum(network)
    found = layers.of(network, torch.randn(1, 3, 64, 64))
    assert len(found) == count and training.checksum(network) == before and network.training
    assert found[-1].gives.shape == (0, 10) and all(layer.cost > 0 for layer in found)


def test_weights_outside_of_all_layers_are_a_fault() -> None:
    class Odd(nn.Sequential):
        def layers(self) -> list[nn.Module]:
            return [self[0]]

    with pytest.raises(ValueError, match="Odd"):
        layers.of(Odd(nn.Linear(2, 2), nn.Linear(2, 2)), torch.zeros(1, 2))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--staleness=-1",), "--staleness: -1 is less than 0"),
        (("--microbatches=0",), "--microbatches: 0 is less than 1"),
        (("--parallel=async", "--checkpoint=x", "--checkpoint-every=1"), "leave it out of --parallel async"),
        (("--parallel=pipeline", "--elastic=2"), "leave it out of --parallel pipeline"),
    ],
)
def test_bad_options(words: tuple[str, ...], said: str) -> None:
    run = python(*IMAGES, *words)
    assert run.status == 2 and said in run.of("error")[0]["message"]


def test_asynchronous_runs_may_differ_by_how_fast_losses_fall_at_first() -> None:
    own = {"accuracy": 0.1, "losses": 0.2, "weights": 2.0}
    made = {
        way: named.tolerance(named.Schedule(**{**sharing.DEFAULTS, "parallel": way}), own) for way in ("sync", "async")
    }
    assert made["sync"] == own
    assert made["async"]["accuracy"] == 0.1 and 0.35 < made["async"]["losses"] < 1.2
