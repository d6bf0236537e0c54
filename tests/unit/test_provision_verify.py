"""What verify says of a node's part of the all-reduce."""

import json

import modules
import pytest

verdict = modules.load("python_env_filters", "roles/python_env/filter_plugins/python_env.py").verdict


def said(total: float) -> str:
    return "a warning\n@verify " + json.dumps({"sum": total, "expected": 3.0, "versions": {"torch": "2.13.0"}})


def test_a_right_sum_gives_the_versions() -> None:
    assert verdict({"rc": 0, "stdout": said(3.0)}, 60) == {"problems": [], "versions": {"torch": "2.13.0"}}


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
