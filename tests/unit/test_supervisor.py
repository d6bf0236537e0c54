"""The supervisor of a run, as its own process: limits of time and log, peers that fail, progress bars."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from regatta.hosts.sources import supervisor_files
from regatta.node import runlog, runs
from regatta.node.rank import Output
from regatta_protocol.operations.runs import Watched

YES = ["yes", "a line of a program that prints without pause"]
BAR = """\
import sys, time
for step in range(25):
    sys.stderr.write(f"\\r{step} of 25")
    sys.stderr.flush()
    time.sleep(0.1)
sys.stderr.write("\\rdone\\n")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "runs/r1"
    made.mkdir(parents=True)
    for name, text in supervisor_files().items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text)
    return made


def begin(folder: Path, *programs: list[str], **spec: Any) -> "subprocess.Popen[bytes]":
    ranks = [{"rank": number, "argv": argv, "env": {}} for number, argv in enumerate(programs)]
    about = {"id": "r1", "mode": "session", "framework": "single", "release": "ab"}
    whole = {**about, "cwd": str(folder), "env": {}, "ranks": ranks, **spec}
    (folder / "spec.json").write_text(json.dumps(whole))
    return subprocess.Popen([sys.executable, folder / "supervisor.py", folder], stdout=subprocess.PIPE)


def ended(folder: Path, process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    process.communicate(timeout=60)
    return dict(json.loads((folder / "exit.json").read_text()))


def test_a_rank_that_prints_without_pause_meets_its_time_limit(folder: Path) -> None:
    said = ended(folder, begin(folder, YES, time_limit=1.5, limits={"log_bytes": 1_000_000}))
    assert (said["code"], said["codes"]) == (124, {"0": -15})
    assert sum(path.stat().st_size for path in folder.glob("log*")) <= 1_100_000
    told: list[Watched] = []
    runs.watch({"state": str(folder.parents[1])}, "r1", 0, told.append)
    lines = [line for item in told for line in item.lines or ()]
    assert [0, YES[1]] in lines
    (gap,) = [text for rank, text in lines if rank is None]
    whole = runlog.end(str(folder))
    kept = sum(len(f"0|{text}\n") for rank, text in lines if rank == 0)
    assert f"{whole - kept:,}" in gap


def test_a_peer_that_fails_is_noticed_beside_one_that_prints_without_pause(folder: Path) -> None:
    peer = [sys.executable, "-c", "import sys; print('no more'); sys.exit(3)"]
    said = ended(folder, begin(folder, YES, peer, limits={"log_bytes": 1_000_000}))
    assert (said["failure"]["rank"], said["code"], said["failure"]["last_lines"]) == (1, 3, ["no more"])


def test_a_time_limit_counts_though_nothing_is_printed(folder: Path) -> None:
    process = begin(folder, ["sh", "-c", "echo begun; exec sleep 60"], time_limit=0.3)
    said = ended(folder, process)
    assert said["code"] == 124 and said["failure"]["last_lines"] == ["begun"]
    assert said["failure"]["cause"] == "time limit of 0.3 s reached (--time-limit)"
    assert 0.2 < said["failure"]["at"] - said["started"] < 3  # not at the end of an idle wait of 5 s


def test_a_progress_bar_stands_in_place_and_leaves_its_last_state(folder: Path) -> None:
    process = begin(folder, [sys.executable, "-c", BAR])
    seen: list[str] = []
    while process.poll() is None:
        told: list[Watched] = []
        runs._emit_bars(str(folder), 0, told.append)
        seen += [text for item in told for _, text in item.bars if text not in seen]
        time.sleep(0.05)
    ended(folder, process)
    assert seen and all(text.endswith(" of 25") for text in seen) and len(seen) <= 6
    assert (folder / "log").read_text() == "0|done\n"
    assert not (folder / "live.json").exists()


def test_ranks_go_first_where_memory_is_used_up(folder: Path) -> None:
    process = begin(folder, ["cat", "/proc/self/oom_score_adj"])
    ended(folder, process)
    assert (folder / "log").read_text() == "0|1000\n"


@pytest.mark.parametrize(
    ("printed", "lines", "bar"),
    [
        (b"one\r\ntwo\r\n", [b"one", b"two"], None),
        (b"\r 10%\r 20%", [], b" 20%"),
        (b" 10%\r 20%\r", [], b" 20%"),
        (b" 10%\r 20%\r\n", [b" 20%"], None),
        (b"\r 10%\r\n\n", [b" 10%", b""], None),
        (b"\r 10%\n@regatta {}\n\r 1", [b" 10%", b"@regatta {}"], b" 1"),
        (b"\r\r\r", [], b""),
    ],
)
def test_what_a_terminal_would_show_last(printed: bytes, lines: list[bytes], bar: bytes | None) -> None:
    for size in (1, 2, 3, len(printed)):
        output, found = Output(), []
        for at in range(0, len(printed), size):
            found += output.take(printed[at : at + size])
        assert (found, output.bar) == (lines, bar)
    assert output.flush() == ([bar] if bar is not None else [])
    assert output.bar is None


def test_a_line_without_end_is_cut() -> None:
    output = Output()
    lines = [line for _ in range(40) for line in output.take(b"x" * (1 << 16))] + output.flush()
    assert len(lines) == 3 and sum(map(len, lines)) == 40 << 16
