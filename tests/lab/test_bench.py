"""`fab bench` on three hosts: a host that is lost in the middle of a plan, a disk that is full in the middle."""

import contextlib
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Cluster, finish, read_until

PLAN = """\
repeats = 2
warm_ups = 1
[[experiments]]
workload = "ppr"
sizes = [{size}]
frameworks = ["torch"]
workers = [{workers}]
{more}
"""


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.whole
def test_the_disk_of_the_results_gets_full_in_the_middle(cluster: Cluster, tmp_path: Path) -> None:
    plan = tmp_path / "small.toml"
    plan.write_text(PLAN.format(size=1_000, workers=2, more=""))
    with small_disk(tmp_path / "results", 32) as results:
        going = cluster.fab_background("bench", str(plan), results=results)
        seen = read_until(going, "[2/6]")
        kept = {path: path.read_bytes() for path in results.glob("ppr-*.json")}
        filler = results / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        seen += finish(going, 120)
        assert going.returncode == 1, seen
        assert "No space left on device" in seen
        assert re.search("has no record.* `fab bench` continues", seen)
        found = {path: path.read_bytes() for path in results.glob("ppr-*.json")}
        assert kept and kept.items() <= found.items()
        recorded = len(found)
        assert not list(results.glob(".*.new"))
        refused = cluster.fab("bench", str(plan), results=results, check=False)
        assert refused.returncode == 1
        assert f"MB free, the records of {6 - recorded} runs may need" in refused.stdout
        filler.unlink()
        again = cluster.fab("bench", str(plan), results=results)
        assert f"continues: {recorded} of 6 runs are recorded" in again.stdout
        assert "6 of 6 runs recorded" in again.stdout


@pytest.mark.whole
def test_a_host_is_lost_in_the_middle(cluster: Cluster, tmp_path: Path) -> None:
    plan = tmp_path / "lossy.toml"
    plan.write_text(PLAN.format(size=300_000, workers=3, more="parameters = { count = 600, tolerance = 1e-9 }"))
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
