"""The answers of a report about studies: real runs (`tests/unit/records-study`), and others made of them."""

from collections.abc import Sequence
from pathlib import Path

import kept
import pytest
from msgspec import structs

from regatta.records.record import Record
from regatta.records.store import Store
from regatta.report import accuracy, curves, images, scaling, studies
from regatta.report.cases import cases
from regatta.report.drawing import Drawer
from regatta.report.studies import Study
from regatta.report.summary import summarise

FOLDER = Path(__file__).parent / "records-study"
SPREAD = [1.0, 1.02, 1.04, 1.06, 1.03, 1.05]


def records() -> list[Record]:
    found = Store(FOLDER).list()
    assert not found.broken
    return list(found.records)


def said(record: Record) -> tuple[str, int, bool]:
    """Its framework, its number of ranks, and whether its batch grows with them."""
    identity = record.identity
    grows = any(word.startswith("--scale-batch") for word in identity.parameters["options"])
    return identity.framework, identity.parameters["workers"], grows


def alone(record: Record) -> Record:
    """The run as if each rank had had its own node with cores, and one thread."""
    nodes = tuple(
        structs.replace(record.cluster.nodes[0], name=f"node{rank}", ranks=(rank,))
        for rank in range(len(record.cluster.rank_map))
    )
    speed = structs.replace(record.speed, threads=1)
    return structs.replace(record, speed=speed, cluster=structs.replace(record.cluster, nodes=nodes))


def repeated(times: dict[tuple[str, int, bool], float]) -> list[Record]:
    """Six repeats of each, of so many seconds more or less; those that are not named are left out."""
    return [
        seconds(kept.again(alone(record), f"{record.run_id}-{index}"), times[said(record)] * factor)
        for record in records()
        if said(record) in times
        for index, factor in enumerate(SPREAD)
    ]


def seconds(record: Record, total: float) -> Record:
    return structs.replace(record, phases=structs.replace(record.phases, total=total))


def study_of(some: Sequence[Record]) -> Study:
    (found,) = studies.studies(summarise(cases(some)))
    return found


def answers(some: Sequence[Record]) -> dict[str, str]:
    return dict(scaling.answers(study_of(some)))


FIXED, GROWS = False, True
BOTH = {("torch", 1, FIXED): 10.0, ("torch", 2, FIXED): 10.0, ("torch", 1, GROWS): 10.0, ("torch", 2, GROWS): 6.0}
ONLY = "Do more nodes help torch only with a batch that grows with them?"
SHARED = "Do more nodes help torch, with a batch of 32 rows that they share?"


def test_real_runs_are_one_study() -> None:
    found = study_of(records())
    assert found.title == "handwritten, model=perceptron, epochs=5, test-every=1"
    assert found.frameworks == ["torch"] and not found.synthetic
    assert [
        (s.grows, s.batch, s.scaled, [(p.configuration.workers, p.total) for p in s.points])
        for s in found.series("torch")
    ] == [
        (False, 32, False, [(1, 32), (2, 32)]),
        (True, 32, True, [(1, 32), (2, 64)]),
    ]
    told = answers(records())["Do more ranks help torch, with a batch of 32 rows that they share?"]
    assert told.startswith("2 ranks of 1 thread on 1 node took ") and "1 rank of 2 threads on 1 node" in told
    assert "not known, too few runs (1, 6 are needed)" in told
    assert studies.studies(summarise(cases(kept.records()))) == []


@pytest.mark.parametrize(
    ("fixed", "grown", "both"),
    [
        (10.0, 6.0, "Yes."),
        (7.0, 6.0, "No: they help with either."),
        (7.0, 12.0, "No: they help with a batch that they share."),
        (10.0, 12.0, "They are not shown to help with either."),
    ],
)
def test_whether_more_nodes_help_only_with_a_batch_that_grows(fixed: float, grown: float, both: str) -> None:
    told = answers(repeated({**BOTH, ("torch", 2, FIXED): fixed, ("torch", 2, GROWS): grown}))
    assert told[ONLY] == both
    grows = "Do more nodes help torch, with a batch that grows by 32 rows a rank, and the learning rate with them?"
    assert told[SHARED].startswith(f"2 ranks of 1 thread on 2 nodes took {fixed / 10:.2f} (")
    assert told[SHARED].endswith({7.0: "): yes.", 10.0: "): no difference shown."}[fixed])
    assert told[grows].endswith({6.0: "): yes.", 12.0: "): no, it takes longer."}[grown])


def of_four(record: Record) -> Record:
    """The run of two ranks as if there had been four, with half the rows each."""
    asked = dict(record.identity.parameters) | {"workers": 4}
    asked["options"] = [word.replace("--batch=16", "--batch=8") for word in asked["options"]]
    identity = structs.replace(record.identity, parameters=asked, run_id=f"{record.identity.run_id}-4")
    ranks = tuple(structs.replace(record.ranks[0], rank=number) for number in range(4))
    node = record.cluster.nodes[0]
    nodes = tuple(structs.replace(node, name=f"node{number}", ranks=(number,)) for number in range(4))
    cluster = structs.replace(record.cluster, nodes=nodes)
    return structs.replace(record, identity=identity, ranks=ranks, cluster=cluster)


@pytest.mark.parametrize(
    ("two", "four", "end"),
    [
        (6.0, 4.0, "More pay up to the most that were measured, 4 ranks of 1 thread on 4 nodes."),
        (6.0, 6.0, "More pay up to 2 ranks of 1 thread on 2 nodes: 4 ranks of 1 thread on 4 nodes took 1.00 "),
        (12.0, 8.0, "More pay up to 1 rank of 1 thread on 1 node: 2 ranks of 1 thread on 2 nodes took 1.20 "),
    ],
)
def test_up_to_how_many_nodes_more_pay(two: float, four: float, end: str) -> None:
    some = repeated({("torch", 1, FIXED): 10.0, ("torch", 2, FIXED): two})
    more = [seconds(of_four(run), run.phases.total * four / two) for run in some if len(run.cluster.rank_map) == 2]
    assert end in answers([*some, *more])[SHARED]


def on_one_node(record: Record, cores: int) -> Record:
    """The run with all its ranks on one node of so many cores."""
    (node, *_) = record.cluster.nodes
    whole = structs.replace(node, ranks=tuple(range(len(record.cluster.rank_map))), cores=cores)
    return structs.replace(record, cluster=structs.replace(record.cluster, nodes=(whole,)))


def test_more_ranks_of_one_node_are_cores_and_shared_ones_are_no_verdict() -> None:
    question = "Do more cores help torch, with a batch of 32 rows that they share?"
    own = answers([on_one_node(record, 2) for record in repeated(BOTH)])
    assert own[question].startswith("2 ranks of 1 thread on 1 node took 1.00 (") and own[question].endswith(
        "no difference shown."
    )
    shared = answers([on_one_node(record, 1) for record in repeated(BOTH)])
    assert shared[question].endswith("not known, as ranks share cores.")
    assert shared["Do more cores help torch only with a batch that grows with them?"] == "Not known: cores shared."


def test_against_one_process_with_the_same_batch() -> None:
    told = answers(repeated({**BOTH, ("single", 1, FIXED): 5.0}))[SHARED]
    assert "took 2.00 (2.00 to 2.00) times as long as one process with the same batch: slower." in told


def progress(record: Record, points: list[tuple[float, float]]) -> Record:
    told = [[at, number, value] for number, (at, value) in enumerate(points, 1)]
    first = structs.replace(record.ranks[0], progress={"accuracy": told})
    return structs.replace(record, ranks=(first, *record.ranks[1:]))


def watched(worst: float) -> list[Record]:
    """The larger batch is half as long at each epoch, and comes to `worst` at last."""
    made = []
    for record in repeated({**BOTH, ("single", 1, FIXED): 5.0}):
        _, workers, grows = said(record)
        large = workers == 2 and grows
        points = [(1.0, 0.5), (2.0, worst)] if large else [(2.0, 0.6), (4.0, 0.955)]
        answer = dict(record.answer or {}) | {"accuracy": worst if large else 0.955, "right": 1, "synthetic": False}
        made.append(structs.replace(progress(record, points), answer=answer))
    return made


def test_time_to_an_accuracy_that_the_small_batch_comes_to() -> None:
    told = answers(watched(0.95))
    assert "torch × 2, batch 64, rate grown: 95.0 %" in told["How accurate is torch in the end, by its batch?"]
    reached = told["How long does torch take to an accuracy of 95 %?"]
    assert "torch × 1, batch 32: 4.00 s (4.00 s to 4.00 s)" in reached
    assert "torch × 2, batch 64, rate grown: 2.00 s (2.00 s to 2.00 s), 0.50 (0.50 to 0.50) times as long" in reached
    missed = answers(watched(0.94))["How long does torch take to an accuracy of 95 %?"]
    assert "torch × 2, batch 64, rate grown: 0 of 6 runs came to it" in missed


def test_of_made_up_data_no_accuracy_is_told() -> None:
    made = [
        structs.replace(r, answer=dict(r.answer or {}) | {"synthetic": True, "losses": [2.0, 0.25]})
        for r in watched(0.9)
    ]
    told = answers(made)
    assert not any("accurate" in question or "accuracy of" in question for question in told)
    lost = told["What does a larger batch cost torch?"]
    assert "data are synthetic" in lost and "torch × 2, batch 64, rate grown: 0.2500" in lost
    assert curves.learning(study_of(made)) == [] and curves.learning(study_of(watched(0.9))) != []


def test_accuracy_over_time() -> None:
    run = progress(records()[0], [(1.0, 0.5), (2.0, 0.8), (3.0, 0.7)])
    assert [accuracy.first_at(run, least) for least in (0.4, 0.8, 0.81)] == [1.0, 2.0, None]
    assert accuracy.goal([run, progress(run, [(1.0, 0.919)])]) == 0.8
    assert accuracy.goal([run, progress(run, [])]) is None


def test_pictures_of_a_study_are_drawn() -> None:
    some = summarise(cases(watched(0.9)))
    ranks, learning = curves.pictures(some)
    assert {row.get("batch") for row in ranks.rows} == {None, "shared batch", "growing batch"}
    assert [row["configuration"] for row in ranks.rows if "alone" in row] == ["one process, batch 32"]
    assert {row["configuration"] for row in learning.rows} == {
        "one process, batch 32",
        "torch × 1, batch 32",
        "torch × 2, batch 32",
        "torch × 2, batch 64, rate grown",
    }
    with Drawer() as drawer:
        stills = [images.still(picture.spec, [*picture.rows]) for picture in (ranks, learning)]
        assert all("torch" in svg.result() for svg in map(drawer.svg, stills))
