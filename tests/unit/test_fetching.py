"""Files that runs here have left: looked at, chosen, fetched, proven; hostile names, links, interruptions."""

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from regatta.errors import DataError, UsageError
from regatta.hosts.remote import Remote
from regatta.hosts.rsync import PARTIAL
from regatta.node import outputs as node_outputs
from regatta.node import runs
from regatta.options import kinds
from regatta.release import sync, tree
from regatta.run import fetching, outputs
from regatta.run.outputs import Run
from regatta_protocol.run import Spec
from regatta_protocol.states import Mode

ODD = os.fsdecode(b"odd \xff\n'name'")


@pytest.fixture
def run(remote: Remote, source: Path) -> Run:
    """A run that has its folder and no process."""
    synced = sync.sync(remote, tree.read(source), remote.cluster.nodes)
    node = remote.cluster.head
    runs.start(remote.place(node), Spec("one", Mode.MEMBER, "ray", synced.tree.release))
    return Run("one", (node,), ("here",))


@pytest.fixture
def work(remote: Remote, run: Run) -> Path:
    return Path(remote.cluster.head.state, "runs", run.id, "work")


def names(remote: Remote, run: Run, *patterns: str) -> dict[str, bool]:
    parts, failed = outputs.look(remote, run, kinds.patterns(patterns))
    assert not failed
    return {file.path: file.changed for part in parts for file in part.files}


def fetch(remote: Remote, run: Run, target: Path, *patterns: str) -> fetching.Fetched:
    parts, _ = outputs.look(remote, run, kinds.patterns(patterns))
    return fetching.fetch(remote, run, parts, target)


def test_only_what_was_written_or_changed_is_listed(remote: Remote, run: Run, work: Path) -> None:
    assert names(remote, run) == {}
    (work / "train.py").touch()
    (work / "package" / "__init__.py").write_text("changed")
    (work / "package" / "new.txt").write_text("new")
    (work / "package" / "__pycache__").mkdir()
    (work / "package" / "__pycache__" / "x.pyc").touch()
    assert names(remote, run) == {"package/__init__.py": True, "package/new.txt": False}
    assert names(remote, run, "**/__pycache__") == {"package/__pycache__/x.pyc": False}


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("out", ["out", "out/a", "out/b/c"], ["outer", "b/out"]),
        ("out/*.pt", ["out/a.pt"], ["out/b/a.pt", "out/a.ptx"]),
        ("**/*.csv", ["a.csv", "x/y/a.csv"], ["a.csvx"]),
        ("out/**", ["out/a", "out/b/c"], ["outer/a"]),
        ("a?[0-9].t[!x]t", ["ab1.txt".replace("x", "y")], ["ab1.txt", "a/1.tyt"]),
        ("a+(b)", ["a+(b)"], ["aab"]),
        ("line*", ["line\nbreak"], ["a line"]),
    ],
)
def test_patterns(pattern: str, fits: list[str], fits_not: list[str]) -> None:
    found = re.compile(node_outputs.expression(pattern), re.DOTALL)
    assert [word for word in fits if not found.match(word)] == []
    assert [word for word in fits_not if found.match(word)] == []


@pytest.mark.parametrize("pattern", ["", "/etc/passwd", "../x", "out/../../x"])
def test_a_pattern_leads_nowhere_else(pattern: str) -> None:
    with pytest.raises(UsageError, match="relative"):
        kinds.patterns([pattern])


def test_files_come_whole_with_names_of_any_kind(remote: Remote, run: Run, work: Path, tmp_path: Path) -> None:
    for name in (ODD, "a b", "-rf", "$(touch x)", "package/deep/er/file"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(name.encode(errors="replace").decode())
    done = fetch(remote, run, tmp_path / "here")
    found = {str(path.relative_to(tmp_path / "here")) for path in (tmp_path / "here").rglob("*") if path.is_file()}
    assert found == {ODD, "a b", "-rf", "$(touch x)", "package/deep/er/file"}
    assert (done.files, done.notes, done.failed) == (5, (), {})
    (tmp_path / "here" / "a b").write_text("spoilt")
    at = (work / "a b").stat()
    os.truncate(tmp_path / "here" / "a b", at.st_size)
    with (tmp_path / "here" / "a b").open("r+") as file:
        file.write("xxx")
    os.utime(tmp_path / "here" / "a b", ns=(at.st_atime_ns, at.st_mtime_ns))
    fetch(remote, run, tmp_path / "here")
    assert (tmp_path / "here" / "a b").read_text() == "a b"


def test_links_are_followed_inside_alone(remote: Remote, run: Run, work: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (work / "kept").write_text("kept")
    for name, target in (
        ("inside", "kept"),
        ("out", tmp_path / "secret"),
        ("up", ".."),
        ("lost", "x"),
        ("f", "package"),
    ):
        (work / name).symlink_to(target)
    os.mkfifo(work / "pipe")
    parts, _ = outputs.look(remote, run)
    said = outputs.reasons(parts)
    for text in (
        "out is a link that leads out",
        "up is a link that leads out",
        "lost is a link",
        "f is a link",
        "a FIFO",
    ):
        assert any(text in line for line in said), said
    fetch(remote, run, tmp_path / "here")
    assert {path.name: path.is_symlink() for path in (tmp_path / "here").iterdir()} == {"inside": False, "kept": False}


def test_a_run_that_replaces_its_folder_is_not_followed(remote: Remote, run: Run, work: Path, tmp_path: Path) -> None:
    work.rename(work.with_name("mine"))
    work.symlink_to(tmp_path)
    _, failed = outputs.look(remote, run)
    assert "something else in the place" in str(failed["here"])


def test_files_of_several_nodes_lie_by_node(remote: Remote, run: Run, work: Path, tmp_path: Path) -> None:
    (work / "same").write_text("x")
    known = replace(run, planned=("here", "away"))
    parts, failed = outputs.look(remote, known)
    assert "away" in failed
    fetching.fetch(remote, known, parts, tmp_path / "here")
    assert (tmp_path / "here" / "here" / "same").read_text() == "x"


def test_a_limit_stands_before_a_surprise(remote: Remote, run: Run, work: Path) -> None:
    with (work / "large").open("wb") as file:
        file.truncate(10_000_000_000)
    parts, _ = outputs.look(remote, run)
    with pytest.raises(DataError, match=r"10\.0 GB are more than 2 GB.*--max-gb 10"):
        fetching.check("one", parts, 2.0)
    fetching.check("one", parts, 10.0)


def test_no_room_here_is_said_before_anything_comes(
    remote: Remote, run: Run, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "new").write_bytes(b"x" * 1000)
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    monkeypatch.setattr(fetching, "_SPARE", 2 * free)  # other programs may free some meanwhile
    with pytest.raises(DataError, match="disk of this machine"):
        fetch(remote, run, tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_a_file_that_is_being_written_is_said(remote: Remote, run: Run, work: Path, tmp_path: Path) -> None:
    (work / "log").write_text("one\n")
    parts, _ = outputs.look(remote, run)
    (work / "log").write_text("one\ntwo\n")
    done = fetching.fetch(remote, run, parts, tmp_path / "here")
    assert any("log is being written" in note for note in done.notes)
    (work / "log").unlink()
    done = fetching.fetch(remote, run, parts, tmp_path / "here")
    assert any("log is gone" in note for note in done.notes)


INTERRUPTED = """
import sys
from pathlib import Path
from regatta.hosts import inventories
from regatta.hosts.remote import Remote
from regatta.run import fetching, outputs
remote = Remote(inventories.load(sys.argv[1]))
run = outputs.Run("one", (remote.cluster.head,), ("here",))
fetching.fetch(remote, run, outputs.look(remote, run)[0], Path(sys.argv[2]))
"""


def test_ctrl_c_keeps_what_has_come(remote: Remote, run: Run, work: Path, here: Path, tmp_path: Path) -> None:
    block = os.urandom(1 << 20)
    with (work / "large").open("wb") as file:
        for number in range(600):
            file.write(number.to_bytes(4, "big") + block)
    target = tmp_path / "come"
    going = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(here), str(target)], stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not [path for path in target.rglob(".large.*") if path.stat().st_size > 20 << 20]:
        assert time.monotonic() < end and going.poll() is None, "it never came that far"
        time.sleep(0.005)
    going.send_signal(2)
    assert going.wait(30)
    kept = target / PARTIAL / "large"
    assert kept.stat().st_size > 1 << 20 and not (target / "large").exists()
    fetch(remote, run, target)
    assert (target / "large").stat().st_size == (work / "large").stat().st_size and not kept.exists()
