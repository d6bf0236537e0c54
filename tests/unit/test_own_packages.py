"""Packages of the tree: what their files say of them, and that programs of a run find them by name."""

from pathlib import Path

import pytest
import running

from regatta.environment import own

SYSTEM = '[build-system]\nrequires = ["setuptools"]\n'
POINTS = '[project.scripts]\npeel = "plums.peel:main"\n[project.entry-points."plums.kinds"]\nred = "plums:red"\n'
SETUP_CFG = """\
[metadata]
name = plums
version = attr: plums.__version__
[options]
install_requires = pear>=2
[options.extras_require]
fast = quince
[options.entry_points]
console_scripts =
    peel = plums.peel:main
plums.kinds =
    red = plums:red
"""
SETUP_PY = """\
from setuptools import setup
setup(name="plums", version="1.5", install_requires=["pear>=2"], extras_require={"fast": ["quince"]},
      entry_points={"console_scripts": ["peel=plums.peel:main"], "plums.kinds": ["red = plums:red"]})
"""


def made(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"pyproject.toml": '[project]\nname = "plums"\nversion = "v1.5"\n'}, "1.5"),
        ({"pyproject.toml": '[tool.poetry]\nname = "plums"\nversion = "1.5"\n'}, "1.5"),
        (
            {
                "pyproject.toml": '[project]\nname = "plums"\ndynamic = ["version"]\n'
                '[tool.setuptools.dynamic]\nversion = {attr = "plums.__version__"}\n',
                "src/plums/__init__.py": 'import torch\n__version__: str = "1.5"\n',
            },
            "1.5",
        ),
        (
            {
                "pyproject.toml": '[project]\nname = "plums"\ndynamic = ["version"]\n'
                '[tool.setuptools.dynamic]\nversion = {file = ["VERSION"]}\n',
                "VERSION": "1.5\n",
            },
            "1.5",
        ),
        (
            {
                "pyproject.toml": '[project]\nname = "plums"\ndynamic = ["version"]\n'
                '[tool.hatch.version]\npath = "p.py"\n',
                "p.py": "VERSION = '1.5'\n",
            },
            "1.5",
        ),
        (
            {
                "pyproject.toml": '[project]\nname = "plum-s"\ndynamic = ["version"]\n'
                '[build-system]\nbuild-backend = "flit_core.buildapi"\n',
                "plum_s.py": '__version__ = "1.5"\n',
            },
            "1.5",
        ),
        ({"pyproject.toml": '[project]\nname = "plums"\ndynamic = ["version"]\n[tool.setuptools_scm]\n'}, None),
        ({"setup.cfg": SETUP_CFG, "plums.py": "__version__ = '1.5'\n"}, "1.5"),
        ({"setup.py": SETUP_PY}, "1.5"),
        ({"setup.py": "from setuptools import setup\nsetup(name='plums', version=open('V').read())\n"}, None),
    ],
)
def test_names_and_versions_that_are_written_out(files: dict[str, str], version: str | None, tmp_path: Path) -> None:
    found = own.read(made(tmp_path, files), tmp_path)
    assert found and found.name.replace("-", "") == "plums"
    assert (found.version, found.known) == ((version, True) if version else (own.UNKNOWN, False))


@pytest.mark.parametrize(
    "files",
    [
        {
            "pyproject.toml": '[project]\nname = "plums"\nversion = "1.5"\ndependencies = ["pear>=2"]\n'
            '[project.optional-dependencies]\nfast = ["quince"]\n' + POINTS
        },
        {"setup.cfg": SETUP_CFG, "plums.py": "__version__ = '1.5'\n"},
        {"setup.py": SETUP_PY},
    ],
)
def test_requirements_and_entry_points(files: dict[str, str], tmp_path: Path) -> None:
    found = own.read(made(tmp_path, files), tmp_path)
    assert found and found.requires == ("pear>=2", 'quince; extra == "fast"') and found.extras == ("fast",)
    assert set(found.points) == {("console_scripts", "peel", "plums.peel:main"), ("plums.kinds", "red", "plums:red")}


def test_a_folder_without_a_name_has_no_package(tmp_path: Path) -> None:
    for files in ({}, {"pyproject.toml": "[tool.ruff]\n"}, {"setup.cfg": "[flake8]\nmax-line-length = 99\n"}):
        assert own.read(made(tmp_path, files), tmp_path) is None


PROGRAM = """\
import subprocess, pears, plums
from importlib import metadata
print("version", metadata.version("plums"), metadata.version("pears"), pears.__file__)
(point,) = metadata.entry_points(group="plums.kinds")
print("point", point.load()())
subprocess.run(["peel"], check=True)
"""


def test_a_program_finds_the_packages_of_its_tree_by_name(tmp_path: Path, here: Path) -> None:
    tree = made(
        tmp_path / "x/tree",
        {
            "pyproject.toml": f'[project]\nname = "plums"\nversion = "1.5"\n{SYSTEM}{POINTS}',
            "src/plums/__init__.py": "def red():\n    return 'is red'\n",
            "src/plums/peel.py": "def main():\n    print('peeled')\n",
            "libs/pears/setup.cfg": "[metadata]\nname = pears\nversion = 2.5\n[options]\npackage_dir =\n    = lib\n",
            "libs/pears/lib/pears.py": "",
            "t.py": PROGRAM,
        },
    )
    (tree / "requirements.txt").write_text("-e .\n./libs/pears\n")
    words = ("torchrun", f"--inventory={here}", "--workers=1", "t.py")
    done = running.typed(tree, *words)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "version 1.5 2.5" in said and "point is red" in said and "peeled" in said
    assert "the tree's own plums 1.5 (.), pears 2.5 (libs/pears)" in said
    (tree / "requirements.txt").unlink()
    (tree / "t.py").write_text("from importlib import metadata\nprint('alone', metadata.version('plums'))\n")
    again = running.typed(tree, *words, PIP_NO_INDEX="1")
    assert again.returncode == 0 and "alone 1.5" in again.stdout + again.stderr
