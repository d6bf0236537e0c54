"""Runs on this machine only: real processes, followed, cancelled, killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regatta.errors import NodesError, RunError
from regatta.frameworks import plan
from regatta.frameworks.api import StartedRun
from regatta.hosts import inventories
from regatta.hosts.remote import Remote
from regatta.hosts.sources import supervisor_files
from regatta.release import sync, tree
from regatta.run import catalogue, launch, naming, placement, watch
from regatta.run import follow as run_follow
from regatta.run.follow import Follower
from regatta.run.outcome import Outcome
from regatta_protocol import events
from regatta_protocol.decoding import encode
from regatta_protocol.operations.launch import InputFile, Inspect
from regatta_protocol.operations.runs import Pruned
from regatta_protocol.run import Begun, Process, Started
from regatta_protocol.states import Mode

SCRIPT = """\
SPIN = "import time; [None for _ in iter(lambda: time.process_time() < 0.3, False)]"
import os, signal, subprocess, sys, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], sys.argv[1:], flush=True)
mode = sys.argv[1] if len(sys.argv) > 1 else "end"
mine = os.environ["RANK"] == "1"
if mode == "daemon":
    subprocess.Popen(["setsid", "sleep", "297"], stdout=subprocess.DEVNULL)
if mode == "exit" and mine:
    print("about to fail", flush=True)
    sys.exit(7)
if mode == "kill" and mine:
    os.kill(os.getpid(), signal.SIGKILL)
if mode == "busy":
    block = b"x" * (96 << 20)
    subprocess.Popen([sys.executable, "-c", SPIN], start_new_session=True, stdout=subprocess.DEVNULL).wait()
    import socket
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    other, _ = server.accept()
    for _ in range(64):
        client.sendall(block[: 1 << 14])
        left = 1 << 14
        while left:
            left -= len(other.recv(left))
if mode == "spoil":
    open(os.path.join(os.getcwd(), "..", "spec.json"), "w").write('{"network": [1], "temporary": 3}')
if mode == "short":
    time.sleep(4)
    print("rank", os.environ["RANK"], "ends", flush=True)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode in ("exit", "kill", "wait", "daemon-wait", "stubborn"):
    if mode == "daemon-wait":
        subprocess.Popen(["setsid", "sleep", "298"], stdout=subprocess.DEVNULL)
    time.sleep(120)
"""


@pytest.fixture
def started(remote: Remote, source: Path) -> Iterator[object]:
    """Start the script with arguments on two ranks; whatever still runs at the end is stopped."""
    (source / "train.py").write_text(SCRIPT)
    handles = []

    def start(*args: str, name: str | None = None, script: str = "train.py", workers: int = 2) -> StartedRun:
        synced = sync.sync(remote, tree.read(source), remote.cluster.nodes, ask={"here": Inspect(ports=plan.PORTS)})
        cores = {"here": synced.answers["here"].facts["cores"]}
        made = plan.Plan(
            run=name or naming.new_run_name("t", "torch"),
            framework="torch",
            program=plan.Program.script(script, args),
            release=synced.tree.release,
            ranks=placement.spread(workers, remote.cluster.workers, cores),
            threads=1,
            launcher="env",
            master_port=synced.answers["here"].ports[0],
        )
        handle = launch.start(remote, made)
        handles.append(handle)
        return handle

    yield start
    for handle in handles:
        launch.stop_everywhere(remote, handle, list(handle.nodes), "test over")


def follow(remote: Remote, handle: StartedRun) -> tuple[Outcome, list[tuple[int | None, str]]]:
    lines: list[tuple[int | None, str]] = []
    outcome = Follower(remote, handle, lambda _, rank, text, _came: lines.append((rank, text))).follow()
    return outcome, lines


def wait_for(condition: object, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def processes(mark: str) -> list[int]:
    """Processes of a run, by its mark in their environment."""
    found = []
    for name in (path.name for path in Path("/proc").iterdir() if path.name.isdigit()):
        with contextlib.suppress(OSError):
            if mark.encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
    return [pid for pid in found if pid != os.getpid()]


def test_arguments_arrive_as_typed_and_every_rank_speaks(remote: Remote, started) -> None:
    args = ["end", "a b", "$(touch /tmp/x)", "';'", "-x", "line\nbreak", "*"]
    outcome, lines = follow(remote, started(*args))
    assert outcome.state == "succeeded"
    first = {rank: text for rank, text in lines if text.startswith("rank")}
    assert first == {0: f"rank 0 of 2 {args}", 1: f"rank 1 of 2 {args}"}


def test_what_a_run_used_is_told_by_its_supervisor(remote: Remote, started) -> None:
    outcome, _ = follow(remote, started("busy"))
    used = outcome.used["here"]
    assert used["cpu_seconds"] >= 0.6  # of two ranks' children
    assert used["largest_bytes"] > 96 << 20
    assert used["read_bytes"] >= 0 and used["written_bytes"] >= 0
    assert used["interface"] == "lo"
    assert used["sent_bytes"] >= 2 << 20  # two ranks, 1 MiB each
    assert used["received_bytes"] >= 2 << 20


def test_a_run_that_spoils_its_own_spec_ends_like_others(remote: Remote, started) -> None:
    outcome, _ = follow(remote, started("spoil"))
    assert outcome.state == "succeeded"
    assert "interface" not in outcome.used["here"]


def test_a_failing_rank_ends_the_others_and_is_named(remote: Remote, started) -> None:
    handle = started("exit")
    outcome, _ = follow(remote, handle)
    assert (outcome.state, outcome.code) == ("failed", 7)
    assert outcome.failure is not None
    assert (outcome.failure.node, outcome.failure.rank) == ("here", 1)
    assert outcome.failure.last_lines[-1] == "about to fail"
    assert "rank 1 on here: exited with code 7" in outcome.failure.text()
    wait_for(lambda: not processes(f"REGATTA_RUN_ID={handle.run}"), 5)


LOADS = "import os; mark = lambda name: open(os.environ['REGATTA_SCRATCH'] + name, 'w').close(); mark('/.torch')"
JOINS = f"{LOADS}; os.environ['RANK'] == '1' and mark('/.joined')"


@pytest.mark.parametrize(
    ("script", "workers", "warned"),
    [
        (LOADS, 2, True),
        (JOINS, 2, False),
        ("pass", 2, False),
        (LOADS, 1, False),
        (f"{LOADS}; raise SystemExit(3)", 2, False),
    ],
    ids=["alone", "joined", "without torch", "one rank", "failed"],
)
def test_ranks_that_never_meet_are_warned_of(
    remote: Remote, started, source: Path, script: str, workers: int, warned: bool
) -> None:
    (source / "ranks.py").write_text(script)
    _, lines = follow(remote, started(script="ranks.py", workers=workers))
    said = [event.message for _, text in lines if isinstance(event := events.parse_line(text), events.WarningEvent)]
    assert ["2 ranks ran, and none joined a process group" in text for text in said] == [True] * warned


def test_a_killed_rank_is_told_from_one_that_exits(remote: Remote, started) -> None:
    outcome, _ = follow(remote, started("kill"))
    assert outcome.code == 137
    assert outcome.failure is not None
    assert outcome.failure.cause == "killed by SIGKILL"


def test_nothing_is_left_after_the_end_not_even_a_daemon(remote: Remote, started) -> None:
    handle = started("daemon")
    outcome, _ = follow(remote, handle)
    assert outcome.state == "succeeded"
    assert processes(f"REGATTA_RUN_ID={handle.run}") == []
    assert not (Path(remote.cluster.head.state) / "runs" / handle.run / "scratch").exists()


@pytest.mark.parametrize("mode", ["daemon-wait", "stubborn"])
def test_cancel_ends_everything(remote: Remote, started, mode: str) -> None:
    handle = started(mode)
    mark = f"REGATTA_RUN_ID={handle.run}"
    wait_for(lambda: len(processes(mark)) >= (4 if mode == "daemon-wait" else 2))
    catalogue.cancel(remote, catalogue.find(remote, handle.run))
    assert processes(mark) == []
    info = catalogue.find(remote, handle.run)
    assert info.state == "stopped"
    with pytest.raises(RunError, match="is not running: it has stopped"):
        catalogue.cancel(remote, info)
    outcome, _ = follow(remote, handle)
    assert outcome.state == "stopped"


def test_a_node_that_is_silent_for_a_while_is_asked_again(
    remote: Remote, started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SILENT_SECONDS", 0.3)  # its heart beats once a second
    outcome, lines = follow(remote, started("short"))
    assert outcome.state == "succeeded", outcome
    assert sorted(text for _, text in lines if "ends" in text) == ["rank 0 ends", "rank 1 ends"]


def test_who_follows_a_run_that_prints_nothing_learns_it_once(
    remote: Remote, started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_follow, "QUIET_SECONDS", 1.0)
    quiet: list[float] = []
    outcome = Follower(remote, started("short"), lambda *_: None, on_quiet=quiet.append).follow()
    assert outcome.state == "succeeded" and len(quiet) == 1


def test_a_run_survives_its_controller_and_can_be_attached_to(remote: Remote, started) -> None:
    handle = started("wait")
    follower = Follower(remote, handle, lambda *_: None)
    with contextlib.suppress(TimeoutError):

        def leave(*_: object) -> None:
            raise TimeoutError

        signal.signal(signal.SIGALRM, leave)
        signal.setitimer(signal.ITIMER_REAL, 1.5)
        follower.follow()
    signal.setitimer(signal.ITIMER_REAL, 0)
    info = catalogue.find(remote, handle.run[:-2])
    assert info.state == "running"
    assert {text for _, _, text in catalogue.log(remote, info)} == {f"rank {r} of 2 ['wait']" for r in (0, 1)}
    catalogue.cancel(remote, info)
    outcome, lines = follow(remote, handle)
    assert len(lines) == 2
    assert outcome.state == "stopped"


def test_killed_supervisor_is_told_as_lost_and_its_ranks_can_be_ended(remote: Remote, started) -> None:
    handle = started("wait")
    wait_for(lambda: len(processes(f"REGATTA_RUN_ID={handle.run}")) >= 2)
    folder = Path(remote.cluster.head.state) / "runs" / handle.run
    os.kill(json.loads((folder / "pid.json").read_text())["pid"], signal.SIGKILL)
    outcome, _ = follow(remote, handle)
    assert outcome.state == "failed"
    assert outcome.failure is not None
    assert "vanished" in outcome.failure.cause
    assert processes(f"REGATTA_RUN_ID={handle.run}") == []


def test_what_a_killed_supervisor_leaves_behind_can_be_cancelled_later(remote: Remote, started) -> None:
    handle = started("daemon-wait")
    mark = f"REGATTA_RUN_ID={handle.run}"
    wait_for(lambda: len(processes(mark)) >= 4)
    folder = Path(remote.cluster.head.state) / "runs" / handle.run
    os.kill(json.loads((folder / "pid.json").read_text())["pid"], signal.SIGKILL)
    wait_for(lambda: catalogue.find(remote, handle.run).state == "lost")
    assert processes(mark)
    catalogue.cancel(remote, catalogue.find(remote, handle.run))
    assert processes(mark) == []
    assert catalogue.find(remote, handle.run).state == "lost"


def test_ctrl_c_while_a_run_is_being_started_leaves_nothing(
    remote: Remote, started, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather = remote.gather

    def interrupted(*args: object) -> object:
        done = gather(*args)  # type: ignore[arg-type]
        monkeypatch.setattr(remote, "gather", gather)
        if any(isinstance(answer, Started) for answer in done[0].values()):
            raise KeyboardInterrupt
        return done

    def at_launch(*args: object, **kwargs: object) -> object:
        monkeypatch.setattr(remote, "gather", interrupted)
        return start(*args, **kwargs)

    start = launch.start
    monkeypatch.setattr(launch, "start", at_launch)
    with pytest.raises(KeyboardInterrupt):
        started("wait", name="early")
    assert processes("REGATTA_RUN_ID=early") == []
    assert catalogue.find(remote, "early").state == "stopped"


def test_the_same_name_twice_is_refused_and_the_first_goes_on(remote: Remote, started) -> None:
    started("wait", name="mine")
    with pytest.raises(NodesError, match="a run named 'mine' exists already"):
        started("wait", name="mine")
    assert catalogue.find(remote, "mine").state == "running"


def test_a_program_that_cannot_be_started(remote: Remote, started) -> None:
    outcome, lines = follow(remote, started(script="no_such_script.py"))
    assert outcome.state == "failed"
    assert any("no_such_script.py" in text for _, text in lines)


def test_long_and_broken_lines_arrive(remote: Remote, started, source: Path) -> None:
    (source / "odd.py").write_text(
        "import sys\nw = sys.stdout.buffer\nw.write(b'x' * 300000 + b'\\n')\nw.write(b'bad \\xff\\xfe\\n')\n"
        "w.write(b'one\\rtwo\\n')\nw.write(b'no newline at the end')\n"
    )
    outcome, lines = follow(remote, started(script="odd.py", workers=1))
    assert outcome.state == "succeeded"
    texts = [text for _, text in lines]
    assert texts == ["x" * 300000, "bad \ufffd\ufffd", "two", "no newline at the end"]


def test_scripts_read_beside_them_and_write_where_they_run(remote: Remote, started, source: Path) -> None:
    (source / "package" / "data.txt").write_text("from the tree")
    (source / "package" / "nested.py").write_text(
        "import pathlib, sys\nimport helper\npathlib.Path('snapshot.pt').write_text('state')\n"
        "print(pathlib.Path('package/data.txt').read_text(), helper.__name__, sys.path[0])\n"
    )
    (source / "package" / "helper.py").write_text("")
    handle = started(script="package/nested.py", workers=1)
    outcome, lines = follow(remote, handle)
    assert outcome.state == "succeeded", lines
    release = catalogue.find(remote, handle.run).release
    root = Path(remote.cluster.head.root) / "releases" / release
    work = Path(remote.cluster.head.state) / "runs" / handle.run / "work"
    assert lines == [(0, f"from the tree helper {work / 'package'}")]
    assert (work / "snapshot.pt").read_text() == "state"
    assert not (root / "snapshot.pt").exists()


def test_unknown_and_ambiguous_runs_are_explained(remote: Remote, started) -> None:
    with pytest.raises(RunError, match="no run 'nothing'"):
        catalogue.find(remote, "nothing")
    started("end", name="same-1")
    started("end", name="same-2")
    with pytest.raises(RunError, match="may be any of same-1, same-2"):
        catalogue.find(remote, "same-")
    assert catalogue.find(remote, "last").run == "same-2"


def aged(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds, time.time() - seconds))


def test_what_ended_runs_left_is_deleted(remote: Remote, started) -> None:
    state = Path(remote.cluster.head.state)
    for name in ("kept", "over"):
        follow(remote, started("end", name=name))
    lost = started("daemon-wait", name="lost")
    wait_for(lambda: (state / "runs/lost/pid.json").exists() and len(processes("REGATTA_RUN_ID=lost")) == 4)
    os.kill(json.loads((state / "runs/lost/pid.json").read_text())["pid"], signal.SIGKILL)
    wait_for(lambda: catalogue.find(remote, "lost").state == "lost")
    (state / "runs/.removed-earlier/work").mkdir(parents=True)
    chosen = [catalogue.find(remote, name) for name in ("over", "lost")]
    done, failed = catalogue.delete(remote, chosen, 0)
    assert not failed and (done["here"].runs, done["here"].going) == (("over", "lost"), ())
    assert done["here"].bytes > 0
    assert sorted(path.name for path in (state / "runs").iterdir()) == [".kept.json", "kept"]
    assert not processes("REGATTA_RUN_ID=lost")
    launch.stop_everywhere(remote, lost, list(lost.nodes), "test over")


def test_inputs_stay_while_a_run_goes_on_or_asks_for_them(remote: Remote, started) -> None:
    data = Path(remote.cluster.head.state) / "data"
    for sha256, age in (("old", 100), ("asked", 100), ("new", 10)):
        (data / sha256).mkdir(parents=True)
        (data / sha256 / "edges.txt").write_text("1 2\n")
        aged(data / sha256, age)
    started("wait", name="going")
    wait_for((Path(remote.cluster.head.state) / "runs/going/pid.json").exists)
    said = catalogue.delete(remote, [catalogue.find(remote, "going")], 50)[0]["here"]
    assert said == Pruned(runs=(), going=("going",), inputs=0, bytes=0)
    catalogue.cancel(remote, catalogue.find(remote, "going"))
    asked = Inspect(facts_wanted=False, data=(InputFile("asked", "edges.txt", 4),))
    assert remote.call(remote.cluster.head, asked).data == {"asked": True}
    assert catalogue.delete(remote, [], 50)[0]["here"].inputs == 1
    assert sorted(path.name for path in data.iterdir()) == ["asked", "new"]


def test_results_of_ray_go_with_the_runs_that_made_them(remote: Remote, started) -> None:
    results = Path(remote.cluster.head.state) / "home/ray_results"
    for name, trial, age in (("old", 100, 100), ("goes-on", 10, 100), ("new", 10, 10)):
        (results / name / "trial").mkdir(parents=True)
        (results / name / "trial/result.json").write_text("{}")
        aged(results / name / "trial", trial)
        aged(results / name, age)
    started("wait", name="going")
    wait_for((Path(remote.cluster.head.state) / "runs/going/pid.json").exists)
    catalogue.delete(remote, [], 50)
    assert len(list(results.iterdir())) == 3
    catalogue.cancel(remote, catalogue.find(remote, "going"))
    assert catalogue.delete(remote, [], 50)[0]["here"].bytes > 0
    assert sorted(path.name for path in results.iterdir()) == ["goes-on", "new"]


def test_supervisor_alone_ends_descendants_when_terminated(tmp_path: Path) -> None:
    """The effect of `kill` of the supervisor's process, without the controller."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name, text in supervisor_files().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    sleeper = [sys.executable, "-c", "import subprocess; subprocess.run(['setsid', 'sleep', '299'])"]
    spec = Begun("r1", Mode.SESSION, "single", "ab", {"MARK": str(tmp_path)}, (Process(0, tuple(sleeper)),))
    (folder / "spec.json").write_text(json.dumps(encode(spec.changed(cwd=str(tmp_path)))))
    process = subprocess.Popen([sys.executable, folder / "supervisor.py", folder])
    wait_for(lambda: len(processes(f"MARK={tmp_path}")) >= 2)
    process.terminate()
    assert process.wait(10) == 143
    assert processes(f"MARK={tmp_path}") == []
    ended = json.loads((folder / "exit.json").read_text())
    assert (ended["state"], ended["code"]) == ("failed", 143)
    assert "is the host shutting down?" in ended["failure"]["cause"]


def test_supervisor_of_a_run_that_was_stopped_before_it_began_starts_nothing(tmp_path: Path) -> None:
    for name, text in supervisor_files().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "stop.json").write_text("{}")
    rank = Process(0, ("touch", str(tmp_path / "started")))
    spec = Begun("r1", Mode.SESSION, "single", "ab", {}, (rank,), cwd=str(tmp_path))
    (tmp_path / "spec.json").write_text(json.dumps(encode(spec)))
    done = subprocess.run([sys.executable, tmp_path / "supervisor.py", tmp_path], check=False)
    assert done.returncode == 143
    assert not (tmp_path / "started").exists()


def test_cluster_of_this_machine_is_local(here: Path) -> None:
    assert inventories.load(str(here)).local
