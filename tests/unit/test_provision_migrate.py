"""The folder of runs as it was when it belonged to their account becomes root's, whatever a run has put into it."""

import importlib.util
import os
import pwd
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from hostile import USER, Victim, needs_root, open_folder

from lab.model import PROJECT

__all__ = ["open_folder"]


@pytest.fixture
def migrate() -> ModuleType:
    path = PROJECT / "ansible/roles/base/library/base_migrate.py"
    spec = importlib.util.spec_from_file_location("base_migrate", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(state: Path, victim: Victim) -> None:
    """As layout 1 was, with what a run may have planted."""
    for name in (
        "runs/good",
        "runs/.removed-old",
        "data/ab12",
        "ray",
        ".cache/regatta/prepared/x",
        "ray_results",
        ".ssh",
    ):
        (state / name).mkdir(parents=True)
    (state / "runs/good/spec.json").write_text("{}")
    (state / "data/ab12/file").write_text("input")
    (state / ".ssh/authorized_keys").symlink_to(victim.file)
    (state / ".bashrc").write_text("evil\n")
    (state / "bench.lock").symlink_to(victim.file)
    (state / "home").symlink_to(victim.folder)
    (state / "runs/evil").symlink_to(victim.folder)
    os.mkfifo(state / "runs" / "a\nb")
    subprocess.run(["chown", "-R", f"{USER}:", str(state)], check=True)
    subprocess.run(["chown", "-R", "root:root", str(state / "data")], check=True)


@needs_root
def test_all_is_carried_over_and_nothing_followed(open_folder: Path, migrate: ModuleType) -> None:
    state, victim, account = open_folder / "state", Victim(open_folder), pwd.getpwnam(USER)
    make(state, victim)
    for _ in range(2):  # again changes nothing
        migrate.migrate(str(state), account)
        assert {path.name: path.owner() for path in state.iterdir()} == {
            "runs": "root",
            "data": "root",
            "ray": USER,
            "home": USER,
        }
        assert state.owner() == "root" and state.stat().st_mode & 0o777 == 0o750
        assert {path.name: path.owner() for path in (state / "runs").iterdir()} == {"good": USER, ".removed-old": USER}
        assert (state / "data/ab12/file").read_text() == "input"
        kept = {path.name for path in (state / "home").iterdir()}
        assert kept == {".cache", "ray_results", ".bashrc", "bench.lock", ".home", "evil", "a\nb"}
        assert (state / "home/.cache/regatta/prepared/x").is_dir()
        assert victim.untouched


@needs_root
def test_data_of_a_runs_own_is_none(open_folder: Path, migrate: ModuleType) -> None:
    state, account = open_folder / "state", pwd.getpwnam(USER)
    (state / "data/ab12").mkdir(parents=True)
    subprocess.run(["chown", "-R", f"{USER}:", str(state)], check=True)
    migrate.migrate(str(state), account)
    assert not (state / "data").exists() and (state / "home/data/ab12").is_dir()


@needs_root
def test_a_link_in_place_of_the_folder_is_refused(open_folder: Path, migrate: ModuleType) -> None:
    victim = Victim(open_folder)
    (open_folder / "state").symlink_to(victim.folder)
    with pytest.raises(OSError):
        migrate.migrate(str(open_folder / "state"), pwd.getpwnam(USER))
    assert victim.untouched
