"""Workloads of items: the same answer however they are spread, and what goes wrong with an item or a worker."""

from __future__ import annotations

import pytest
from launching import Ended, python

from workloads.graph_of_tasks.rayobjects import smallest_store

pytestmark = pytest.mark.frameworks

PERFECT = ("-m", "workloads.perfect")
SMALL = ("--below=1000", "--chunk=50")
HERE = ("single", "multiprocessing", "processes", "joblib-loky")
IN_RAY = ("ray", "ray-actors", "ray-pool", "joblib-ray")


def perfect(name: str, *words: str, **environment: str) -> Ended:
    """Run `workloads.perfect` under a framework with two workers."""
    return python(*PERFECT, f"--framework={name}", *SMALL, *words, REGATTA_WORKERS="2", **environment)


@pytest.mark.parametrize("name", HERE)
def test_the_answer_does_not_depend_on_who_does_what(name: str) -> None:
    _the_same(name, perfect(name))


@pytest.mark.parametrize("name", IN_RAY)
def test_nor_does_it_under_ray(name: str, ray_cluster: dict[str, str]) -> None:
    _the_same(name, perfect(name, **ray_cluster))


def _the_same(name: str, run: Ended) -> None:
    assert run.status == 0, run.err
    assert run.answer == {"below": 1000, "perfect": [6, 28, 496]}
    driver = 0 if name == "single" else -1
    assert [event["rank"] for event in run.of("ready")] == [driver]
    assert [event["name"] for event in run.of("phase", driver)][-1] == "compute"
    progress = run.of("progress", driver)[-1]
    assert (progress["what"], progress["done"], progress["total"]) == ("items", 999, 999)
    told = {event["rank"] for event in run.of("cpu")}
    assert driver in told and told <= {-1, 0, 1} and (name == "single" or 0 in told)


@pytest.mark.parametrize("method", ["loop", "numba", "sieve"])
def test_methods_of_perfect_agree(method: str) -> None:
    run = python(*PERFECT, "--below=500", f"--method={method}")
    assert run.answer == {"below": 500, "perfect": [6, 28, 496]}


@pytest.mark.parametrize("method", ["loop", "numba", "numpy"])
@pytest.mark.parametrize(("shape", "products", "total"), [("cube", 1000, 166375), ("triangular", 220, 39325)])
def test_the_cube(method: str, shape: str, products: int, total: int) -> None:
    assert total == sum(
        i * j * k
        for i in range(1, 11)
        for j in range(1, (10 if shape == "cube" else i) + 1)
        for k in range(1, (10 if shape == "cube" else j) + 1)
    )
    run = python("-m", "workloads.cube", "--edge=10", f"--shape={shape}", f"--method={method}")
    assert run.answer == {"edge": 10, "shape": shape, "products": products, "sum": total}


@pytest.mark.parametrize("method", ["loop", "numba", "numpy"])
def test_pi_depends_on_seed_and_block_and_on_no_spread(method: str) -> None:
    words = ("-m", "workloads.pi", "--samples=50001", "--block=1000", f"--method={method}")
    alone = python(*words)
    assert abs(alone.answer["pi"] - 3.14159265) < 0.05
    spread = python(*words, "--framework=multiprocessing", "--chunk=7", REGATTA_WORKERS="3")
    assert spread.answer == alone.answer
    assert python(*words, "--seed=1").answer != alone.answer
    assert python(*words, "--block=999").answer != alone.answer


@pytest.mark.parametrize("name", ["single", "multiprocessing"])
def test_seven_additions_as_chain_and_tree(name: str) -> None:
    words = ("-m", "workloads.graph_of_tasks", f"--framework={name}", "--seconds=0.05")
    run = python(*words, REGATTA_WORKERS="4")
    assert run.status == 0, run.err
    _graphs(run)


def test_graphs_objects_and_actors_of_ray(ray_cluster: dict[str, str]) -> None:
    words = ("--framework=ray", "--seconds=0.05", "--calls=20", "--largest-mb=100000")
    run = python("-m", "workloads.graph_of_tasks", *words, **ray_cluster)
    assert run.status == 0, run.err
    _graphs(run)
    phases = {event["name"] for event in run.of("phase")}
    assert {"tasks", "task-latency", "actor-calls", "put-1-kb", "get-16-kb", "wait-256-kb"} <= phases
    assert "does not hold two" in run.of("result")[0]["show"][-1]


def _graphs(run: Ended) -> None:
    assert run.answer == {"chain": 36, "tree": 36}
    assert {"chain", "tree", "compute"} <= {event["name"] for event in run.of("phase")}


def test_the_room_for_an_object_is_that_of_the_nodes_that_are_there() -> None:
    gone, small, large = ({"Alive": size > 1, "Resources": {"object_store_memory": float(size)}} for size in (1, 2, 3))
    assert smallest_store([gone, large, small, {"Alive": True, "Resources": {"object_store_memory": 4.0}}]) == 2
    assert smallest_store([gone]) == 0


def test_graphs_are_of_some_frameworks() -> None:
    run = python("-m", "workloads.graph_of_tasks", "--framework=torch")
    assert run.status == 2 and "torch runs no graphs, single, multiprocessing, ray do" in run.of("error")[0]["message"]
