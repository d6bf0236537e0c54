"""The synced files, the requirements and the start of a program, from any folder of its project."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import running

from regatta import paths
from regatta.cards import project as projects
from regatta.environment import other_lists, requirements
from regatta.errors import UsageError
from regatta.projects import place

NODE = paths.PROJECT / ".venv-node/bin/python"
TELLS = """\
import os, pathlib, sys
pathlib.Path("out").mkdir(exist_ok=True)
pathlib.Path("out/x.txt").write_text("x")
print("told", open("conf").read().strip(), sys.argv[0], os.path.basename(os.getcwd()), os.environ.get("FRUIT"))
"""
CARD = '[workloads.teller]\nabout = "Tells"\ncommand = "t.py"\nframeworks = ["single", "torch"]\n'


def repository(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_toml", ".toml").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder.resolve()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git tree with a project in the folder `ex`, and a folder in that."""
    monkeypatch.delenv("REGATTA_RESULTS", raising=False)
    return repository(
        tmp_path / "x/tree",
        conf="root\n",
        t_py=TELLS,
        ex__conf="ex\n",
        ex__t_py=TELLS,
        ex__regatta_toml=f'outputs = ["out/*.txt"]\n[environment.variables]\nFRUIT = "pear"\n{CARD}',
        ex__deep__conf="deep\n",
        ex__deep__t_py=TELLS,
    )


def test_the_files_that_mark_a_project_are_those_that_are_read_or_named() -> None:
    assert (projects.FILE, *requirements.FOUND, *other_lists.COMMANDS) == paths.MARKS


def test_tree_project_and_start(tree: Path) -> None:
    assert place.of(tree) == place.Place(tree, tree, tree)
    assert place.of(tree / "ex/deep") == place.Place(tree, tree / "ex", tree / "ex/deep")
    assert place.of(tree / "ex/deep").below == "ex/deep" and place.of(tree).below == ""
    (tree / "ex/deep/environment.yml").touch()
    assert place.of(tree / "ex/deep").project == tree / "ex/deep"


def test_without_git_a_regatta_toml_makes_the_tree_and_a_list_does_not(tmp_path: Path) -> None:
    below = tmp_path / "a/b"
    below.mkdir(parents=True)
    (tmp_path / "requirements.txt").touch()
    assert place.of(below) == place.Place(below, below, below)
    (tmp_path / "regatta.toml").touch()
    assert place.of(below) == place.Place(tmp_path, tmp_path, below)


def test_a_repository_that_git_does_not_look_for_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = repository(tmp_path / "tree", pyproject_toml="", home__a__t_py="")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tree / "home"))
    below = tree / "home/a"
    assert place.of(below) == place.Place(below, below, below)


def test_a_path_is_named_from_where_someone_stands(tree: Path) -> None:
    here = place.of(tree / "ex/deep")
    assert here.named("out/*.pt", here.start) == "ex/deep/out/*.pt"
    assert here.named("../out", here.start) == "ex/out" == here.named("out", here.project)
    with pytest.raises(UsageError, match="outside of"):
        here.named("../../../out", here.start)


def told(done: "subprocess.CompletedProcess[str]") -> list[str]:
    assert done.returncode == 0, done.stdout + done.stderr
    return next(line for line in done.stdout.splitlines() if "told " in line).partition("told ")[2].split()


@pytest.mark.parametrize(
    ("where", "script", "expected"),
    [
        (".", "t.py", ["root", "t.py", "work", "None"]),
        (".", "ex/t.py", ["root", "ex/t.py", "work", "None"]),
        ("ex", "t.py", ["ex", "t.py", "ex", "pear"]),
        ("ex/deep", "../t.py", ["deep", "../t.py", "deep", "pear"]),
    ],
)
def test_a_run_begins_where_one_stands(where: str, script: str, expected: list[str], tree: Path, here: Path) -> None:
    words = ("torchrun", f"--inventory={here}", "--workers=1", "--no-environment")
    assert told(running.typed(tree / where, *words, script)) == expected
    results = tree / ("." if where == "." else "ex") / "results"
    assert len([*results.glob("*.json")]) == 1, "records are the project's"
    if where == "ex":
        assert [path.name for path in results.glob("*/**/x.txt")] == ["x.txt"], "outputs are the project's"
        shell = running.typed(tree / where, "shell", f"--inventory={here}", "last", entered="cat conf\n")
        assert shell.stdout.split()[-1:] == ["ex"], shell.stdout + shell.stderr


@pytest.mark.whole
@pytest.mark.skipif(not NODE.exists(), reason="needs .venv-node: make setup-node")
def test_workers_of_ray_begin_where_the_driver_does(tree: Path, here: Path) -> None:
    hosts = here / "hosts.yml"
    hosts.write_text(hosts.read_text().replace(sys.executable, str(NODE)))
    task = "@ray.remote\ndef read():\n    return open('conf').read().strip()\n"
    (tree / "ex/r.py").write_text(f"import ray\nray.init()\n{task}print('told', ray.get(read.remote()))\n")
    done = running.typed(tree / "ex", "rayrun", f"--inventory={here}", "--workers=1", "--no-environment", "r.py")
    assert told(done) == ["ex"]


def test_a_workload_begins_in_its_project_and_has_the_whole_tree(tree: Path, here: Path) -> None:
    (tree / "shared.py").write_text("WORD = 'whole'\n")
    script = tree / "ex/t.py"
    script.write_text(f"import shared\n{TELLS}print('has', shared.WORD)\n")
    words = ("run", "teller", f"--inventory={here}", "--workers=1", "--framework=torch", "--no-single")
    done = running.typed(tree / "ex/deep", *words)
    assert told(done) == ["ex", "t.py", "ex", "pear"] and "has whole" in done.stdout
    (record,) = (tree / "ex/results").glob("*.json")
    assert json.loads(record.read_text())["exit"]["state"] == "succeeded"
    (tree / "ex/deep/results").mkdir()
    (tree / "ex/deep/results/old.json").write_text("{}")
    listed = running.typed(tree / "ex/deep", "runs", "--records")
    assert "1 record(s) that are not read" in listed.stderr and record.stem in listed.stdout


def test_folders_of_pythonpath_are_added_to_those_of_the_run(tree: Path, here: Path, tmp_path: Path) -> None:
    (tree / "ex/lib").mkdir()
    (tree / "ex/lib/lemon.py").write_text("WORD = 'sour'\n")
    (tree / "ex/main.py").write_text("import lemon, shared\nprint('told', lemon.WORD, shared.WORD)\n")
    (tree / "shared.py").write_text("WORD = 'whole'\n")
    words = ("torchrun", f"--inventory={here}", "--workers=1", "--no-environment")
    assert told(running.typed(tree / "ex", *words, "--env", "PYTHONPATH=lib", "main.py")) == ["sour", "whole"]
    (tmp_path / "more.env").write_text("PYTHONPATH=lib\n")
    (tmp_path / "more.env").chmod(0o600)
    for given in (f"--env-file={tmp_path}/more.env", "--env=PYTHONPATH"):
        refused = running.typed(tree / "ex", *words, given, "main.py", PYTHONPATH=str(paths.PROJECT))
        assert refused.returncode == UsageError.exit_code and "PYTHONPATH=FOLDER" in refused.stderr
