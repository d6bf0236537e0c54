"""Root works next to a run that puts links, FIFOs, deep trees and nonsense at every path of its folder."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile import PATHS, PLANTED, USER, Victim, dig, needs_root, open_folder, plant, state

from regatta.node import listing, pruning, rights, rundirs, runs, trees
from regatta.node.problem import Problem
from regatta_protocol.operations.runs import Watched
from regatta_protocol.run import PlanKept, Spec
from regatta_protocol.states import Mode

RUN = "evil"
SECONDS = 20.0
__all__ = ["open_folder"]


@pytest.fixture
def victim(open_folder: Path) -> Victim:
    return Victim(open_folder)


@pytest.fixture
def place(open_folder: Path) -> Iterator[dict]:
    yield state(open_folder, RUN)


def tried(work: object, *words: object) -> object:
    """Return what it gives, or the message that it may end with; it never takes long."""
    began = time.monotonic()
    try:
        return work(*words)  # type: ignore[operator]
    except (Problem, OSError) as error:
        return error
    finally:
        assert time.monotonic() - began < SECONDS


def heard(said: Watched) -> None:
    """Enough of a log that may be huge."""
    if said.lines is not None:
        raise Problem("heard")


def used(place: dict, victim: Victim) -> None:
    """Everything that a controller may ask of a node about a run."""
    tried(runs.stop, place, RUN, "tried")
    if Path(place["state"], "runs", RUN, "exit.json").is_file():
        tried(runs.watch, place, RUN, 0, heard)
    assert {item.id for item in listing.runs(place)} <= {RUN}
    assert set(rundirs.unfinished(place)["runs"]) <= {RUN}
    assert victim.untouched


@needs_root
@pytest.mark.parametrize("kind", PLANTED)
def test_root_follows_nothing(place: dict, victim: Victim, kind: str) -> None:
    folder = Path(place["state"], "runs", RUN)
    paths = [f"stop.json.{os.getpid()}.new", *PATHS]
    for path in paths if "deep" not in kind else ["scratch", "exit.json", "work"]:
        plant(folder, path, kind, victim)
    used(place, victim)
    said = pruning.prune(place, [RUN], 1e9)
    assert said.runs == (RUN,) and not list(folder.parent.iterdir()) and victim.untouched


@needs_root
@pytest.mark.parametrize("path", PATHS)
def test_no_path_is_followed_in_an_otherwise_good_folder(place: dict, victim: Victim, path: str) -> None:
    for kind in ("a link to a file of root's", "a FIFO"):
        plant(Path(place["state"], "runs", RUN), path, kind, victim)
        used(place, victim)


@needs_root
def test_a_run_tells_only_of_itself(place: dict, victim: Victim) -> None:
    """Another run is listed as ever next to one whose files are nonsense."""
    folder = Path(place["state"], "runs", RUN)
    for name in ("spec.json", "exit.json", "log"):
        plant(folder, name, "JSON of other types", victim)
    os.utime(folder, (1.0, 1.0))
    (item,) = listing.runs(place)
    assert item.spec.framework == "?" * 2 + "[2J" and item.state == "failed" and item.spec.plan == PlanKept()
    assert item.spec.release == "" and item.started > 0


@needs_root
def test_a_folder_in_the_way_of_the_mark_keeps_no_run_going(place: dict) -> None:
    folder = Path(place["state"], "runs", RUN)
    (folder / "stop.json" / "full").mkdir(parents=True)
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait", str(folder)], user=USER, cwd="/") as process:
        (folder / "pid.json").write_text(json.dumps({"pid": process.pid}))
        runs.stop(place, RUN, "tried")
        assert process.wait(10) == -signal.SIGTERM


@needs_root
def test_trees_of_any_shape_go(open_folder: Path) -> None:
    top = open_folder / "tree"
    dig(top)
    for name in ("-rf", "a\nb", " ", "*"):
        (top / name).mkdir()
        (top / name / "file").write_text("x" * 5000)
    (top / "shut").mkdir(mode=0o700)
    (top / "shut" / "file").touch()
    trees.size(str(top))
    os.system(f"chown -R {USER}: {top}")
    (top / "shut").chmod(0)
    assert rights.call(USER, lambda: trees.size(str(top))) > 4 * 5000
    assert rights.call(USER, lambda: trees.remove(str(top)))
    assert list(top.iterdir()) == []  # the account may not write in the folder around it


def test_a_tree_goes_where_path_names_no_folder_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree/shut").mkdir(parents=True)
    (tmp_path / "tree/shut/file").write_text("x" * 5000)
    (tmp_path / "tree/shut").chmod(0o555)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert trees.size(str(tmp_path / "tree")) > 4096
    assert trees.remove(str(tmp_path / "tree")) and not (tmp_path / "tree").exists()


@needs_root
def test_a_folder_of_a_run_is_made_as_its_account(place: dict, victim: Victim) -> None:
    release = Path(place["root"], "releases", "ab12")
    release.mkdir()
    (release / "train.py").touch()
    spec = Spec("good", Mode.MEMBER, "ray", "ab12", files={"boot/x.py": "pass\n"})
    folder = Path(runs.start(place, spec).folder)
    owners = {path.owner() for path in (folder, *folder.rglob("*")) if not path.is_symlink()}
    assert owners == {USER} and folder.stat().st_mode & 0o777 == 0o750
    assert (folder / "work" / "train.py").read_bytes() == b"" and not (folder / "work" / "train.py").is_symlink()
    with pytest.raises(Problem, match="exists already"):
        runs.start(place, spec)
