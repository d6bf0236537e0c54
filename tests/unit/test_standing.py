"""The state of ranks, by their processes on this machine; and whom the others wait for, by what nodes say."""

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import typed_json
from test_recording import Fab

from regatta.frameworks import registry
from regatta.hosts.remote import Remote
from regatta.paths import PROJECT
from regatta.run import standing
from regatta_protocol.operations.runs import AskStanding
from regatta_protocol.run import Failure
from regatta_protocol.standing import Frame, Standing, Stood, Thread, Waiting

MEETS = registry.find("torch").meets
TORCH = "/opt/regatta/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
SCRIPT = """\
import os, signal, socket, subprocess, sys, threading, time

def hang(what):
    if what == "sleep":
        time.sleep(600)
    if what == "lock":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    if what == "child":
        subprocess.run(["sleep", "601"])
    if what == "pipe":
        reader, writer = os.pipe()
        os.write(writer, b"x" * (1 << 20))
    if what == "loop":
        while True:
            pass
    if what == "socket":
        server = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(server.getsockname()).recv(1)
    if what == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)

print("begun", flush=True)
hang(sys.argv[1 + int(os.environ["RANK"])])
"""
KINDS = {
    "sleep": r"sleeps at train\.py:5 \(hang\)",
    "lock": r"waits for a lock at train\.py:9 \(hang\)",
    "child": r"waits for its child process 'sleep 601' \(\d+\) at train\.py:11 \(hang\), in run",
    "pipe": r"writes to a pipe \(\d+\) at train\.py:14 \(hang\)",
    "loop": r"computes at train\.py:1[67] \(hang\)",
    "socket": r"reads from 127\.0\.0\.1:\d+ at train\.py:20 \(hang\)",
    "stop": r"is stopped by a signal \(SIGSTOP\) at train\.py:22 \(hang\)",
}


@pytest.fixture
def fab(source: Path, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fab]:
    tools = PROJECT / ".venv-node/bin"
    assert (tools / "py-spy").exists(), "make setup-node"
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    made = Fab(source, here, tmp_path / "sign")
    (made.tree / "train.py").write_text(SCRIPT)
    yield made
    made.run("cancel", "hangs")


def begin(fab: Fab, *words: str) -> "subprocess.Popen[str]":
    process = fab.start("torchrun", "--name=hangs", f"--workers={len(words)}", "train.py", *words)
    assert process.stdout is not None
    left = len(words)
    while left:
        left -= "begun" in next(process.stdout)
    return process


def test_why_says_what_each_rank_waits_for_and_harms_none(fab: Fab, remote: Remote) -> None:
    process = begin(fab, *KINDS)
    code, said = fab.run("why", "hangs")
    assert code == 0, said
    for rank, (kind, words) in enumerate(KINDS.items()):
        assert re.search(rf"^rank {rank}: {words}$", said, re.M), (kind, said)
    last = said.splitlines()[-1]
    assert re.search(r"rank 6 is stopped by a signal at train\.py:22 \(hang\): 'kill -CONT \d+' on here", last)
    code, said = fab.run("why", "hangs", "--json")
    told = typed_json.read("why", said)
    assert code == 0 and {one.rank for one in told.processes} >= {*range(len(KINDS))} and [*told.hosts] == ["here"]
    assert [one.rank for one in told.processes if one.stopped] == [6] and told.likely.startswith("rank 6 is stopped")
    states = [one.state for one in remote.call(remote.cluster.head, AskStanding("hangs")).processes if one.main]
    assert sorted({*states}) in (["R", "S", "T"], ["S", "T"]) and len(states) == len(KINDS)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    code, said = fab.run("why", "hangs")
    assert code == 1 and "hangs is not running: it has cancelled" in said


def test_processes_that_a_rank_has_started_belong_to_it(fab: Fab, remote: Remote) -> None:
    process = begin(fab, "child", "sleep")
    found = remote.call(remote.cluster.head, AskStanding("hangs")).processes
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert {(one.rank, one.main, one.program.rpartition("/")[2]) for one in found} >= {(0, False, "sleep 601")}
    assert sorted(one.rank for one in found if one.main and one.rank is not None) == [0, 1]


def in_call(rank: int, call: str, line: int, **more: object) -> Standing:
    """A rank in a function of torch.distributed, called in a person's own script."""
    frames = (Frame(call, TORCH, 2800), Frame("_exception_logger.<locals>.wrapper", TORCH, 83), own(line))
    return Standing(rank=rank, main=True, state="S", threads=(Thread("MainThread", frames),)).changed(**more)


def own(line: int) -> Frame:
    return Frame("main", "train.py", line, True)


def at(rank: int, line: int, **more: object) -> Standing:
    return Standing(rank=rank, main=True, state="S", threads=(Thread("MainThread", (own(line),)),)).changed(**more)


def cause(*ranks: Standing, **silent: list[int]) -> str:
    found = standing.spots({f"node{one.rank or 0}": Stood((one,)) for one in ranks}, MEETS)
    return standing.likely(found, silent)


def test_the_rank_that_does_not_come_is_named() -> None:
    said = cause(*(in_call(rank, "all_reduce", 12) for rank in (0, 1, 2)), at(3, 9, waiting=Waiting("sleep")))
    expected = "rank 3 is not in the collective that ranks 0-2 wait in (all_reduce at train.py:12 (main)): "
    assert said == expected + "on node3 it sleeps at train.py:9 (main)"


@pytest.mark.parametrize("call", ["broadcast", "barrier", "all_gather"])
def test_ranks_in_different_calls_are_told_apart(call: str) -> None:
    said = cause(in_call(0, "all_reduce", 12), in_call(1, call, 13), in_call(2, "all_reduce", 12))
    assert f"ranks 0, 2 in all_reduce at train.py:12 (main); rank 1 in {call} at train.py:13 (main)" in said


def test_ranks_in_one_call_may_lack_the_network() -> None:
    cut = "10.0.0.2:4000 does not acknowledge what was sent from 10.0.0.1:4001"
    said = cause(in_call(0, "all_reduce", 12, links=(cut,)), in_call(1, "all_reduce", 12))
    assert "the network does not carry their data" in said and cut in said
    said = cause(in_call(0, "all_reduce", 12), in_call(1, "all_reduce", 12))
    assert "same shape and type" in said


def test_ranks_that_meet_at_an_address_of_one_host_are_told_it() -> None:
    lost = ("127.0.0.1:29500 does not answer a connection from 127.0.0.1:40000",)
    said = cause(in_call(0, "init_process_group", 3), in_call(1, "init_process_group", 3, links=lost))
    assert "127.0.0.1:29500" in said


def test_a_host_that_does_not_answer_comes_first() -> None:
    said = cause(in_call(0, "all_reduce", 12), at(1, 9), node2=[2, 3])
    assert said == "node2 does not answer, where ranks 2-3 are: is the host up, and its network?"


def test_who_computes_in_backward_does_not_wait() -> None:
    frames = (Frame("_engine_run_backward", "/x/torch/autograd/graph.py", 9), own(7))
    busy = Standing(rank=0, main=True, state="R", cpu=1.0, threads=(Thread("", frames),))
    assert "rank 1 is not" not in cause(busy, at(1, 9))
    waits = busy.changed(state="S", cpu=0.0, waiting=Waiting("lock"))
    assert cause(waits, at(1, 9)).startswith("rank 1 is not in the collective")


def test_a_rank_that_has_ended_stood_where_its_traceback_says() -> None:
    lines = (
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/var/lib/regatta/runs/r1/work/pkg/train.py", line 42, in main',
        f'[rank0]:   File "{TORCH}", line 83, in wrapper',
        f'[rank0]:   File "{TORCH}", line 3252, in all_reduce',
        "[rank0]: RuntimeError: Timed out waiting 6000ms for recv operation to complete",
    )
    found = standing.fallen("node1", "r1", Failure(rank=0, last_lines=lines), MEETS)
    assert (found.meeting, found.where, found.text) == (
        "all_reduce",
        "pkg/train.py:42 (main)",
        "all_reduce at pkg/train.py:42 (main)",
    )


@pytest.mark.parametrize(
    ("numbers", "said"), [([0], "0"), ([0, 1, 2], "0-2"), ([0, 2, 3], "0, 2-3"), ([1, 3], "1, 3"), ([], "")]
)
def test_numbers_are_folded(numbers: list[int], said: str) -> None:
    assert standing.ranges(numbers) == said


def test_what_a_run_says_of_itself_does_nothing_to_a_terminal() -> None:
    evil = Frame("\x1b]0;x\x07main\n", "\x1b[2J/x.py", 1)
    one = Standing(rank=0, main=True, state="S", program="\x1b[31m", threads=(Thread("", (evil,)),), unseen="\x07")
    for line in standing.lines(standing.spots({"node1": Stood((one,))}, MEETS), {"node1": Stood((one,))}):
        assert line.isprintable()


def test_limits_that_hold_a_run_back_are_named() -> None:
    said = standing.limited({"node1": Stood(limits={"memory": 0.99, "throttled": 0.5}), "node2": Stood()})
    assert said == [
        "on node1 the run uses 99% of the memory that it may use",
        "on node1 its limit of CPU holds the run back (throttled)",
    ]
    assert cause(at(0, 3), at(1, 3)).startswith("ranks 0-1 compute: nothing waits")
    assert (
        cause(at(0, 3, waiting=Waiting("memory")))
        == "rank 0 waits for memory, as its limit is reached at train.py:3 (main)"
    )
    assert (
        "reads its memory from the disk (900 pages a second" in standing.spot("n", at(0, 3, faults=900.0), (), "").text
    )
    assert standing.likely([], {}, said) == "; ".join(said)


def host(busy: int, sent: int, again: int, *processes: Standing) -> list[str]:
    """The reasons that hold a run back on a host of two cores: ticks of 100 in use, segments sent, and sent again."""
    zero = {
        "at": 0.0,
        "cpu": [0, 0],
        "memory": [1, 2],
        "network": [0, 0],
        "disk": [0, 0],
        "segments": [0, 0],
        "cores": 2,
    }
    after = {**zero, "at": 1.0, "cpu": [busy, 100], "segments": [sent, again]}
    return standing.limited({"node1": Stood(processes, before=zero, after=after)})


def test_what_a_host_does_besides_is_named_where_it_holds_a_run_back() -> None:
    ready = Standing(state="R", cpu=0.3)
    assert host(100, 50, 0, ready) == ["node1 has no core left: other processes use 1.7 of its 2"]
    assert host(100, 50, 0, ready, Standing(state="R", cpu=1.6)) == [], "its own processes use them"
    assert host(100, 50, 0, Standing(state="S")) == [] and host(80, 50, 0, ready) == []
    assert host(10, 40, 10) == ["node1 sends 25% of TCP's segments again: its network loses packets"]
    assert host(10, 400, 10) == host(10, 2, 2) == []
