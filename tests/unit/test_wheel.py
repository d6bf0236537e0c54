"""The result of `pip install .` in the checkout: all of it that runs need, nothing that is a person's own."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from regatta import paths

TREES = re.compile(r"(ansible|regatta_protocol|workloads|requirements|regatta/node|regatta/frameworks/\w+/node)/")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made of a copy of what git knows: a build leaves its folders in the tree."""
    work = tmp_path_factory.mktemp("wheel")
    tree = work / "tree"
    tree.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=paths.PROJECT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    subprocess.run(["rsync", "-a", "--from0", "--files-from=-", ".", tree], cwd=paths.PROJECT, input=listed, check=True)
    for foreign in ("inventory/local/known_hosts", "inventory/local/secrets/ray_token", "inventory/mine/hosts.yml"):
        (tree / foreign).parent.mkdir(parents=True, exist_ok=True)
        (tree / foreign).write_text("a secret")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(work),
        str(tree),
    ]
    subprocess.run(command, check=True)
    (made,) = work.glob("*.whl")
    return made


def test_everything_that_runs_need_is_in_it_and_no_more(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=paths.PROJECT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    code = {
        path
        for path in listed
        if path.startswith(("regatta/", "regatta_protocol/")) and (paths.PROJECT / path).is_file()
    }
    trees = {f"regatta/project/{path}" for path in listed if TREES.match(path)}
    there = {name for name in names if not name.startswith(("regatta/project/inventory/", "regatta-"))}
    assert there == code | trees
    assert {name for name in names if "/inventory/" in name} == {
        f"regatta/project/inventory/{file}" for file in ("example/hosts.yml", "example/README.md", "local/hosts.yml")
    }


def test_its_types_are_for_others_too(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"regatta/py.typed", "regatta/project/workloads/py.typed"} <= names


def test_its_version_is_the_newest_of_the_changelog(wheel: Path) -> None:
    newest = re.search(r"(?m)^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", (paths.PROJECT / "CHANGELOG.md").read_text())
    assert newest and newest[1] == wheel.name.split("-")[1]


def installed(wheel: Path, folder: Path) -> dict[str, str]:
    """The environment of a process that finds the wheel's packages, and this environment's others."""
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return {**os.environ, "PYTHONPATH": str(folder / "site"), "REGATTA_CACHE": str(folder / "cache")}


def test_it_works_outside_of_the_checkout(wheel: Path, tmp_path: Path) -> None:
    env = installed(wheel, tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def regatta(*words: str) -> subprocess.CompletedProcess[str]:
        program = "import sys; sys.argv[0] = 'regatta'; from regatta.cli import main; main()"
        command = [sys.executable, "-c", program, *words]
        return subprocess.run(command, cwd=elsewhere, env=env, capture_output=True, text=True, check=False)

    listed = regatta("--list")
    assert listed.returncode == 0 and "torchrun" in listed.stdout and "run-ppr" in listed.stdout
    (elsewhere / "train.py").write_text(
        "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n"
    )
    home = {"regatta_root": tmp_path / "root", "regatta_state": tmp_path / "state"}
    (elsewhere / "mine").mkdir()
    text = (tmp_path / "site/regatta/project/inventory/local/hosts.yml").read_text()
    (elsewhere / "mine/hosts.yml").write_text(text + "".join(f"    {name}: {path}\n" for name, path in home.items()))
    ran = regatta("torchrun", "--workers", "2", "--inventory", "mine", "train.py")
    assert ran.returncode == 0, ran.stderr
    assert "rank 1 of 2" in ran.stdout
    refused = regatta("provision", "--inventory", "inventory/local")
    assert refused.returncode == 2 and "needs no provision" in refused.stderr


@pytest.mark.whole
def test_its_playbooks_find_their_roles_and_what_these_read(wheel: Path, tmp_path: Path) -> None:
    env = installed(wheel, tmp_path)
    (tmp_path / "hosts.yml").write_text(
        "all: {hosts: {n1: {ansible_host: 127.0.0.1, ansible_port: 1, cluster_address: 10.0.0.1}}}\n"
        "head: {hosts: {n1: }}\nworkers: {hosts: {n1: }}\n"
    )
    program = "from regatta.provisioning import commands; raise SystemExit(commands.main())"
    command = [sys.executable, "-c", program, "check", "--inventory", str(tmp_path / "hosts.yml")]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert "n1: " in done.stdout and "does not answer" in done.stdout, done.stdout + done.stderr
    sources = tmp_path / "site/regatta/project/regatta/node"
    assert {"metrics.py", "rundirs.py", "progress.py"} <= {path.name for path in sources.iterdir()}
    assert (sources.parent / "frameworks/spark/node/metrics.py").is_file()
