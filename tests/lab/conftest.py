"""Real hosts for tests: `lab` (three nodes, one a session) and `make_lab` (further ones)."""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


from lab.handle import LabHandle, lab_command, read_lab
from lab.model import STATE

sys.path.insert(0, str(Path(__file__).resolve().parent))
from clusters import Cluster

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder `lab`."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="session", autouse=True)
def lab_possible() -> None:
    """Skip where the machine cannot run a lab; fail instead where it must."""
    done = lab_command("check")
    if done.returncode:
        if os.environ.get("CI") or os.environ.get("REGATTA_REQUIRE_LAB") == "1":
            pytest.fail(done.stdout)
        pytest.skip(done.stdout)


@pytest.fixture(scope="session")
def lab_names(lab_possible: None) -> Iterator[Iterator[str]]:
    """Names `t<pid><letter>` for labs of this session; whatever is left of such a lab is removed in the end."""
    for left in STATE.glob("t*"):
        named = re.fullmatch(r"t(\d+)[a-z]", left.name)
        if named and not Path(f"/proc/{named[1]}").exists():
            lab_command("down", "--name", left.name)
    used: list[str] = []

    def names() -> Iterator[str]:
        for letter in LETTERS:
            used.append(f"t{os.getpid()}{letter}")
            yield used[-1]

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield names()
    finally:
        signal.signal(signal.SIGTERM, before)
        failed = []
        for name in used:
            done = lab_command("down", "--name", name)
            if done.returncode:
                failed.append(done.stdout)
        assert not failed, failed


@pytest.fixture(scope="session")
def make_lab(lab_names: Iterator[str]) -> Callable[..., LabHandle]:
    """A function that makes a further lab: `make_lab(nodes=2, egress=False)`; removed when the session ends."""

    def make(*, nodes: int = 3, egress: bool = True, topology: str = "flat") -> LabHandle:
        for _ in range(3):
            name = next(lab_names)
            done = lab_command(
                "up",
                "--name",
                name,
                "--nodes",
                str(nodes),
                "--egress",
                "yes" if egress else "no",
                "--topology",
                topology,
            )
            if "choose another subnet" not in done.stdout:
                break
        assert done.returncode == 0, done.stdout
        return read_lab(name)

    return make


@pytest.fixture(scope="session")
def lab(make_lab: Callable[..., LabHandle]) -> LabHandle:
    """Three nodes with a way out, shared by the session: leave them running and as you found them.

    `$REGATTA_TEST_LAB` names a lab to use instead, which stays when the session ends.
    """
    if name := os.environ.get("REGATTA_TEST_LAB"):
        return read_lab(name)
    return make_lab(nodes=3)


@pytest.fixture(scope="session")
def cluster(lab: LabHandle) -> Cluster:
    """The shared lab, provisioned; HDFS' metadata is copied every few seconds."""
    made = Cluster(lab)
    variables = lab.inventory / "group_vars/all.yml"
    variables.parent.mkdir(exist_ok=True)
    variables.write_text("hdfs_checkpoint_period_s: 8\n")
    made.make("provision")
    return made
