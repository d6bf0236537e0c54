"""Events, ranks and the folder that the ranks of a host share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launching import PROJECT, ended, python, start

from regatta_protocol.log import PREFIX
from workloads.common import events
from workloads.common.events import BadInput
from workloads.common.failures import WorkerFailed
from workloads.common.ranks import Ranks
from workloads.common.ray import placement
from workloads.common.shared import HostFolder

WRITER = """
from workloads.common import events
import sys
for i in range(300):
    events.warning(sys.argv[1] + "x" * 3000)
"""

MAPPER = """
import sys
from pathlib import Path
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder
from workloads.ppr import part

build = part.graphs.build
def counted(*arguments):
    print("built")
    return build(*arguments)
part.graphs.build = counted
options = part.Options(sys.argv[1], (), 1, 1, 0.1, 1e-6, 9, False, "csr")
one = part.Part(options, Ranks(int(sys.argv[2]), 2, int(sys.argv[2]), 2))
one.load(HostFolder.of_run(2, "t"))
one.compute()
for line in sorted({tuple(line.split()[3:6]) for line in Path("/proc/self/maps").open() if ".npy" in line}):
    print("mapped", *line)
"""


def test_lines_of_processes_that_share_a_pipe_do_not_mix() -> None:
    reading = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reading.stdin
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, name], stdout=reading.stdin, cwd=PROJECT) for name in "abc"
    ]
    reading.stdin.close()
    assert reading.stdout
    lines = reading.stdout.read().splitlines()
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert reading.wait() == 0
    reading.stdout.close()
    seen = [json.loads(line.removeprefix(PREFIX))["message"] for line in lines]
    assert sorted(seen) == sorted(f"{name}{'x' * 3000}" for name in "abc" * 300)


def test_what_was_printed_before_comes_before() -> None:
    script = "from workloads.common import events; print('log', end='!\\n'); events.ready(); print('end')"
    lines = python("-c", script, RANK="3").out.splitlines()
    assert (lines[0], json.loads(lines[1][9:])["rank"], lines[2]) == ("log!", 3, "end")


def test_kept_events_are_taken_once_and_replayed() -> None:
    script = (
        "from workloads.common import events as e; take = e.keep(); e.set_rank(2)\n"
        "with e.phase('load'): pass\n"
        "assert len(kept := take()) == 1 and take() == []; e._State.sink = staticmethod(e.write); e.replay(kept)"
    )
    (event,) = python("-c", script).events
    assert (event["event"], event["rank"], event["name"]) == ("phase", 2, "load")


def test_a_phase_that_fails_is_not_reported_and_bad_input_ends_with_2() -> None:
    script = (
        "from workloads.common import events\n"
        "try:\n    with events.phase('load'): raise events.BadInput('no')\n"
        "except events.BadInput as error: events.bad_input(error)"
    )
    run = python("-c", script)
    assert run.status == 2
    assert [(event["event"], event["message"]) for event in run.events] == [("error", "no")]


def test_peak_memory_is_the_kernels() -> None:
    before = events.peak_bytes()
    block = bytearray(64 << 20)
    for page in range(0, len(block), 4096):
        block[page] = 1
    del block
    assert events.peak_bytes() >= before
    assert events.peak_bytes() > 64 << 20


def ticks(seconds: float) -> int:
    """Seconds in the kernel's own unit: as floats, differences of hundredths are not what they seem."""
    return round(seconds * os.sysconf("SC_CLK_TCK"))


def test_cpu_is_that_of_threads_and_of_children_that_have_ended() -> None:
    spin = "import time\nwhile time.process_time() < 0.2: pass"
    before = events.cpu_seconds()
    subprocess.run([sys.executable, "-c", spin], check=True)
    assert ticks(events.cpu_seconds() - before) >= ticks(0.19)
    here, before = time.thread_time(), events.cpu_seconds()
    while time.thread_time() - here < 0.1:
        pass
    assert ticks(events.cpu_seconds() - before) >= ticks(0.08)


def test_ranks_from_the_environment() -> None:
    assert Ranks.from_environment({}) == Ranks(0, 1, 0, 1)
    launched = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    assert Ranks.from_environment(launched) == Ranks(5, 8, 1, 2)


def test_ray_ranks_follow_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        {"NodeManagerAddress": "10.0.0.1", "NodeID": "a", "Alive": True, "Resources": {"CPU": 2.0}},
        {"NodeManagerAddress": "10.0.0.2", "NodeID": "b", "Alive": True, "Resources": {"CPU": 1.0}},
        {"NodeManagerAddress": "10.0.0.3", "NodeID": "c", "Alive": False, "Resources": {}},
    ]
    monkeypatch.setenv("REGATTA_RANK_MAP", '["10.0.0.2", "10.0.0.1", "10.0.0.2"]')
    places = placement.places(nodes, "a")
    assert places == [("10.0.0.2", "b"), ("10.0.0.1", "a"), ("10.0.0.2", "b")]
    assert placement.ranks([node for _, node in places]) == [Ranks(0, 3, 0, 2), Ranks(1, 3, 0, 1), Ranks(2, 3, 1, 2)]
    monkeypatch.setenv("REGATTA_RANK_MAP", '["10.0.0.3"]')
    with pytest.raises(WorkerFailed, match=r"no Ray node at 10.0.0.3: the cluster has 10.0.0.1, 10.0.0.2"):
        placement.places(nodes, "a")
    monkeypatch.delenv("REGATTA_RANK_MAP")
    assert [node for _, node in placement.places(nodes, "a")] == ["a", "a", "b"]


def test_both_ranks_of_a_host_map_the_same_files(tmp_path: Path) -> None:
    graph = tmp_path / "g.txt"
    graph.write_text("".join(f"{i} {i * 7 % 5000}\n" for i in range(5000)))
    environment = {"REGATTA_SCRATCH": str(tmp_path / "scratch")}
    both = [start(["-c", MAPPER, str(graph), rank], environment) for rank in "01"]
    runs = [ended(process, 60) for process in both]
    assert [run.status for run in runs] == [0, 0], runs[0].err + runs[1].err
    mapped = [[line for line in run.out.splitlines() if line.startswith("mapped")] for run in runs]
    assert mapped[0] == mapped[1]
    assert {Path(line.split()[-1]).name for line in mapped[0]} >= {"columns.npy", "degrees.npy", "indptr.npy"}
    assert sum(run.out.count("built") for run in runs) == 1


def test_a_temporary_folder_goes_when_all_have_opened_it(tmp_path: Path) -> None:
    first, second = (HostFolder(tmp_path / "f", 2, discard=True) for _ in range(2))

    def make(folder: Path) -> None:
        (folder / "x").write_text("made")

    def read(folder: Path) -> str:
        return (folder / "x").read_text()

    assert first.once("n", make, read) == "made"
    assert first.path.exists()
    assert second.once("n", lambda _: pytest.fail("made twice"), read) == "made"
    assert not first.path.exists()


def test_a_refusal_is_shared_and_a_failure_is_tried_again(tmp_path: Path) -> None:
    folder = HostFolder(tmp_path, 2, discard=False)

    def refuse(_: Path) -> None:
        raise BadInput("bad")

    def fail(_: Path) -> None:
        raise OSError("disk")

    with pytest.raises(BadInput, match="bad"):
        folder.once("n", refuse, Path.exists)
    with pytest.raises(BadInput, match="bad"):
        folder.once("n", lambda _: None, Path.exists)
    with pytest.raises(OSError, match="disk"):
        folder.once("m", fail, Path.exists)
    assert folder.once("m", lambda _: None, Path.exists)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["m"]
