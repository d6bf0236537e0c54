"""Data tasks, as far as they need no cluster."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regatta.errors import DataError, UsageError
from regatta.hdfs import client as hdfs
from regatta.hdfs import files as hdfsfiles
from regatta.hdfs import status
from regatta.hosts import sources
from regatta.terminal.meter import Meter, size_text
from regatta_protocol import sent
from workloads.common.storage import frames


def test_addresses() -> None:
    assert hdfs.address("/a/b") == "hdfs:///a/b"
    assert hdfs.address("hdfs://head:8020/a") == "hdfs://head:8020/a"
    with pytest.raises(UsageError, match="no path in HDFS"):
        hdfs.address("a/b")


def test_both_sides_mean_the_same_frames() -> None:
    pipe = io.BytesIO()
    frames.send_json(pipe, a=1)
    frames.send(pipe, b"D", b"xyz")
    head = hdfs._HEAD.unpack(pipe.getvalue()[: hdfs._HEAD.size])
    assert (hdfs._HEAD.format, hdfs.LARGEST) == (frames.HEAD.format, frames.LARGEST)
    assert head == (b"J", len(json.dumps({"a": 1})))
    pipe.seek(0)
    assert frames.receive(pipe) == (b"J", b'{"a": 1}')
    assert frames.receive(pipe) == (b"D", b"xyz")
    for rest in (b"", b"D\0", b"D\0\0\0\5abc", b"Xabcd" + b"x" * 10):
        with pytest.raises(frames.Cut):
            frames.receive(io.BytesIO(rest))


def test_the_sources_that_are_sent_hold_together() -> None:
    for name, text in hdfs._sources().items():
        compile(text, name, "exec")
    text = sent.program(
        hdfs._sources(), "import sys\nfrom workloads.common.storage import frames\nprint(*sys.modules)\n"
    )
    command = [sys.executable, "-ISc", sources.BOOT, str(len(text))]
    said = subprocess.run(command, input=text, capture_output=True, check=True, cwd="/").stdout.split()
    assert {b"workloads", b"workloads.common", b"workloads.common.storage", b"workloads.common.storage.frames"} <= {
        *said
    }


def test_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "t" / "d").mkdir(parents=True)
    (tmp_path / "t" / "d" / "x").write_text("x")
    assert hdfsfiles._files(tmp_path / "t") == [("d/x", tmp_path / "t" / "d" / "x")]
    assert hdfsfiles._files(tmp_path / "t" / "d" / "x") == [("x", tmp_path / "t" / "d" / "x")]
    with pytest.raises(DataError, match="no file or folder"):
        hdfsfiles._files(tmp_path / "gone")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", ".."])
def test_a_name_in_hdfs_does_not_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="leads out"):
        hdfsfiles._inside(tmp_path, name)


def test_the_meter_prints_now_and_then_in_a_pipe() -> None:
    time, out = [0.0], io.StringIO()
    with Meter("x", 100_000_000, out, lambda: time[0]) as meter:
        for second in range(10):
            time[0] = float(second)
            meter.add(10_000_000)
    assert out.getvalue().splitlines() == [
        "x: 40.0 of 100.0 MB (40 %), 13.3 MB/s",
        "x: 70.0 of 100.0 MB (70 %), 11.7 MB/s",
        "x: 100.0 of 100.0 MB (100 %), 11.1 MB/s",
    ]


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    leader, follower = os.openpty()
    with os.fdopen(follower, "w") as stream, Meter("big.bin", 100, stream) as meter:
        meter.add(50)
        meter.add(50)
        seen = b""
        while b"big.bin" not in seen:
            seen += os.read(leader, 100_000)
    os.close(leader)


def test_sizes() -> None:
    assert [size_text(count) for count in (0, 999, 1500, 2e6, 3.21e9, 5e15)] == [
        *("0 B", "999 B", "1.5 kB", "2.0 MB", "3.2 GB", "5000.0 TB")
    ]


def test_status() -> None:
    node = {"xferaddr": "10.0.0.1:9866", "capacity": 100, "usedSpace": 10, "remaining": 50, "numBlocks": 3}
    beans = {
        "NameNodeInfo": {
            "SoftwareVersion": "3.4.3",
            "Safemode": "Safe mode is ON.\nThe reported blocks 0",
            "Total": 100,
            "Used": 10,
            "Free": 50,
            "TotalBlocks": 3,
            "NumberOfMissingBlocks": 1,
            "LiveNodes": json.dumps(
                {"node1:9866": node | {"lastContact": 1, "adminState": "Decommission In Progress"}}
            ),
            "DeadNodes": json.dumps({"node2:9866": {"lastContact": 90, "xferaddr": "10.0.0.2:9866"}}),
        },
        "FSNamesystem": {"UnderReplicatedBlocks": 2, "CorruptBlocks": 0},
        "FSNamesystemState": {"NumLiveDataNodes": 1, "NumDeadDataNodes": 1, "NumDecommissioningDataNodes": 1},
    }
    state = status.read(beans)
    text = "\n".join(state.lines())
    assert "1 live, 1 dead, 1 leaving" in text
    assert "2 with too few copies" in text
    assert "Safe mode is ON. The reported blocks 0" in text
    assert [(row[0], row[1]) for row in state.table()[1:]] == [("node1", "leaving"), ("node2", "DEAD")]
    assert "1 block(s) have no copy" in state.problems()[0]
    assert not any(len(row) != 8 for row in state.table())


def test_a_folder_that_cannot_be_put_in_place_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "tree", tmp_path / "tree.part"
    mine = [tmp_path / "tree.replaced", tmp_path / "tree.old"]
    for folder, text in ((old, "old"), (new, "new"), *((folder, "mine") for folder in mine)):
        folder.mkdir()
        (folder / "file").write_text(text)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("no")))
        with pytest.raises(OSError):
            hdfsfiles._put_in_place(new, old)
    assert (old / "file").read_text() == "old"
    hdfsfiles._put_in_place(new, old)
    assert (old / "file").read_text() == "new"
    assert all((folder / "file").read_text() == "mine" for folder in mine)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tree", "tree.old", "tree.replaced"]
