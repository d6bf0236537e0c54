"""Files that a run leaves, listed and fetched: chosen by patterns, proven, and nothing from outside of its folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regatta.hosts.remote import Remote
from regatta.run import outputs

SCRIPT = """\
import os, pathlib
pathlib.Path("out").mkdir(exist_ok=True)
pathlib.Path("out/model.pt").write_bytes(b"weights" * 1000)
pathlib.Path("out/deep").mkdir()
pathlib.Path("out/deep/a b\\n.csv").write_text("1")
pathlib.Path("train.py").write_text("changed")
pathlib.Path("package/own.py").write_text("changed")
os.symlink("/etc/hostname", "out/outside.txt")
os.symlink("model.pt", "out/same.pt")
os.mkfifo("out/fifo")
"""


class Project:
    """A folder with a script, and what is typed there."""

    def __init__(self, folder: Path, inventory: Path) -> None:
        self.folder, self.inventory = folder, inventory
        (folder / "package").mkdir(parents=True)
        (folder / "package/own.py").write_text("as it was")
        (folder / "train.py").write_text(SCRIPT)

    def type(self, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """`regatta` with these words."""
        return subprocess.run(
            [str(Path(sys.executable).with_name("regatta")), words[0], f"--inventory={self.inventory}", *words[1:]],
            cwd=self.folder,
            env=os.environ | {"REGATTA_RESULTS": str(self.folder / "results")} | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """The script, as the run `one`."""
        done = self.type("torchrun", "--workers=1", "--name=one", *words, "train.py")
        assert done.returncode == 0, done.stdout + done.stderr
        return done


@pytest.fixture
def project(tmp_path: Path, here: Path) -> Project:
    return Project(tmp_path / "project", here)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (["out/_SUCCESS", "out/part-00000-a.csv"], ["out/part-00001-a.csv"], ["out is in pieces on here and there"]),
        (["out/_SUCCESS"], ["out/_temporary/0/task_1/part-00001-a.csv"], ["out is in pieces on there"]),
        (["out/_SUCCESS", "out/part-00000-a.csv", "out/part-00001-a.csv"], ["log"], []),
        (["a/part-1"], ["b/part-2", "part-00000"], []),
    ],
)
def test_what_executors_wrote_each_on_its_own_host_is_named(
    pair: Remote, first: list[str], second: list[str], said: list[str]
) -> None:
    parts = [
        outputs.NodeOutput(node, len(paths), 0, tuple(outputs.File(path, 1, 1, False) for path in paths), (), "/w")
        for node, paths in zip(pair.cluster.nodes, (first, second), strict=True)
    ]
    found = outputs.pieces(parts)
    assert len(found) == len(said)
    assert all(line.startswith(words) for line, words in zip(found, said, strict=True))


def test_a_run_changes_its_own_copy_and_all_of_it_comes_back(project: Project) -> None:
    project.run()
    listed = project.type("ls", "one")
    assert listed.returncode == 0, listed.stderr
    lines = [line.split() for line in listed.stdout.splitlines()]
    assert next(line for line in lines if line[-1] == "out/model.pt")[-2] == "new"
    assert next(line for line in lines if line[-1] == "package/own.py")[-2] == "changed"
    assert "outside.txt" in listed.stdout + listed.stderr and "fifo" in listed.stdout + listed.stderr
    shown = project.type("show", "one").stdout
    assert "left        5 files" in shown and "/runs/one/work" in shown and "regatta fetch one" in shown
    assert "out/" in project.type("runs").stdout.splitlines()[1]
    other = project.type("runs", REGATTA_RESULTS=str(project.folder / "another"))
    assert other.stdout.splitlines()[1].split()[-1].endswith(f":{project.folder / 'results'}")
    fetched = project.type("fetch", "one")
    assert fetched.returncode == 0, fetched.stderr
    there = project.folder / "results/one"
    files = {str(path.relative_to(there)) for path in there.rglob("*") if not path.is_dir()}
    assert files == {"out/model.pt", "out/same.pt", "out/deep/a b\n.csv", "train.py", "package/own.py"}
    assert (there / "out/model.pt").read_bytes() == b"weights" * 1000
    assert not any(path.is_symlink() for path in there.rglob("*"))
    assert (project.folder / "package/own.py").read_text() == "as it was"
    again = project.type("torchrun", "--workers=1", "--name=two", "train.py")
    assert again.returncode == 0, "the release is as it was:\n" + again.stdout + again.stderr


def test_patterns_choose_at_the_end_of_a_run_and_later(project: Project) -> None:
    project.run("--fetch=out/*.pt")
    there = project.folder / "results/one"
    assert sorted(path.name for path in there.rglob("*") if path.is_file()) == ["model.pt", "same.pt"]
    to = project.type("fetch", "one", "**/*.csv", "--to=elsewhere")
    assert to.returncode == 0, to.stderr
    assert [path.name for path in (project.folder / "elsewhere").rglob("*") if path.is_file()] == ["a b\n.csv"]
    nothing = project.type("fetch", "one", "nothing/*")
    assert nothing.returncode != 0
    assert "nothing/*" in nothing.stderr


def test_outputs_of_the_project_file_and_a_limit(project: Project) -> None:
    (project.folder / "regatta.toml").write_text('outputs = ["out/*.pt"]\n')
    project.run()
    assert (project.folder / "results/one/out/model.pt").is_file()
    small = project.type("fetch", "one", "--to=small", "--max-gb=0.000001")
    assert small.returncode != 0
    assert "--max-gb" in small.stderr and not list((project.folder / "small").rglob("*.pt"))
