"""A name to which a project's table gives a source is taken from there or refused, never from a public index."""

from pathlib import Path

import pytest

from regatta.environment import pyproject
from regatta.errors import EnvironmentFault


def project(folder: Path, name: str, dependencies: list[str], tables: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_text(f'[project]\nname = "{name}"\nversion = "1"\ndependencies = {dependencies}\n{tables}')
    return file


@pytest.mark.parametrize(
    "tables",
    [
        '[tool.uv.sources]\nMy_App = {path = "libs/app"}\n',
        '[tool.uv.sources]\nmy-app = {workspace = true}\n[tool.uv.workspace]\nmembers = ["libs/*"]\n',
        '[tool.poetry.dependencies]\nmy-app = {path = "libs/app", develop = true}\n',
    ],
)
def test_a_package_of_the_tree_gives_way_to_its_own_requirements(tables: str, tmp_path: Path) -> None:
    project(tmp_path / "libs/app", "my.app", ["pear", "plum>=2"])
    file = project(tmp_path, "x", ["quince", "my-app[fast]>=1", "x[more]"], tables)
    assert pyproject.listed(file) == ["quince", "pear", "plum>=2"]


@pytest.mark.parametrize(
    "tables",
    [
        '[tool.uv.sources]\napp = {git = "https://example.com/app"}\n',
        '[tool.uv.sources]\napp = {url = "https://example.com/app.whl"}\n',
        '[tool.uv.sources]\napp = {index = "own"}\n[[tool.uv.index]]\nname = "own"\nurl = "https://example.com"\n',
        '[tool.uv.sources]\napp = [{index = "own", marker = "sys_platform == \'linux\'"}]\n',
        '[tool.uv.sources]\napp = {path = "../outside"}\n',
        '[tool.uv.sources]\napp = {path = "app.whl"}\n',
        "[tool.uv.sources]\napp = {workspace = true}\n",
        '[tool.poetry.dependencies]\napp = {git = "https://example.com/app"}\n',
        '[tool.poetry.dependencies]\napp = {version = "1", source = "own"}\n',
    ],
)
def test_a_source_elsewhere_is_refused_by_name(tables: str, tmp_path: Path) -> None:
    project(tmp_path / "outside", "app", [])
    file = project(tmp_path / "tree", "x", ["app"], tables)
    with pytest.raises(EnvironmentFault, match=r"pyproject\.toml: app comes from"):
        pyproject.listed(file)


def test_names_of_the_project_are_not_taken_with_it(tmp_path: Path) -> None:
    file = project(tmp_path, "own-app", [], '[tool.uv.sources]\nlib = {path = "lib"}\n')
    for text in ("Own.App[train]", "lib"):
        with pytest.raises(EnvironmentFault, match="leave it out"):
            pyproject.refuse_own(file, ("pear", text))
    pyproject.refuse_own(file, ("pear", "application"))
    pyproject.refuse_own(None, ("pear",))
