"""The shared folder, as far as it needs no host: what runs and projects have in it, and what the role's modules do."""

import os
import subprocess
import sys
from pathlib import Path

import modules
import pytest
from hostile import needs_root

from regatta.errors import UsageError
from regatta.frameworks.plan import Plan, Program, describe
from regatta.node import outputs, shared
from regatta.node.problem import Problem
from regatta.options import kinds
from regatta.options.declaration import RunOptions
from regatta.release import tree
from regatta.run import kept_folders, shared_cleanup
from regatta_protocol.operations.outputs import SharedParts, SharedRemoved
from regatta_protocol.run import PlanKept

RESUMES = """\
import os, pathlib, sys
state = pathlib.Path("out/epoch")
os.makedirs("out", exist_ok=True)
epoch = int(state.read_text()) if state.exists() else 0
print("begins at epoch", epoch, flush=True)
state.write_text(str(epoch + 1))
assert pathlib.Path(os.environ["REGATTA_PROJECT"], "out/epoch").read_text() == str(epoch + 1)
pathlib.Path(os.environ["REGATTA_SHARED"], "note").write_text("of this run")
"""


class Project:
    """A folder with a script that continues where the last run ended, and what is typed there."""

    def __init__(self, folder: Path, inventory: Path) -> None:
        self.folder, self.inventory = folder, inventory
        folder.mkdir()
        (folder / "train.py").write_text(RESUMES)
        (folder / "regatta.toml").write_text('keep = ["out/"]\n')

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """`regatta` with these words, in the background."""
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("regatta")), *words],
            cwd=self.folder,
            env=os.environ
            | {
                "REGATTA_RESULTS": str(self.folder / "results"),
                "REGATTA_INVENTORY": str(self.inventory),
                "CONFIRM": "yes",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, *words: str, good: bool = True) -> str:
        """`regatta` with these words; all that it printed."""
        with self.start(*words) as process:
            said, _ = process.communicate(timeout=120)
        assert (process.returncode == 0) is good, said
        return said

    def run(self, name: str, *words: str, good: bool = True) -> str:
        """One run of it."""
        return self.type("torchrun", "--workers=1", f"--name={name}", *words, "train.py", good=good)


@pytest.fixture
def project(tmp_path: Path, here: Path) -> Project:
    return Project(tmp_path / "project", here)


def test_the_next_run_goes_on_and_each_has_its_own_part(project: Project, tmp_path: Path) -> None:
    (project.folder / "out").mkdir()
    (project.folder / "out/.gitkeep").touch()
    assert "begins at epoch 0" in project.run("one")
    assert "begins at epoch 1" in project.run("two")
    assert "begins at epoch 2" in project.run("three", "--keep=out,logs/")
    listed = project.type("ls", "two")
    rows = [line.split() for line in listed.splitlines()]
    assert ["shared", "note"] in [[row[0], row[-1]] for row in rows if row]
    assert ["kept", "out/epoch"] in [[row[0], row[-1]] for row in rows if row]
    assert "leads out" not in listed
    project.type("fetch", "two", "--to=here")
    assert (project.folder / "here/shared/note").read_text() == "of this run"
    part = tmp_path / "root/state/shared/runs/two"
    assert oct(part.stat().st_mode & 0o777) == "0o700"
    said = project.type("runs-gc", "--before=2099-01-01")
    assert "3 part(s) of runs" in said and "stays" in said
    assert not part.exists() and list((tmp_path / "root/state/shared/projects").iterdir())
    key = kept_folders.project(project.folder)
    assert "1 of projects" in project.type("runs-gc", "--before=2099-01-01", f"--project={key}")
    assert not list((tmp_path / "root/state/shared/projects").iterdir())


def test_persons_with_one_name_and_path_have_folders_of_their_own(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "begins at epoch 0" in project.run("one")
    monkeypatch.setenv("REGATTA_IDENTITY", str(tmp_path / "settings/of another"))
    assert "begins at epoch 0" in project.run("theirs")
    monkeypatch.setenv("REGATTA_IDENTITY", str(tmp_path / "identity"))
    assert "begins at epoch 1" in project.run("two")
    assert len(list((tmp_path / "root/state/shared/projects").iterdir())) == 2


def test_what_was_kept_under_the_former_key_is_carried_over_once(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    projects = tmp_path / "root/state/shared/projects"
    old = projects / kept_folders.former(project.folder)
    (old / "out").mkdir(parents=True)
    (old / "out/epoch").write_text("7")
    assert "begins at epoch 7" in project.run("one")
    assert (old / "out/epoch").read_text() == "8", "runs that began under the former key find it there"
    place = {"state": str(tmp_path / "root/state"), "user": None}
    assert shared.part(place, f"projects/{old.name}") == str(projects / kept_folders.project(project.folder))
    monkeypatch.setenv("REGATTA_IDENTITY", str(tmp_path / "another"))
    assert "begins at epoch 0" in project.run("theirs"), "the first one has taken it"
    monkeypatch.setenv("REGATTA_IDENTITY", str(tmp_path / "identity"))
    project.type("runs-gc", "--before=2099-01-01", f"--project={kept_folders.project(project.folder)}")
    assert len(list(projects.iterdir())) == 1 and not old.is_symlink()


@pytest.mark.parametrize("content", ["", "short", "0" * 40])
def test_an_identity_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    first = kept_folders.project(tmp_path)
    assert kept_folders.project(tmp_path) == first and first != kept_folders.project(tmp_path.parent)
    (tmp_path / "identity").write_text(content)
    with pytest.raises(UsageError, match="has no identity"):
        kept_folders.project(tmp_path)


def test_two_runs_at_once_that_keep_the_same_folder(project: Project) -> None:
    (project.folder / "train.py").write_text("import time\nprint('going', flush=True)\ntime.sleep(60)\n")
    (project.folder / "other.py").touch()
    first = project.start("torchrun", "--workers=1", "--name=first", "train.py")
    try:
        assert first.stdout
        assert any("going" in line for line in iter(first.stdout.readline, ""))
        said = " ".join(project.type("torchrun", "--workers=1", "--now", "--name=second", "other.py").split())
        assert "first is running and keeps out/ of this project" in said
        none = project.type("torchrun", "--workers=1", "--now", "--name=third", "--keep=logs", "other.py")
        assert "keeps" not in none
    finally:
        project.type("cancel", "first")
        first.communicate(timeout=60)


def test_code_in_a_kept_folder_is_refused(project: Project) -> None:
    (project.folder / "out").mkdir()
    (project.folder / "out/model.py").write_text("x = 1\n")
    assert "out/model.py would come there with the code" in " ".join(project.run("one", good=False).split())


@pytest.mark.parametrize("words", [["/tmp"], [".."], ["."], [""], ["out", "out/deep"], ["a/../../b"]])
def test_folders_that_cannot_be_kept(words: list[str]) -> None:
    with pytest.raises(UsageError, match="--keep"):
        kinds.folders(words)


def test_folders_that_are_kept() -> None:
    assert kinds.folders(["out/", "./logs", "out"]) == ("logs", "out")


def test_a_link_in_a_kept_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "train.py").touch()
    (tmp_path / "out/link").symlink_to("../train.py")
    with pytest.raises(UsageError, match="out/link"):
        kept_folders.check(tree.read(tmp_path), ("out",))


@pytest.mark.parametrize("name", ["../x", "runs/..", "runs/", "runs/a/b", "runs/.verify", ""])
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    with pytest.raises(Problem):
        shared.part({"state": "/nowhere"}, name)


@pytest.mark.parametrize("link", ["runs", "runs/one"])
def test_a_link_in_the_place_of_a_part_leads_nowhere(tmp_path: Path, link: str) -> None:
    place = {"state": str(tmp_path)}
    (tmp_path / "secret/one").mkdir(parents=True)
    (tmp_path / "secret/one/key").touch()
    (tmp_path / "shared" / link).parent.mkdir(parents=True)
    (tmp_path / "shared" / link).symlink_to(tmp_path / ("secret" if link == "runs" else "secret/one"))
    with pytest.raises(Problem, match="something else"):
        outputs.listing(place, "one", part="runs/one")
    if link == "runs/one":
        assert shared.parts(place) == SharedParts({}, {})
        assert shared.remove(place, ["one"], [], 0.0) == SharedRemoved((), (), 0)
    assert (tmp_path / "secret/one/key").exists()


def test_parts_that_a_later_generation_needs_stay() -> None:
    class Info:
        def __init__(self, run: str, first: str | None = None) -> None:
            self.run, self.plan = run, PlanKept(shared=first or run)

    first, second, alone = Info("first"), Info("first-g2", "first"), Info("alone")
    old = tuple(shared_cleanup.SharedFolder(name, 1, 5.0) for name in ("first", "alone", "nobodys"))
    parts = shared_cleanup.Parts((*old, shared_cleanup.SharedFolder("new", 1, 50.0)), ())
    gone = shared_cleanup.to_go(parts, [first, second, alone], [first, alone], before=10.0)  # type: ignore[list-item, arg-type]
    assert [part.name for part in gone] == ["alone", "nobodys"]


def test_what_is_mounted_below(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    points = ("/", "/var/lib/regatta", "/var/lib/regatta/sha\\040red", "/var/lib/regatta-hdfs")
    table.write_text("".join(f"1 0 0:1 / {point} rw - ext4 x rw\n" for point in points))
    found = modules.load("mounts", "module_utils/mounts.py").at_or_below("/var/lib/regatta/", table)
    assert found == ["/var/lib/regatta", "/var/lib/regatta/sha red"]
    assert modules.load("mounts", "module_utils/mounts.py").at_or_below("/", table) == [
        "/",
        "/var/lib/regatta",
        "/var/lib/regatta/sha red",
        "/var/lib/regatta-hdfs",
    ]


def test_two_runs_at_once_that_keep_the_same_folder_are_told() -> None:
    def made(run: str, project: str | None, *keep: str, first: str | None = None) -> Plan:
        program = Program(("train.py",), "train")
        return Plan(
            run, "torch", program, "0", (), 1, "env", options=RunOptions(keep=keep), project=project, first_run=first
        )

    class Info:
        def __init__(self, plan: Plan) -> None:
            self.run, self.plan = plan.run, describe(plan)

    mine = made("mine", "digits-1", "logs", "out")
    others = [made("other", "digits-1", "out"), made("apart", "digits-1", "data"), made("theirs", "digits-2", "out")]
    (said,) = kept_folders.clashes(mine, [Info(one) for one in (*others, made("plain", None))])  # type: ignore[misc]
    assert said.startswith("other is running and keeps out/ of this project")
    assert (mine.shared, made("mine-g2", None, first="mine").shared) == ("mine", "mine")


@needs_root
def test_removal_stops_at_what_is_mounted(tmp_path: Path) -> None:
    """In its own mount namespace, as what is bound there has the same device number as all around it."""
    for name in ("state/shared", "data"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data/model").touch()
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import ansible.module_utils, modules
ansible.module_utils.__path__.append(str(modules.ANSIBLE / "module_utils"))
files = modules.load("files", "library/node_files.py")
try:
    files.remove_tree({str(tmp_path / "state")!r})
except files.FilesError as error:
    print(error)
"""
    bind = f"mount --bind {tmp_path}/data {tmp_path}/state/shared"
    command = ["unshare", "--mount", "sh", "-c", f'{bind} && exec "$0" -c "$1"', sys.executable, program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"{tmp_path}/state/shared is mounted in it" in done.stdout, done.stderr
    assert (tmp_path / "data/model").exists()
