"""The places of a project's own packages, as setuptools, hatchling, uv, Poetry, PDM and flit would find them."""

from pathlib import Path

import pytest

from regatta.environment import pyproject
from regatta.projects import packages

SETUPTOOLS = '[tool.setuptools.packages.find]\nwhere = ["lib"]\n'


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"src/plums/__init__.py": ""}, ("src",)),
        ({"src/plums.py": ""}, ("src",)),
        ({"src/fruit/plums/red/__init__.py": ""}, ("src",)),
        ({"src/main.c": ""}, ()),
        ({"pyproject.toml": SETUPTOOLS, "lib/plums/__init__.py": ""}, ("lib",)),
        ({"pyproject.toml": '[tool.setuptools]\npackage-dir = {"" = "lib"}\n', "lib/plums.py": ""}, ("lib",)),
        ({"setup.cfg": "[options]\npackage_dir =\n    = lib\n", "lib/plums.py": ""}, ("lib",)),
        ({"setup.cfg": "[options.packages.find]\nwhere = lib\n", "lib/plums.py": ""}, ("lib",)),
        ({"setup.py": "from setuptools import setup\nsetup(package_dir={'': 'lib'})\n", "lib/plums.py": ""}, ("lib",)),
        (
            {"pyproject.toml": '[tool.hatch.build.targets.wheel]\npackages = ["lib/plums"]\n', "lib/plums.py": ""},
            ("lib",),
        ),
        ({"pyproject.toml": '[tool.hatch.build.targets.wheel]\nsources = ["lib"]\n', "lib/plums.py": ""}, ("lib",)),
        (
            {"pyproject.toml": '[tool.poetry]\npackages = [{include = "plums", from = "lib"}]\n', "lib/plums.py": ""},
            ("lib",),
        ),
        ({"pyproject.toml": '[tool.pdm.build]\npackage-dir = "lib"\n', "lib/plums.py": ""}, ("lib",)),
        ({"pyproject.toml": '[tool.uv.build-backend]\nmodule-root = "lib"\n', "lib/plums.py": ""}, ("lib",)),
        ({"pyproject.toml": '[tool.maturin]\npython-source = "lib"\n', "lib/plums.py": ""}, ("lib",)),
        (
            {"pyproject.toml": '[tool.setuptools.package-dir]\nplums = "lib/plums"\n', "lib/plums/__init__.py": ""},
            ("lib",),
        ),
        ({"setup.cfg": "[options]\npackage_dir =\n    a.b = lib/a/b\n", "lib/a/b/__init__.py": ""}, ("lib",)),
        ({"pyproject.toml": '[tool.setuptools.package-dir]\nplums = "lib"\n', "lib/__init__.py": ""}, ()),
        (
            {"pyproject.toml": '[tool.uv.workspace]\nmembers = ["libs/*"]\n', "libs/a/src/a.py": ""},
            ("libs/a", "libs/a/src"),
        ),
        ({"pyproject.toml": '[tool.uv.sources]\napp = {path = "libs/app"}\n', "libs/app/app.py": ""}, ("libs/app",)),
        (
            {"pyproject.toml": '[tool.poetry.dependencies]\napp = {path = "app", develop = true}\n', "app/a.py": ""},
            ("app",),
        ),
        ({"pyproject.toml": '[tool.uv.sources]\napp = {path = "../other"}\n'}, ()),
        ({"pyproject.toml": "not toml", "setup.cfg": "nor this", "setup.py": "nor ("}, ()),
    ],
)
def test_folders_of_a_project_that_is_the_tree(
    files: dict[str, str], expected: tuple[str, ...], tmp_path: Path
) -> None:
    made(tmp_path, files)
    assert packages.folders(tmp_path, tmp_path) == expected


def test_a_project_in_a_folder_of_the_tree(tmp_path: Path) -> None:
    made(tmp_path, {"examples/plums/pyproject.toml": SETUPTOOLS, "examples/plums/lib/plums.py": ""})
    assert packages.folders(tmp_path, tmp_path / "examples/plums") == ("examples/plums", "examples/plums/lib")


def test_a_member_of_a_workspace_imports_the_others(tmp_path: Path) -> None:
    made(
        tmp_path,
        {
            "pyproject.toml": '[tool.uv.workspace]\nmembers = ["libs/*"]\n',
            "libs/a/pyproject.toml": '[project]\nname = "a"\n[tool.uv.sources]\nb = {workspace = true}\n',
            "libs/b/pyproject.toml": '[project]\nname = "b"\n[tool.uv.sources]\nc = {path = "c"}\n',
            "libs/b/src/b.py": "",
            "libs/b/c/c.py": "",
        },
    )
    assert packages.folders(tmp_path, tmp_path / "libs/a") == ("libs/a", "libs/b", "libs/b/src", "libs/b/c")


@pytest.mark.parametrize(
    "tables",
    [
        "tool = 1\n",
        "[tool]\nuv = []\n",
        "[tool.uv]\nsources = 3\nworkspace = 1\n",
        '[tool.uv.workspace]\nmembers = ["/x", ""]\n',
    ],
)
def test_tables_that_are_none_name_nothing(tables: str, tmp_path: Path) -> None:
    made(tmp_path, {"pyproject.toml": tables})
    assert packages.folders(tmp_path, tmp_path) == ()
    assert pyproject.listed(tmp_path / "pyproject.toml") == []
