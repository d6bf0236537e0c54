"""Provisioning is killed, wherever it is, or started twice."""

import os
import random
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clusters import Cluster
from provisioning import PROJECT, changed, command, play, provision, verify
from telling import Teller

from lab.handle import LabHandle

KILLS = 5
pytestmark = pytest.mark.whole


@pytest.fixture
def bare(make_lab: Callable[..., LabHandle]) -> Iterator[LabHandle]:
    """Two bare hosts."""
    made = make_lab(nodes=2)
    yield made
    made.down()


def tasks(lab: LabHandle) -> list[str]:
    """Names of all tasks of the playbook, in order, as Ansible prints them."""
    said = play(lab, "provision", "--list-tasks")
    return [name.strip() for name in re.findall(r"^      (\S[^\t]*?)\s*\tTAGS:", said, re.M)]


@pytest.mark.timeout(2400)
def test_provision_is_killed_at_random_points(bare: LabHandle, tell: Teller) -> None:
    tell.begin(
        "provision", f"provision gets SIGKILL, {KILLS} times one after the other, before a task taken at random", "-"
    )
    seed = int(os.environ.get("REGATTA_SEED") or random.randrange(10**6))
    chosen = random.Random(seed)
    names = tasks(bare)
    points = sorted(chosen.sample(range(len(names)), KILLS))
    reached = []
    for point in points:
        process = subprocess.Popen(
            command(bare, "provision"), cwd=PROJECT, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout
        for line in process.stdout:
            if line.startswith("TASK [") and names[point] in line:
                reached.append(names[point])
                break
        kill_tree(process.pid)
        process.wait()
    provision(bare)
    assert set(changed(provision(bare)).values()) == {0}
    verify(bare)
    assert reached, f"seed {seed}: none of {[names[point] for point in points]} came"
    tell.end(f"the next one goes on and the one after it changes nothing (killed at: {'; '.join(reached)})")


def kill_tree(top: int) -> None:
    """SIGKILL for a process and all below it, which have sessions of their own."""
    found, queue = [top], [top]
    while queue:
        children = Path(f"/proc/{queue[0]}/task").glob("*/children")
        below = [int(pid) for file in children for pid in file.read_text().split()]
        queue = queue[1:] + below
        found += below
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_two_provisions_at_once(struck: Cluster, tell: Teller) -> None:
    tell.begin("provision", "two provisions at once", "-")
    first = subprocess.Popen(
        command(struck.lab, "provision"), cwd=PROJECT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert first.stdout
    for line in first.stdout:
        if line.startswith("TASK ["):
            break
    said = play(struck.lab, "provision", good=False)
    rest = first.stdout.read()
    assert first.wait() == 0
    assert set(changed(rest).values()) == {0}
    message = next(line for line in said.splitlines() if "another provision" in line)
    tell.end("the second is refused, the first ends well", message)
