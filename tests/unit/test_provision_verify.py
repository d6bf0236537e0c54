"""The lines of verify on a node's part of the all-reduce."""

import io
import json
import subprocess
import sys
from pathlib import Path

import modules
import pytest
import yaml

from regatta.paths import PROJECT
from regatta.provisioning import verified
from regatta.provisioning.steps import Steps

verdict = modules.load("python_env_filters", "roles/python_env/filter_plugins/python_env.py").verdict


def said(total: float) -> str:
    return "a warning\n@verify " + json.dumps({"sum": total, "expected": 3.0, "versions": {"torch": "2.13.0"}})


def test_a_right_sum_gives_the_versions() -> None:
    assert verdict({"rc": 0, "stdout": said(3.0)}, 60) == {
        "problems": [],
        "versions": {"torch": "2.13.0"},
        "rates": {},
    }


@pytest.mark.parametrize(
    ("done", "problem"),
    [
        ({"rc": 0, "stdout": said(2.0)}, "torchrun's all-reduce gave 2.0 instead of 3.0"),
        ({"rc": 124, "stdout": ""}, "torchrun did not end within 60 s"),
        (
            {"rc": 1, "stdout": "", "stderr": "Traceback\nConnectionError: refused\nlast line"},
            "torchrun failed with exit code 1: ConnectionError: refused",
        ),
        ({"rc": 0, "stdout": "", "stderr": ""}, "torchrun failed with exit code 0: no message"),
        ({"rc": 2, "msg": "Error executing command"}, "torchrun failed with exit code 2: Error executing command"),
    ],
)
def test_what_went_wrong(done: dict[str, object], problem: str) -> None:
    assert verdict(done, 60)["problems"] == [problem]


def test_what_was_found_comes_to_the_controller_as_json(tmp_path: Path) -> None:
    """The playbook's own task writes it, here on this machine."""
    (play,) = yaml.safe_load((PROJECT / "ansible/playbooks/verify.yml").read_text())
    (task,) = [one for one in play["tasks"] if one["name"] == "Tell the controller what was found"]
    book, out = tmp_path / "book.yml", tmp_path / "found.json"
    book.write_text(json.dumps([{"hosts": "node1", "gather_facts": False, "become": True, "tasks": [task]}]))
    found = {"lines": ["node1: all-reduce"], "problems": []}
    program = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "node1,", str(book)]
    subprocess.run([*program, "-e", json.dumps({"verify_out": str(out), "verify_found": found})], check=True)
    told = json.loads(out.read_text())
    assert verified.verdict("lab", 0, told, "") == verified.Verified("lab", True, ["node1: all-reduce"], [])


def test_what_would_change_is_read_from_the_steps_that_are_shown() -> None:
    said = io.StringIO()
    steps = Steps(said, check=True)
    for task, hosts in {"Install it (once)": ["node1", "node2"], "Start it": [], "Write it": ["node2"]}.items():
        steps.hear({"event": "task", "task": task, "step": "toy", "of_role": True})
        for host in ("node1", "node2"):
            steps.hear({"event": "result", "host": host, "changed": host in hosts, "here": False})
    steps.hear({"event": "end", "hosts": {"node1": "changed", "node2": "changed"}})
    assert verified.changes(said.getvalue()) == [
        verified.Change("toy: Install it (once)", ["node1", "node2"]),
        verified.Change("toy: Write it", ["node2"]),
    ]


def test_of_another_slurm_only_nodes_of_the_cluster_are_problems(tmp_path: Path) -> None:
    tasks = yaml.safe_load((PROJECT / "ansible/roles/slurm/tasks/verify.yml").read_text())
    (task,) = [one for one in tasks if one["name"] == "Report Slurm"]
    book = tmp_path / "book.yml"
    found = "slurm_verified.problems"
    silent = f"'node2, which does not answer it' in ({found} | last)"
    proof = [f"{found} | length == 2", silent, f"({found} | first).endswith('node3')"]
    given = {
        "__slurm_nodes": {"stderr": "", "stdout_lines": ["node1 idle", "node2 down*", "node3 drain", "theirs down*"]},
        "_slurm_nodes": ["node1", "node2", "node3"],
    }
    play = {"hosts": "node1", "gather_facts": False, "vars": given, "tasks": [task, {"assert": {"that": proof}}]}
    book.write_text(json.dumps([{**play, "connection": "local"}]))
    program = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "node1,", str(book)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_verify_that_stops_tells_why() -> None:
    why = "UNREACHABLE node2, x:\n    refused\n    twice"
    said = f"  preflight  nothing to do\n{why}\n  x  1 failed\n"
    stopped = verified.verdict("lab", 4, {}, said)
    assert not stopped.works and stopped.problems == [why]
    assert verified.verdict("lab", 2, {"problems": ["no Ray"]}, said).problems == ["no Ray"]
