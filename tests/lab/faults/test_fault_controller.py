"""The machine at which a person sits: killed, cut off, impatient."""

import os
import re
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import kernel
import pytest
from clusters import Cluster, finish, record
from faulty import begin, nothing_left, strike
from telling import Teller

BOTH = pytest.mark.parametrize("framework", ["torch", "ray"])


@BOTH
@pytest.mark.whole
def test_the_controller_is_killed(struck: Cluster, project: Path, tell: Teller, framework: str) -> None:
    tell.begin("controller", "the controller gets SIGKILL", framework)
    run = begin(struck, project, framework, rounds=200)
    os.killpg(run.process.pid, signal.SIGKILL)
    run.process.wait()
    attached = struck.background(project, "attach", run.name)
    said = finish(attached)
    assert attached.returncode == 0, said
    assert "sum 200" in said
    tell.end("the run continues; `fab attach` shows it from its first line to its end")
    nothing_left(struck, project)


@pytest.mark.whole
@BOTH
def test_the_controller_is_cut_off(struck: Cluster, project: Path, tell: Teller, framework: str) -> None:
    tell.begin("controller", "the controller's network is gone", framework)
    run = begin(struck, project, framework, rounds=700)
    with ExitStack() as cables:

        def cut() -> None:
            for node in struck.lab.nodes:
                cables.enter_context(kernel.bad_cable(struck.lab, node, into="drop", out="drop", peers="controller"))

        told = strike(run.process, cut)
    assert told.code == 1, told.said
    assert "no node answers any more" in told.message, told.message
    assert f"regatta attach {run.name}" in told.message, told.message
    attached = struck.background(project, "attach", run.name)
    said = finish(attached)
    assert attached.returncode == 0, said
    assert "sum 700" in said
    tell.end("the run continues; `fab attach` shows it from its first line to its end", told.first, told.seconds)
    nothing_left(struck, project)


@pytest.mark.first
@BOTH
@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.whole), 2], ids=["once", "twice"])
def test_ctrl_c(struck: Cluster, project: Path, tell: Teller, framework: str, times: int) -> None:
    tell.begin("controller", f"Ctrl-C, {'once' if times == 1 else 'and again after 0.2 s'}", framework)
    run = begin(struck, project, framework)

    def press() -> None:
        for count in range(times):
            if count:
                time.sleep(0.2)
            os.killpg(run.process.pid, signal.SIGINT)

    told = strike(run.process, press)
    assert told.code == 130, told.said
    assert "Traceback" not in told.said, told.said
    assert record(project.parent / "results", run.name)["exit"]["state"] == "cancelled"
    tell.end("the run is cancelled on every node", told.first, told.seconds)
    nothing_left(struck, project)
    assert re.search(rf"^{run.name} +cancelled ", struck.fab("runs").stdout, re.M)
