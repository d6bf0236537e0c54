"""Clocks: the phases of the contract from events and arrivals, the same rule under both frameworks."""

import itertools
import math
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regatta.records.clocks import PHASES, Clocks, Phases, RankClocks
from regatta_protocol.events import (
    Chosen,
    Cpu,
    ErrorEvent,
    Exchanged,
    Memory,
    Phase,
    Progress,
    Ready,
    Result,
    UnknownEvent,
    WarningEvent,
)
from regatta_protocol.log import DRIVER

T = 0.0
seconds = st.floats(0, 1e4)


def torch_run() -> Clocks:
    """Two ranks; launch 2 s of which rendezvous 0.5; load 1 and 3; compute 10; collect 1."""
    clocks = Clocks(world_size=2)
    clocks.sync_seconds = 0.25
    clocks.start(100.0)
    clocks.feed(Ready(1, T), 101.0)
    clocks.feed(Ready(0, T), 102.0)
    clocks.feed(Phase(0, T, "rendezvous", 0.5), 102.0)
    clocks.feed(Phase(1, T, "rendezvous", 0.4), 102.0)
    clocks.feed(Phase(0, T, "load", 1.0), 103.0)
    clocks.feed(Phase(1, T, "load", 3.0), 105.0)
    clocks.feed(Phase(0, T, "compute", 10.0), 115.0)
    clocks.feed(Phase(1, T, "compute", 10.0), 115.0)
    clocks.end(116.0)
    return clocks


def test_phases_of_a_run() -> None:
    assert torch_run().phases() == Phases(0.25, 1.5, 0.5, 3.0, 10.0, 1.0, 16.25, 0.0)


def test_ray_gives_the_same_phases_although_the_driver_relays_late() -> None:
    clocks = Clocks(world_size=2, driver=True)
    clocks.sync_seconds = 0.25
    clocks.start(100.0)
    clocks.feed(Ready(DRIVER, T), 102.0)
    for rank in (0, 1):
        clocks.feed(Ready(rank, T), 115.9)
        clocks.feed(Phase(rank, T, "rendezvous", 0.5), 115.9)
        clocks.feed(Phase(rank, T, "load", (1.0, 3.0)[rank]), 115.9)
        clocks.feed(Phase(rank, T, "compute", 10.0), 115.9)
    clocks.end(116.0)
    assert clocks.phases() == torch_run().phases()


def test_under_ray_a_relayed_ready_is_no_ready() -> None:
    clocks = Clocks(world_size=1, driver=True)
    clocks.start(0.0)
    clocks.feed(Ready(0, T), 1.0)
    assert clocks.phases().launch is None


def test_launch_waits_for_the_last_rank() -> None:
    clocks = Clocks(world_size=3)
    clocks.start(0.0)
    clocks.feed(Ready(0, T), 1.0)
    clocks.feed(Ready(2, T), 5.0)
    assert clocks.phases().launch is None
    clocks.feed(Ready(1, T), 3.0)
    assert clocks.phases().launch == 5.0


def test_waiting_within_compute_does_not_eat_collect() -> None:
    """Rank 0 loads 1 s and waits 9 s for rank 1 within its compute: the two longest are of different ranks."""
    clocks = Clocks(world_size=2)
    clocks.sync_seconds = 0.0
    clocks.start(0.0)
    for rank, load, compute in ((0, 1.0, 14.0), (1, 10.0, 5.0)):
        clocks.feed(Ready(rank, T), 1.0)
        clocks.feed(Phase(rank, T, "load", load), 1.0 + load)
        clocks.feed(Phase(rank, T, "compute", compute), 16.0)
    clocks.end(18.0)
    phases = clocks.phases()
    assert (phases.load, phases.compute, phases.collect) == (10.0, 14.0, 2.0)
    assert (phases.total, phases.overlap) == (18.0, 9.0)


@settings(deadline=None)
@given(st.lists(st.tuples(seconds, seconds, seconds), min_size=1, max_size=5), seconds, seconds, seconds, st.booleans())
def test_phases_add_up_to_total(
    ranks: list[tuple[float, float, float]], sync: float, until_ready: float, rest: float, driver: bool
) -> None:
    clocks = Clocks(world_size=len(ranks), driver=driver)
    clocks.sync_seconds = sync
    clocks.start(1000.0)
    for rank, measured in enumerate(ranks):
        clocks.feed(Ready(rank, T), 1000.0 + until_ready)
        for name, value in zip(("rendezvous", "load", "compute"), measured, strict=True):
            clocks.feed(Phase(rank, T, name, value), 1000.0)
    clocks.feed(Ready(DRIVER, T), 1000.0 + until_ready)
    clocks.end(1000.0 + until_ready + rest)
    phases = clocks.phases()
    values = [getattr(phases, name) for name in (*PHASES, "overlap")]
    assert all(value >= 0 for value in values)
    *parts, total, overlap = values
    assert sum(parts) - overlap == pytest.approx(total, abs=1e-6)
    assert total == pytest.approx(sync + until_ready + rest, abs=1e-6)


def test_a_failed_run_has_none_where_it_did_not_get() -> None:
    clocks = Clocks(world_size=2)
    clocks.sync_seconds = 0.5
    clocks.start(0.0)
    clocks.feed(Ready(0, T), 1.0)
    clocks.feed(Phase(0, T, "load", 2.0), 3.0)
    clocks.feed(ErrorEvent(1, T, "no such file: graph.txt"), 1.0)
    clocks.feed(ErrorEvent(0, T, "connection closed"), 1.1)
    clocks.end(4.0)
    assert clocks.phases() == Phases(sync=0.5, load=2.0, total=4.5)
    assert clocks.error == ErrorEvent(1, T, "no such file: graph.txt")
    assert clocks.result is None
    assert clocks.ranks == (RankClocks(0, {"load": 2.0}), RankClocks(1))


def test_a_script_without_events_has_a_total() -> None:
    clocks = Clocks(world_size=2)
    clocks.start(1.0)
    clocks.end(3.0)
    clocks.end(9.0)
    assert clocks.phases() == Phases(total=2.0)


def test_attached_later_nothing_is_guessed() -> None:
    clocks = Clocks(world_size=1)
    clocks.feed(Ready(0, T), 50.0)
    clocks.feed(Phase(0, T, "compute", 2.0), 50.0)
    clocks.end(51.0)
    assert clocks.phases() == Phases(compute=2.0)


def test_repeated_and_own_phases() -> None:
    clocks = Clocks(world_size=1)
    for value in (1.0, 2.0, 4.0):
        clocks.feed(Phase(0, T, "epoch", value), 0.0)
    clocks.feed(Phase(0, T, "compute", 7.0), 0.0)
    assert clocks.ranks == (RankClocks(0, {"epoch": 7.0, "compute": 7.0}, {"epoch": (1.0, 2.0, 4.0)}),)
    assert clocks.phases().compute == 7.0


def test_result_memory_and_the_driver_as_a_rank() -> None:
    clocks = Clocks(world_size=1, driver=True)
    first = Result(DRIVER, T, {"sum": 1.0})
    clocks.feed(first, 0.0)
    clocks.feed(Result(DRIVER, T, {"sum": 2.0}), 0.0)
    clocks.feed(Memory(0, T, 100), 0.0)
    clocks.feed(Memory(0, T, 300), 0.0)
    clocks.feed(Memory(0, T, 200), 0.0)
    clocks.feed(Cpu(0, T, 1.5), 0.0)
    clocks.feed(Cpu(0, T, 0.5), 0.0)
    clocks.feed(Phase(DRIVER, T, "compute", 1.0), 0.0)
    clocks.feed(Progress(0, T, "x", 1, 2), 0.0)
    clocks.feed(UnknownEvent(0, T, "tide", {}), 0.0)
    assert clocks.result is first
    assert clocks.warnings == ("a second result was printed: the first one is kept",)
    assert clocks.ranks == (
        RankClocks(DRIVER, {"compute": 1.0}),
        RankClocks(0, peak_bytes=300, progress={"x": ((0.0, 1, None),)}, cpu_seconds=1.5),
    )


def test_what_ranks_exchange_and_workloads_decide_on_is_kept() -> None:
    clocks = Clocks(world_size=1)
    clocks.feed(Exchanged(0, T, 600, 3), 0.0)
    for number in range(200):
        clocks.feed(Chosen(0, T, f"option-{number}", "graph", "it is faster"), 0.0)
    assert clocks.ranks == (RankClocks(0, exchanged_bytes=600, exchanges=3),)
    assert clocks.chosen["option-0"] == "graph: it is faster"
    assert len(clocks.chosen) < 200
    assert "events are only in the log" in clocks.warnings[0]


def test_iterations_are_progress_of_their_own() -> None:
    clocks = Clocks(world_size=1)
    clocks.feed(Ready(0, T), 0.0)
    clocks.feed(Progress(0, T + 1, "sources", 0, 4, residual=0.5, iterations=10), 0.0)
    clocks.feed(Progress(0, T + 2, "sources", 4, 4, residual=0.1, iterations=30), 0.0)
    (rank,) = clocks.ranks
    assert rank.progress == {
        "sources": ((1.0, 0, 0.5), (2.0, 4, 0.1)),
        "iterations": ((1.0, 10, None), (2.0, 30, None)),
    }


def test_warnings_are_grouped_and_bounded() -> None:
    clocks = Clocks(world_size=3)
    for rank in (2, 0, 2):
        clocks.feed(WarningEvent(rank, T, "few rows"), 0.0)
    clocks.feed(WarningEvent(1, T, "slow disk"), 0.0)
    assert clocks.warnings == ("few rows (ranks 0, 2)", "slow disk (rank 1)")
    for number in range(200):
        clocks.feed(WarningEvent(0, T, f"step {number}"), 0.0)
    assert len(clocks.warnings) == 101
    assert clocks.warnings[-1] == "102 more warnings are in the log"


def test_names_and_ranks_are_bounded_and_what_exceeds_is_said() -> None:
    clocks = Clocks(world_size=2)
    for number in range(500):
        clocks.feed(Phase(0, T, f"step {number}", 1.0), 0.0)
        clocks.feed(Progress(0, T, f"step {number}", 1, 2), 0.0)
        clocks.feed(WarningEvent(1000 + number, T, "made up"), 0.0)
        clocks.feed(Memory(2000 + number, T, 1), 0.0)
    clocks.feed(Phase(1, T, "compute", 2.0), 0.0)
    for _ in range(10_500):
        clocks.feed(Phase(1, T, "batch", 0.5), 0.0)
    found = {rank.rank: rank for rank in clocks.ranks}
    assert len(found) <= 2 + 32
    assert len(found[0].phases) == len(found[0].progress) == 100
    assert found[1].phases == {"compute": 2.0, "batch": 5250.0}
    assert len(found[1].repetitions["batch"]) == 10_000
    left_out = 400 + 400 + (500 - 32) + 500 + 500
    assert clocks.warnings[-1].startswith(f"{left_out} events are only in the log")


def test_may_be_read_while_several_threads_feed() -> None:
    clocks = Clocks(world_size=300)
    failures: list[BaseException] = []
    feeding = threading.Event()
    feeding.set()

    def read() -> None:
        try:
            while feeding.is_set():
                assert clocks.ranks
        except BaseException as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    readers = [threading.Thread(target=read) for _ in range(2)]
    try:
        for reader in readers:
            reader.start()
        for number in range(3000):
            clocks.feed(Phase(number // 10, T, f"step {number}", 1.0), 0.0)
    finally:
        feeding.clear()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(before)
    assert not failures
    assert sum(len(r.phases) for r in clocks.ranks) == 3000


def test_progress_is_told_in_seconds_since_the_rank_was_ready() -> None:
    clocks = Clocks(1)
    clocks.feed(Ready(0, T + 5), 0.0)
    clocks.feed(Progress(0, T + 6, "epochs", 1, 2, loss=0.5), 99.0)
    clocks.feed(Progress(0, T + 7.5, "epochs", 2, 2, loss=math.nan), 99.0)
    clocks.feed(Progress(0, T + 8, "sources", 1, 2, residual=0.1), 99.0)
    clocks.feed(Progress(0, T + 9, "accuracy", 1, 2, accuracy=0.0), 99.0)
    assert clocks.ranks[0].progress == {
        "epochs": ((1.0, 1, 0.5), (2.5, 2, None)),
        "sources": ((3.0, 1, 0.1),),
        "accuracy": ((4.0, 1, 0.0),),
    }


def test_progress_is_thinned_and_keeps_its_ends() -> None:
    clocks = Clocks(1)
    clocks.feed(Ready(0, T), 0.0)
    for done in range(10_001):
        clocks.feed(Progress(0, T + done, "rows", done, 10_000), 0.0)
    points = clocks.ranks[0].progress["rows"]
    assert 100 <= len(points) <= 200
    assert points[0] == (0.0, 0, None)
    assert points[-1] == (10_000.0, 10_000, None)
    steps = {round(b[1] - a[1]) for a, b in itertools.pairwise(points[:-1])}
    assert len(steps) == 1
