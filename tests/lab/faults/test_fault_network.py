"""A host's cable is cut, passes one way only, loses frames, or is long."""

from pathlib import Path

import kernel
import pytest
from clusters import Cluster
from faulty import begin, explained, next_run, nothing_left, strike, whole
from telling import Teller

BOTH = pytest.mark.parametrize("framework", ["torch", "ray"])


@BOTH
@pytest.mark.parametrize(
    ("fault", "verdicts"),
    [
        pytest.param("a host's network is cut", {"into": "drop", "out": "drop"}, marks=pytest.mark.whole),
        pytest.param("a host hears, and is not heard", {"out": "drop"}, marks=pytest.mark.whole),
        pytest.param("a host is heard, and does not hear", {"into": "drop"}, marks=pytest.mark.whole),
    ],
    ids=["cut", "mute", "deaf"],
)
def test_a_host_is_cut_off(
    struck: Cluster, project: Path, tell: Teller, framework: str, fault: str, verdicts: dict[str, str]
) -> None:
    tell.begin("network", fault, framework)
    run = begin(struck, project, framework)
    cable = kernel.bad_cable(struck.lab, "node3", **verdicts)
    try:
        told = strike(run.process, cable.__enter__)
    finally:
        cable.__exit__(None, None, None)
    explained(told, "node3", "lost in mid-run")
    tell.end("the run ends on the others; the host joins again by itself", told.first, told.seconds)
    whole(struck)
    next_run(struck, project, framework)
    nothing_left(struck, project)


@BOTH
@pytest.mark.whole
def test_a_cable_loses_frames(struck: Cluster, project: Path, tell: Teller, framework: str) -> None:
    tell.begin("network", "a host's network loses 20 % of all packets, both ways", framework)
    run = begin(struck, project, framework, rounds=60)
    lossy = "numgen random mod 100 < 20 drop"
    with kernel.bad_cable(struck.lab, "node3", into=lossy, out=lossy):
        told = strike(run.process, lambda: None)
    assert told.code == 0, told.said
    assert "sum 60" in told.said
    tell.end("continues, and ends with the right answer")
    whole(struck)
    nothing_left(struck, project)


@BOTH
@pytest.mark.whole
def test_a_cable_is_long(struck: Cluster, project: Path, tell: Teller, framework: str) -> None:
    tell.begin("network", "all packets of a host come 200 ms late", framework)
    run = begin(struck, project, framework, rounds=60)
    with kernel.slow_cable(struck.lab, "node3", 0.2):
        told = strike(run.process, lambda: None)
        assert told.code == 0, told.said
        assert "sum 60" in told.said
        next_run(struck, project, framework)
    tell.end("continues, and ends with the right answer; the next run starts over it too")
    whole(struck)
    nothing_left(struck, project)
