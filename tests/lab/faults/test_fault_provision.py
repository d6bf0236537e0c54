"""Provisioning is killed, wherever it is, or started twice."""

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clusters import Cluster
from provisioning import PROJECT, changed, command, play, provision, provision_again, verify
from telling import Teller

from lab.handle import LabHandle

KILLS, LATEST_SECONDS = 10, 2.0
pytestmark = pytest.mark.whole


@pytest.fixture
def bare(make_lab: Callable[..., LabHandle]) -> Iterator[LabHandle]:
    """Two bare hosts."""
    made = make_lab(nodes=2)
    yield made
    made.down()


def shown(said: str) -> list[str]:
    """Names of the tasks that Ansible has come to, in order."""
    return re.findall(r"^TASK \[(.*)\] \*", said, re.M)


@pytest.mark.timeout(2400)
def test_provision_is_killed_at_random_points(bare: LabHandle, struck: Cluster, tell: Teller) -> None:
    tell.begin("provision", f"provision gets SIGKILL, {KILLS} times one after the other, at random moments", "-")
    seed = int(os.environ.get("REGATTA_SEED") or random.randrange(10**6))
    print(f"REGATTA_SEED={seed}")
    chosen = random.Random(seed)
    # Every provision shows the tasks that one with nothing to do shows: each kill is about as many tasks further on.
    points = sorted(chosen.sample(range(1, len(shown(provision(struck.lab, "--verbose"))) + 1), KILLS))
    reached = [killed(bare, point, chosen.uniform(0, LATEST_SECONDS)) for point in points]
    print("killed in:", *reached, sep="\n  ")
    provision(bare)
    provision_again(bare)
    verify(bare)
    roles = ", ".join(dict.fromkeys(task.partition(" : ")[0] for task in reached if " : " in task))
    tell.end(f"the next one continues and the one after it changes nothing (killed in the roles {roles})")


def killed(lab: LabHandle, point: int, seconds: float) -> str:
    """Kill a provision some time after it has come to its so many-th task; returns that task's name."""
    process = subprocess.Popen(
        command(lab, "provision", "--verbose"), cwd=PROJECT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout
    said = ""
    for line in process.stdout:
        said += line
        if len(shown(said)) == point:
            break
    else:
        raise AssertionError(f"it ended before its task {point}:\n{said[-3000:]}")
    time.sleep(seconds)
    kill_tree(process.pid)
    process.stdout.close()
    process.wait()
    return shown(said)[-1]


def kill_tree(top: int) -> None:
    """SIGKILL for a process and all below it, which have their own sessions."""
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
        command(struck.lab, "provision", "--verbose"),
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert first.stdout
    for line in first.stdout:
        if line.startswith("TASK ["):
            break
    said = play(struck.lab, "provision", good=False)
    first.stdout.read()
    assert first.wait() == 0
    assert set(changed(struck.lab).values()) == {0}
    message = next(line for line in said.splitlines() if "is in use" in line).replace(struck.lab.name, "CLUSTER")
    message = re.sub(
        r"by \S+ on \S+ \(process \d+\), for [^.]* now", "by USER on HOST (process N), for 5 s now", message
    )
    tell.end("the second is refused, the first ends well", message)
