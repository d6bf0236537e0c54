"""The engine against a dense solve, networkx and torch-ppr, and against itself however it is spread."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from workloads.common.events import BadInput
from workloads.ppr import cg, graph, power, push, reference, rmat
from workloads.ppr.dialect import How
from workloads.ppr.part import highest

ALPHA = 0.15
TIGHT = 1e-12
MANY = 10_000
ROUNDING = 2**-6
"""A step of the walk sends 8 significant bits of a change."""


def made(folder: Path, edges: Sequence[tuple[int, int]], undirected: bool = False, head: str = "") -> graph.Graph:
    path = folder / "g.txt"
    path.write_text(head + "".join(f"{a} {b}\n" for a, b in edges))
    return graph.build(path, undirected, how=How(first_line="edge"))


def scores(
    built: graph.Graph, sources: Sequence[int], tolerance: float = TIGHT, engine: ModuleType = power
) -> NDArray[np.float64]:
    """Scores (k, n), by position."""
    found = dict(engine.solve(built, np.array(sources), ALPHA, tolerance, MANY))
    return np.array([found[position].scores for position in range(len(sources))])


def dense(edges: Sequence[tuple[int, int]], ids: Sequence[int], source: int, undirected: bool) -> NDArray[np.float64]:
    """Solve (I - (1 - alpha) (P + e_s d^T)) x = alpha e_s."""
    place = {node: number for number, node in enumerate(ids)}
    counts = np.zeros((len(ids), len(ids)))
    for a, b in edges:
        counts[place[b], place[a]] += 1
        if undirected:
            counts[place[a], place[b]] += 1
    degrees = counts.sum(axis=0)
    steps = counts / np.where(degrees > 0, degrees, 1)
    steps[source] += degrees == 0
    home = np.zeros(len(ids))
    home[source] = ALPHA
    return np.linalg.solve(np.eye(len(ids)) - (1 - ALPHA) * steps, home)


def random_edges(seed: int, nodes: int = 40, edges: int = 90) -> list[tuple[int, int]]:
    """Random multigraph with dangling nodes and self-loops, ids far apart."""
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(10**6, nodes, replace=False))
    sources = rng.integers(0, nodes * 2 // 3, edges)
    targets = rng.integers(0, nodes, edges)
    pairs = [(int(ids[a]), int(ids[b])) for a, b in zip(sources, targets, strict=True)]
    return [*pairs, pairs[0], pairs[0], (pairs[1][0], pairs[1][0])]


GRAPHS = {
    "random 0": random_edges(0),
    "random 1": random_edges(1, 60, 60),
    "random 2": random_edges(2, 25, 300),
    "one node": [(5, 5)],
    "one edge": [(3, 9)],
    "path": [(0, 1), (1, 2), (2, 3)],
    "two parts": [(0, 1), (1, 0), (5, 6)],
    "64 bits": [(0, 2**64 - 1), (2**64 - 1, 2**63), (2**63, 0), (0, 2**63)],
}


@pytest.mark.parametrize(("engine", "undirected"), [(power, False), (power, True), (cg, True)])
@pytest.mark.parametrize("name", GRAPHS)
def test_equals_a_dense_solve(tmp_path: Path, name: str, engine: ModuleType, undirected: bool) -> None:
    edges = GRAPHS[name]
    built = made(tmp_path, edges, undirected)
    ids = sorted({node for edge in edges for node in edge})
    assert built.ids.tolist() == ids
    assert (built.nodes, built.edges) == (len(ids), len(edges))
    found = scores(built, range(built.nodes), engine=engine)
    for source in range(built.nodes):
        assert np.abs(found[source] - dense(edges, ids, source, undirected)).sum() < 1e-10
        assert abs(found[source].sum() - 1) < 1e-12


@pytest.mark.parametrize("name", GRAPHS)
def test_equals_networkx(tmp_path: Path, name: str) -> None:
    edges = GRAPHS[name]
    built = made(tmp_path, edges)
    graph_of_networkx = nx.MultiDiGraph(edges)
    found = scores(built, range(built.nodes))
    for source, node in enumerate(built.ids.tolist()):
        ranks = nx.pagerank(graph_of_networkx, 1 - ALPHA, personalization={node: 1}, tol=1e-14, max_iter=MANY)
        assert found[source] == pytest.approx([ranks[other] for other in built.ids.tolist()], abs=1e-9)


@pytest.mark.parametrize("name", GRAPHS)
def test_undirected_equals_torch_ppr(tmp_path: Path, name: str) -> None:
    built = made(tmp_path, GRAPHS[name], undirected=True, head="# node 77 alone\n")
    sources = np.arange(built.nodes)
    found = scores(built, sources.tolist())
    for position, solution in reference.solve(built, sources, ALPHA, 1e-11, MANY):
        assert torch.get_default_dtype() == torch.float32, "what others make of plain numbers stays as it is"
        assert np.abs(solution.scores - found[position]).sum() < 1e-8
        assert solution.residual < 1e-8


def test_the_error_is_bounded_by_the_residual(tmp_path: Path) -> None:
    built = made(tmp_path, GRAPHS["random 2"])
    exact = scores(built, [0, 1, 2])
    for position, solution in power.solve(built, np.arange(3), ALPHA, 1e-4, MANY):
        assert solution.residual <= 1e-4
        assert np.abs(solution.scores - exact[position]).sum() <= (1 - ALPHA) / ALPHA * solution.residual


@pytest.mark.parametrize("engine", [power, cg])
def test_an_answer_is_the_same_to_the_bit_in_any_company(tmp_path: Path, engine: ModuleType) -> None:
    built = made(tmp_path, random_edges(7, 500, 2000), undirected=engine is cg)
    sources = list(range(0, 57, 3))
    alone = [scores(built, [source], 1e-6, engine)[0].tobytes() for source in sources]
    for share in (2, 3, 5, 8, 9, len(sources)):
        for start in range(0, len(sources), share):
            together = scores(built, sources[start : start + share], 1e-6, engine)
            assert [row.tobytes() for row in together] == alone[start : start + share]


def test_the_order_of_lines_does_not_change_a_bit(tmp_path: Path) -> None:
    edges = random_edges(8, 100, 400)
    one = scores(made(tmp_path, edges), [0, 5])
    assert np.array_equal(one, scores(made(tmp_path, edges[::-1]), [0, 5]))


@pytest.mark.parametrize("engine", [power, cg])
def test_iterations_stop_at_the_limit(tmp_path: Path, engine: ModuleType) -> None:
    built = made(tmp_path, GRAPHS["random 2"], undirected=engine is cg)
    found = dict(engine.solve(built, np.arange(12), ALPHA, 1e-300, 3))
    assert len(found) == 12
    assert {solution.iterations for solution in found.values()} == {3}


def test_saved_and_mapped_is_the_same_graph_without_a_copy(tmp_path: Path) -> None:
    built = made(tmp_path, random_edges(3), head="# node 1000001 Zoë\n# node 1000003 b\n")
    built.save(tmp_path)
    mapped = graph.Graph.open(tmp_path)
    assert np.array_equal(scores(mapped, [0, 1]), scores(built, [0, 1]))
    assert not any(array.flags.owndata or array.flags.writeable for array in (mapped.columns, mapped.indptr))
    assert [mapped.name(place) for place in (0, mapped.nodes - 2, mapped.nodes - 1)] == [None, "Zoë", "b"]


@pytest.mark.parametrize("engine", [power, cg])
def test_threads_do_not_change_a_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: ModuleType) -> None:
    edges = random_edges(9, 5000, 150_000)
    found = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        built = made(tmp_path, edges, undirected=engine is cg)
        assert len(built.cuts) > 2
        found.append(scores(built, [0, 9, 77], 1e-6, engine))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("largest", [2**32 - 1, 2**32, 2**63, 2**64 - 1])
def test_ids_of_any_size(tmp_path: Path, largest: int) -> None:
    edges = [(0, largest), (largest, 7), (7, 0), (7, 7), (largest, largest - 1)]
    built = made(tmp_path, edges)
    ids = sorted({node for edge in edges for node in edge})
    assert built.ids.tolist() == ids
    for source, found in enumerate(scores(built, range(4))):
        assert np.abs(found - dense(edges, ids, source, undirected=False)).sum() < 1e-10


multigraphs = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=60)
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@few
@given(edges=multigraphs, undirected=st.booleans(), data=st.data())
def test_new_labels_for_the_nodes_are_the_same_answer(
    tmp_path: Path, edges: list[tuple[int, int]], undirected: bool, data: st.DataObject
) -> None:
    ids = sorted({node for edge in edges for node in edge})
    labels = dict(zip(ids, data.draw(st.permutations([node * 1000 + 3 for node in ids])), strict=True))
    one = made(tmp_path, edges, undirected)
    other = made(tmp_path, [(labels[a], labels[b]) for a, b in edges], undirected)
    moved = [other.find(str(labels[node])) for node in ids]
    assert np.abs(scores(one, [0])[0] - scores(other, [moved[0]])[0][moved]).max() < 1e-12


@few
@given(edges=multigraphs)
def test_an_answer_is_linear_in_where_the_walk_begins(tmp_path: Path, edges: list[tuple[int, int]]) -> None:
    built = made(tmp_path, edges, undirected=True)
    every = scores(built, range(built.nodes))
    for place, node in enumerate(built.ids.tolist()):
        neighbours = [b for a, b in edges if a == node] + [a for a, b in edges if b == node]
        after_a_step = np.mean([every[built.find(str(other))] for other in neighbours], axis=0)
        home = np.zeros(built.nodes)
        home[place] = ALPHA
        assert np.abs(every[place] - home - (1 - ALPHA) * after_a_step).sum() < 1e-10


@few
@given(edges=multigraphs, undirected=st.booleans())
def test_the_residual_never_grows(tmp_path: Path, edges: list[tuple[int, int]], undirected: bool) -> None:
    built = made(tmp_path, edges, undirected)
    residuals: list[float] = []
    list(power.solve(built, np.arange(1), ALPHA, 1e-9, MANY, lambda _, residual: residuals.append(residual)))
    for before, after in itertools.pairwise(residuals):
        assert after <= (1 - ALPHA + ROUNDING) * before + 1e-15


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-10])
def test_conjugate_gradients_keep_the_bound_of_the_walk_with_fewer_passes(tmp_path: Path, tolerance: float) -> None:
    built = made(tmp_path, random_edges(7, 500, 2000), undirected=True)
    exact = scores(built, range(20))
    walked = dict(power.solve(built, np.arange(20), ALPHA, tolerance, MANY))
    for position, solution in cg.solve(built, np.arange(20), ALPHA, tolerance, MANY):
        assert solution.residual <= tolerance
        assert np.abs(solution.scores - exact[position]).sum() <= 2 * solution.residual / ALPHA
        assert solution.scores.min() >= 0
        assert solution.iterations < walked[position].iterations


def test_conjugate_gradients_stay_where_rounding_has_left_nothing(tmp_path: Path) -> None:
    built = made(tmp_path, GRAPHS["random 2"], undirected=True)
    found = dict(cg.solve(built, np.arange(5), ALPHA, 1e-300, 400))
    exact = scores(built, range(5))
    assert all(np.abs(found[source].scores - exact[source]).sum() < 1e-11 for source in range(5))


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-9])
def test_pushing_keeps_its_bound(tmp_path: Path, name: str, undirected: bool, tolerance: float) -> None:
    path = tmp_path / "g.txt"
    path.write_text("".join(f"{a} {b}\n" for a, b in GRAPHS[name]))
    built = graph.build(path, undirected, forward=True, how=How(first_line="edge"))
    exact = scores(built, range(built.nodes))
    for position, solution in push.solve(built, np.arange(built.nodes), ALPHA, tolerance, MANY):
        assert solution.residual <= tolerance
        assert (solution.scores <= exact[position] + 1e-12).all()
        assert np.abs(solution.scores - exact[position]).sum() == pytest.approx(solution.residual, abs=1e-11)


def test_a_made_up_graph_is_what_its_edges_say(tmp_path: Path) -> None:
    nodes, count = 1000, 5000
    built = rmat.build(nodes, count, seed=3)
    edges = rmat.Edges(nodes, count, 3)[0].reshape(-1, 2)
    assert edges.max() < nodes
    text = made(tmp_path, [(int(a), int(b)) for a, b in edges])
    for field in ("ids", "numbers", "degrees", "indptr", "columns", "cuts"):
        assert np.array_equal(getattr(built, field), getattr(text, field)), field
    assert built.edges == count
    assert not np.array_equal(rmat.Edges(nodes, count, 4)[0], edges.ravel())


def test_a_prepared_graph_that_does_not_fit(tmp_path: Path) -> None:
    built = made(tmp_path, GRAPHS["path"])
    folder = tmp_path / "prepared"
    folder.mkdir()
    built.save(folder)
    assert graph.is_prepared(folder)
    assert not graph.is_prepared(tmp_path)
    assert np.array_equal(graph.open_prepared(folder, False).columns, built.columns)
    with pytest.raises(BadInput, match="without --undirected"):
        graph.open_prepared(folder, True)
    (folder / "columns.npy").write_bytes(b"")
    with pytest.raises(BadInput, match="make it again"):
        graph.open_prepared(folder, False)


def test_sources_by_id_and_by_name(tmp_path: Path) -> None:
    built = made(tmp_path, [(10, 20), (20, 30)], head="# node 10 ten\n# node 20 30\n# node 40 x y\n# node 50 ten b\n")
    assert [built.find(wanted) for wanted in ("10", "ten", "30", "x y", "ten b", "040")] == [0, 0, 2, 3, 4, 3]
    for unknown in ("11", "te", "en", "", str(2**64), "2²"):
        with pytest.raises(BadInput, match="is not in the graph"):
            built.find(unknown)
    twice = made(tmp_path, [(1, 2)], head="# node 1 same\n# node 2 same\n")
    with pytest.raises(BadInput, match="more than one node"):
        twice.find("same")


def test_highest_breaks_ties_by_id_and_leaves_out_zeros() -> None:
    values = np.array([0.1, 0.3, 0.0, 0.3, 0.1, 0.1, 0.0])
    assert highest(values, 3) == [1, 3, 0]
    assert highest(values, 4) == [1, 3, 0, 4]
    assert highest(values, 7) == highest(values, 99) == [1, 3, 0, 4, 5]
