"""The working directory of a run: its own copy of the release, under every framework."""

import os
from pathlib import Path

import pytest

from regatta.frameworks.ray.run import sitecustomize
from regatta.node import manifest, working


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A tree as it is on a node: read-only."""
    root = tmp_path / "release"
    (root / "out" / "deep").mkdir(parents=True)
    (root / "train.py").write_text("print(1)\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o555)
    (root / "out" / "README").write_text("results go here\n")
    (root / "out" / os.fsdecode(b"odd\xff\nname")).write_bytes(b"x" * 3_000_000)
    (root / "latest").symlink_to("out/README")
    for path in (root / "train.py", root / "out" / "README"):
        path.chmod(0o444)
        os.utime(path, ns=(5, 1_600_000_000_123_456_789))
    return root


def entries(root: Path) -> list:
    return [manifest.entry(root, path) for path in manifest.walk(str(root))]


def test_it_is_a_copy_to_write_in(release: Path, tmp_path: Path) -> None:
    before, work = entries(release), tmp_path / "work"
    working.make(str(release), str(work))
    assert entries(work) == before
    assert (work / "train.py").stat().st_mtime_ns == (release / "train.py").stat().st_mtime_ns
    assert (work / "train.py").stat().st_mode & 0o777 == 0o644 and (work / "run.sh").stat().st_mode & 0o777 == 0o755
    for path in [path for path in work.rglob("*") if path.is_file()]:
        with path.open("ab") as file:
            file.write(b"changed")
    (work / "out" / "new.txt").write_text("new")
    (work / "run.sh").unlink()
    assert entries(release) == before


def test_what_is_too_large_is_a_link_to_the_release(release: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    working.make(str(release), str(work), most=1000)
    large = list(work.rglob("odd*"))
    assert [path.is_symlink() for path in large] == [True] and large[0].stat().st_size == 3_000_000
    assert not (work / "train.py").is_symlink() and not (work / "out" / "README").is_symlink()


@pytest.mark.parametrize(
    ("argv", "where", "goes"),
    [
        (["python", "/env/ray/_private/workers/default_worker.py", "--node-ip"], "elsewhere", True),
        (["python", "-m", "pyspark.daemon", "pyspark.worker"], "elsewhere", True),
        (["python", "train.py"], "elsewhere", False),
        (["python", "/env/default_worker.py"], "runtime_resources/working_dir_files/_ray_pkg_1", False),
    ],
)
def test_workers_of_ray_and_spark_go_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], where: str, goes: bool
) -> None:
    (tmp_path / where).mkdir(parents=True)
    (tmp_path / "run" / "work").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / where)
    sitecustomize.enter(argv, str(tmp_path / "run" / "boot"))
    assert Path.cwd() == (tmp_path / "run" / "work" if goes else tmp_path / where)
    (tmp_path / "run" / "work").rename(tmp_path / "gone")
    sitecustomize.enter(argv, str(tmp_path / "run" / "boot"))  # a host where the run has no folder
