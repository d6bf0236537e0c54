"""Limits of a run on a node: from the inventory to the unit, and into the message where it was met."""

import os
from pathlib import Path

import pytest

from regatta.errors import InventoryError
from regatta.hosts import limits
from regatta.hosts.inventories import build
from regatta.node import cgroup
from regatta.run.causes import reached
from regatta_protocol.decoding import believe
from regatta_protocol.run import Kept


def test_the_inventory_says_it(tmp_path: Path) -> None:
    hosts = {
        "node1": {"ansible_host": "10.0.0.1", "regatta_run_memory_share": "0.5", "regatta_run_processes": 700},
        "node2": {"ansible_host": "10.0.0.2", "regatta_run_log_mb": 10},
    }
    listing = {"_meta": {"hostvars": hosts}, "head": {"hosts": ["node1"]}, "workers": {"hosts": [*hosts]}}
    one, two = build("two", tmp_path, listing).nodes
    assert (one.limits.memory_share, one.limits.processes, one.limits.log_bytes) == (0.5, 700, 256_000_000)
    assert (two.limits.memory_share, two.limits.processes, two.limits.log_bytes) == (0.85, None, 10_000_000)
    asked, default = cgroup.properties(one.limits), cgroup.properties(two.limits)
    assert (asked["MemoryMax"], asked["TasksMax"]) == ("50.00%", "700")
    assert default["MemoryMax"] == "85.00%" and int(default["TasksMax"]) >= cgroup.LEAST_PROCESSES
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    less, more = (cgroup.properties(one.limits.changed(memory=whole // part)) for part in (4, 1))
    assert (less["MemoryMax"], more["MemoryMax"]) == ("25.00%", "50.00%")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("regatta_run_memory_share", 85),
        ("regatta_run_memory_share", "nan"),
        ("regatta_run_log_mb", 0),
        ("regatta_run_log_mb", "all"),
        ("regatta_run_processes", 1),
        ("regatta_run_processes", True),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: object) -> None:
    with pytest.raises(InventoryError, match=f"two: host node1: {name} is "):
        limits.read("two: host node1", {name: value})


def test_a_limit_that_was_met_is_named_with_its_node_and_variable() -> None:
    said = reached("node7", {"memory": 2_500_000_000, "processes": 4096})
    assert len(said) == 2
    assert all("node7" in text for text in said)
    assert "2.50 GB" in said[0] and "regatta_run_memory_share" in said[0]
    assert "4,096" in said[1] and "regatta_run_processes" in said[1]
    assert reached("node7", {}) == []


@pytest.mark.parametrize("layout", ["one hierarchy", "one a controller"])
def test_limits_are_read_where_the_kernel_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    monkeypatch.setattr(cgroup, "ROOT", str(tmp_path))
    unit = "system.slice/regatta-run-r1.service"
    files = {
        "memory.max": "1000\n",
        "memory.events": "low 0\nmax 9\noom 2\noom_kill 1\n",
        "pids.max": "max\n",
        "pids.events": "max 3\n",
    }
    at = [tmp_path / unit] * 2
    if layout == "one a controller":
        at = [tmp_path / "memory" / unit, tmp_path / "pids" / unit]
        memory = {"memory.limit_in_bytes": "1000\n", "memory.oom_control": "oom_kill_disable 0\noom_kill 2\n"}
        files = {**memory, "pids.max": "50\n", "pids.events": "max 3\n"}
    for name, text in files.items():
        folder = at[name.startswith("pids")]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(cgroup, "folders", lambda pid: dict.fromkeys(map(str, at)))
    known = {"memory": 1000} if layout == "one hierarchy" else {"memory": 1000, "processes": 50}
    assert cgroup.limits() == known
    assert cgroup.hits() == {"memory": 2, "processes": 3}
    assert cgroup.reached({}) == known
    assert cgroup.reached({"memory": 2, "processes": 2}) == {name: n for name, n in known.items() if name != "memory"}
    assert believe(Kept, {"hits": "spoilt by the run"}).hits == {}


def test_processes_that_are_of_no_unit_have_no_limits() -> None:
    assert list(cgroup.folders()) == []
    assert cgroup.limits() == cgroup.hits() == cgroup.reached({}) == {}
