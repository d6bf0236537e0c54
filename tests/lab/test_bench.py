"""`fab bench` on three hosts: a host that is lost in the middle of a plan, and what the rows say of it."""

import json
from collections import Counter
from pathlib import Path

import pytest
from clusters import Cluster, finish, read_until

PLAN = """\
repeats = 2
warm_ups = 1
[[races]]
workload = "ppr"
sizes = [300_000]
frameworks = ["torch"]
workers = [3]
parameters = { count = 600, tolerance = 1e-9 }
"""


@pytest.mark.whole
def test_a_host_is_lost_in_the_middle(cluster: Cluster, tmp_path: Path) -> None:
    plan = tmp_path / "lossy.toml"
    plan.write_text(PLAN)
    results = tmp_path / "results"
    going = cluster.fab_background("bench", str(plan), results=results)
    try:
        seen = read_until(going, "[2/6]")
        cluster.lab.off("node3")
        seen += read_until(going, "node3: no answer; waiting")
    finally:
        cluster.lab.on("node3")
    seen += finish(going, 300)
    assert going.returncode != 0, seen
    assert "all nodes answer again" in seen
    states = Counter(json.loads(path.read_text())["exit"]["state"] for path in results.glob("ppr-*.json"))
    assert states["succeeded"] == 5, (states, seen)
    assert sum(states.values()) == 6, (states, seen)
    again = cluster.fab("bench", str(plan), "--retry", results=results)
    assert "6 of 6 runs recorded" in again.stdout, again.stdout
