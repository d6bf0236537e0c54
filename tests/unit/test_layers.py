"""Packages that a project needs and the nodes lack: one layer, made once, for all processes of its runs."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from regatta.environment import wish
from regatta.environment.wish import Wish
from regatta.errors import EnvironmentFault

SCRIPT = 'import tinyboat\nprint("tinyboat", tinyboat.__version__)\n'


def wheel(folder: Path, version: str) -> None:
    """A wheel of a package that nobody else has."""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"tinyboat-{version}-py3-none-any.whl", "w") as made:
        info = f"tinyboat-{version}.dist-info"
        made.writestr("tinyboat.py", f'__version__ = "{version}"\n')
        made.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tinyboat\nVersion: {version}\n")
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{info}/RECORD", f"tinyboat.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


class Project:
    """A folder with a script and a list of packages, all of which lie beside it."""

    def __init__(self, folder: Path, inventory: Path) -> None:
        self.folder, self.inventory = folder, inventory
        folder.mkdir()
        wheel(folder / "wheels", "1.0")
        wheel(folder / "wheels", "2.0")
        (folder / "t.py").write_text(SCRIPT)
        self.needs("tinyboat==1.0")

    def needs(self, line: str) -> None:
        """What the list says, besides where packages are."""
        (self.folder / "requirements.txt").write_text(f"--no-index\n--find-links wheels\n{line}\n")

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """The script on two ranks."""
        program = str(Path(sys.executable).with_name("regatta"))
        return subprocess.run(
            [program, "torchrun", "--workers=2", f"--inventory={self.inventory}", *words, "t.py"],
            cwd=self.folder,
            env=os.environ | {"REGATTA_RESULTS": str(self.folder / "results")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def project(tmp_path: Path, here: Path) -> Project:
    return Project(tmp_path / "project", here)


def test_a_layer_is_made_once_and_all_ranks_have_it(project: Project) -> None:
    first = project.run()
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout.count("| tinyboat 1.0") == 2
    assert "resolving" in first.stdout + first.stderr
    second = project.run()
    assert second.returncode == 0 and second.stdout.count("| tinyboat 1.0") == 2
    assert "resolving" not in second.stdout + second.stderr and "putting" not in second.stdout + second.stderr
    other = project.run("--with=tinyboat==2.0")
    assert other.returncode != 0, "two versions exclude each other"
    project.needs("tinyboat==2.0")
    assert project.run().stdout.count("| tinyboat 2.0") == 2
    assert project.run("--no-environment").returncode != 0


def test_a_package_that_is_not_there_is_named(project: Project) -> None:
    project.needs("tinyboat==3.0")
    done = project.run()
    assert done.returncode != 0
    assert "tinyboat" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "line", ["-e .", "./folder", "boat @ git+https://example.org/boat", "-r https://example.org/x"]
)
def test_what_cannot_be_part_of_a_layer_is_refused_by_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"# mine\n{line}\n")
    with pytest.raises(EnvironmentFault, match=r"requirements\.txt: line 2"):
        wish.of(Wish(), tmp_path)


def test_which_file_says_what_a_project_needs(tmp_path: Path) -> None:
    assert wish.of(Wish(), tmp_path) is None
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n')
    assert wish.of(Wish(), tmp_path) is None
    (tmp_path / "requirements.txt").write_text("boat\n")
    found = wish.of(Wish(), tmp_path)
    assert found and found.file == tmp_path / "requirements.txt"
    assert wish.of(Wish(off=True), tmp_path) is None
    more = wish.of(Wish(more=("oar",)), tmp_path)
    assert more and more.digest != found.digest and more.label == "requirements.txt and oar"
    (tmp_path / "regatta.toml").write_text('[environment]\nwith = ["sail"]\n')
    assert "sail" in wish.of(Wish(), tmp_path).more  # type: ignore[union-attr]
