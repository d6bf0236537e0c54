"""Runs take turns on a cluster as it is by default: with a controller, beside others, and without a controller."""

import secrets
from pathlib import Path

import typed_json
from clusters import Cluster, finish, known, read_until, wait_for

SCRIPT = """\
import sys, time
print("begins", flush=True)
time.sleep(float(sys.argv[1]))
"""


def test_runs_take_turns_and_one_that_is_now_does_not(cluster: Cluster, tmp_path: Path) -> None:
    project, mark = tmp_path / "own", secrets.token_hex(2)
    project.mkdir()
    (project / "job.py").write_text(SCRIPT)

    def job(name: str, seconds: int, *options: str) -> list[str]:
        return ["torchrun", "--workers", "3", "--name", f"{name}-{mark}", *options, "job.py", str(seconds)]

    def line() -> list[tuple[str, bool]]:
        found = typed_json.read("queue", cluster.regatta(project, "queue", "--json").stdout).entries
        return [(one.run.removesuffix(f"-{mark}"), one.holds) for one in found]

    first = cluster.background(project, *job("first", 600))
    read_until(first, "begins")
    second = cluster.background(project, *job("second", 0))
    said = read_until(second, "waits for its turn")
    assert f"first-{mark} (" in said and "holds nodes" in said
    assert "behind" in cluster.regatta(project, *job("third", 0, "--detach")).stdout
    assert line() == [("first", True), ("second", False), ("third", False)]
    assert "begins" in cluster.regatta(project, *job("beside", 0, "--now")).stdout
    cluster.regatta(project, "cancel", f"first-{mark}")
    assert "begins" in finish(second) and finish(first)
    wait_for(lambda: line() == [], 60)
    cluster.regatta(project, "runs")  # it writes the record of the third, and prints that
    found = {one["run"]: one for one in known(cluster, project)}
    ended = {name: found[f"{name}-{mark}"] for name in ("first", "second", "third", "beside")}
    assert {name: one["state"] for name, one in ended.items()} == {
        "first": "cancelled",
        **dict.fromkeys(("second", "third", "beside"), "succeeded"),
    }
    assert {name: one["beside"] for name, one in ended.items() if name != "first"} == {
        "second": [],
        "third": [],
        "beside": [f"first-{mark}"],
    }
