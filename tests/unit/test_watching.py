"""Looking at a run does it no harm: Ctrl-C in `attach` and `logs --follow`, and which lines `logs` prints."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from test_recording import Fab, kept

from regatta.hosts.remote import Remote
from regatta_protocol.operations.runs import ListRuns


@pytest.fixture
def fab(source: Path, here: Path, tmp_path: Path) -> Fab:
    return Fab(source, here, tmp_path / "sign")


def read_until(process: "subprocess.Popen[str]", mark: str) -> None:
    assert process.stdout is not None
    assert any(mark in line for line in process.stdout)


def state(remote: Remote) -> str:
    return remote.call(remote.cluster.head, ListRuns()).runs[0].state.value


@pytest.mark.parametrize("words", [("attach",), ("logs", "--follow")], ids=["attach", "logs"])
def test_ctrl_c_leaves_the_run_alone(fab: Fab, remote: Remote, words: tuple[str, ...]) -> None:
    fab.orphan("watched")
    watching = fab.start(*words, "watched")
    read_until(watching, "begun")
    watching.send_signal(signal.SIGINT)
    said, _ = watching.communicate(timeout=60)
    assert watching.returncode == 130, said
    if words[0] == "attach":
        assert "watched continues" in said and "regatta attach watched" in said and "regatta cancel watched" in said
    assert state(remote) == "running" and kept("watched") is None
    fab.sign.touch()
    assert fab.run("attach", "watched")[0] == 0
    found = kept("watched")
    assert found is not None and found.exit.state == "succeeded"


def test_a_second_ctrl_c_in_attach_cancels_the_run(fab: Fab, remote: Remote) -> None:
    fab.orphan("ended")
    watching = fab.start("attach", "ended")
    read_until(watching, "begun")
    watching.send_signal(signal.SIGINT)
    read_until(watching, "continues")
    watching.send_signal(signal.SIGINT)
    said, _ = watching.communicate(timeout=60)
    assert watching.returncode == 130 and "cancelling ended" in said
    assert state(remote) == "stopped"
    found = kept("ended")
    assert found is not None and found.exit.state == "cancelled"


def test_logs_of_one_rank_and_the_last_lines(fab: Fab) -> None:
    (fab.tree / "train.py").write_text(
        "from os import environ\n"
        "for number in range(5): print('line', number, environ['OMP_NUM_THREADS'], 'of', environ['RANK'])\n"
    )
    assert fab.run("torchrun", "--name=lines", "--workers=2", "--threads-per-rank=7", "train.py")[0] == 0
    found = kept("lines")
    assert found is not None and found.speed.threads == found.identity.parameters["threads_per_rank"] == 7
    every = fab.run("logs", "lines")[1].splitlines()
    of_one = [line for line in every if line.endswith("of 1")]
    assert len(of_one) == 5 and all(" 7 of " in line for line in of_one)
    assert fab.run("logs", "lines", "--rank", "1")[1].splitlines() == of_one
    assert fab.run("logs", "lines", "--rank", "1", "--tail", "2")[1].splitlines() == of_one[-2:]
    assert fab.run("logs", "lines", "--tail", "3")[1].splitlines() == every[-3:]
    assert fab.run("logs", "lines", "--follow", "--rank=1", "--tail=1")[1].splitlines() == of_one[-1:]
    assert fab.run("logs", "lines", "--rank", "driver")[1] == ""


EVENTS = """
import json, sys
def told(event, **more): print('@regatta', json.dumps({'event': event, 'rank': 0, 't': 0, **more}))
told('ready')
told('progress', what='epochs', done=1, total=4)
print('reads data')
print('text @regatta {"event": "ready"}')
print('@regatta {"event": "ready", "rank": "x"}')
told('phase', name='load', seconds=1.5)
told('error', message='--count 4: the graph has only 3 nodes')
sys.exit(2)
"""


def test_events_of_a_workload_are_words_for_who_looks(fab: Fab) -> None:
    (fab.tree / "train.py").write_text(EVENTS)
    assert fab.run("torchrun", "--name=told", "--workers=1", "train.py")[0] == 2
    kept_whole = ['text @regatta {"event": "ready"}', '@regatta {"event": "ready", "rank": "x"}']
    words = ["load 1.5 s", "error: --count 4: the graph has only 3 nodes"]
    lines = ["epochs 1/4 (25 %)", "reads data", *kept_whole, *words]
    assert fab.run("logs", "told")[1].splitlines() == [f"here/0 | {line}" for line in lines]
    assert fab.run("logs", "told", "--tail=1")[1].splitlines() == [f"here/0 | {lines[-1]}"]
    assert fab.run("logs", "told", "--json")[1].count("@regatta") == 6
    found = kept("told")
    assert found is not None and found.exit.failure is not None and found.exit.code == 2
    assert found.exit.failure.cause == "--count 4: the graph has only 3 nodes"
    assert found.exit.failure.last_lines == ("reads data",)


def test_following_with_a_tail_prints_each_line_once(fab: Fab) -> None:
    fab.orphan("tail")
    following = fab.start("logs", "tail", "--follow", "--tail", "1", "--json")
    read_until(following, "ready")
    time.sleep(0.5)
    fab.sign.touch()
    said, _ = following.communicate(timeout=60)
    assert following.returncode == 0
    texts = [json.loads(line)["text"] for line in said.splitlines()]
    assert sum('"phase"' in text for text in texts) == 2 and sum('"result"' in text for text in texts) == 1
    assert "begun" not in said
