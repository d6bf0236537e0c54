"""A project's packages, in the files of other tools: read, or named with the command that makes a list of it."""

from pathlib import Path

import pytest
import running

from regatta.environment import python_range, requirements
from regatta.environment.requirements import Requirements
from regatta.errors import EnvironmentFault

DYNAMIC = '[project]\nname = "x"\ndynamic = ["dependencies", "version"]\n'
SCRIPT = '# /// script\n# requires-python = ">=3.10"\n# dependencies = [\n#   "pear>=2",\n# ]\n# ///\nimport pear\n'


def made(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": DYNAMIC + '[tool.setuptools.dynamic]\ndependencies = {file = ["needs/base.in"]}\n'},
        {"pyproject.toml": DYNAMIC + '[tool.setuptools.dynamic]\ndependencies = {file = "needs/base.in"}\n'},
        {"pyproject.toml": DYNAMIC + '[tool.hatch.metadata.hooks.requirements_txt]\nfiles = ["needs/base.in"]\n'},
        {"pyproject.toml": DYNAMIC, "setup.cfg": "[options]\ninstall_requires =\n  pear>=2  # sweet\n  quince\n"},
        {"setup.cfg": "[options]\ninstall_requires = file: needs/base.in\n"},
        {"pyproject.toml": '[tool.flit.metadata]\nmodule = "x"\nrequires = ["pear>=2", "quince"]\n'},
        {"pyproject.toml": '\ufeff[project]\ndependencies = ["pear>=2", "quince"]\n'},
        {"setup.cfg": "[options]\ninstall_requires =\n  pear>=2\n  quince\n[metadata]\n[options]\nzip_safe = no\n"},
        {"setup.py": "import setuptools\nsetuptools.setup(name='x', install_requires=['pear>=2', 'quince'])\n"},
        {"setup.py": "from setuptools import setup\nNEEDS = ['pear>=2', 'quince']\nsetup(install_requires=NEEDS)\n"},
        {"requirements.in": "pear>=2\nquince\n"},
    ],
)
def test_lists_that_are_written_out_are_read(files: dict[str, str], tmp_path: Path) -> None:
    made(tmp_path, {"needs/base.in": "# fruit\npear>=2\n\nquince\n", **files})
    found = requirements.of(Requirements(), tmp_path)
    assert found and found.file
    lines = found.lines if found.lines is not None else tuple(found.file.read_text().splitlines())
    assert lines == ("pear>=2", "quince")
    assert requirements.unread(Requirements(), tmp_path) is None


@pytest.mark.parametrize(
    ("files", "named", "command"),
    [
        (
            {"poetry.lock": "", "pyproject.toml": '[tool.poetry.dependencies]\nb = "*"\n'},
            "poetry.lock",
            "poetry export",
        ),
        ({"pyproject.toml": '[tool.poetry.dependencies]\nb = "^1"\n'}, "[tool.poetry.dependencies]", "poetry lock"),
        ({"pdm.lock": ""}, "pdm.lock", "pdm export"),
        ({"Pipfile": "[packages]\nb = '*'\n"}, "Pipfile", "pipenv lock"),
        ({"Pipfile": "", "Pipfile.lock": "{}"}, "Pipfile.lock", "'pipenv requirements"),
        ({"environment.yml": "dependencies: [b]\n"}, "environment.yml", "pip list --format=freeze"),
        ({"pyproject.toml": "[tool.pixi.dependencies]\nb = '*'\n"}, "[tool.pixi.dependencies]", "pip list"),
        ({"pyproject.toml": "[tool.hatch.envs.default]\ndependencies = ['b']\n"}, "[tool.hatch.envs", "hatch dep show"),
        ({"requirements/base.txt": "b\n"}, "requirements/base.txt", "--requirements requirements/base.txt"),
        ({"requirements-dev.txt": "b\n"}, "requirements-dev.txt", "--requirements requirements-dev.txt"),
        ({"pyproject.toml": DYNAMIC}, "pyproject.toml (dynamic)", "uv pip compile pyproject.toml"),
        (
            {"pyproject.toml": DYNAMIC, "setup.py": "setup(install_requires=[*more()])\n"},
            "setup.py",
            "compile setup.py",
        ),
    ],
)
def test_other_lists_are_named_in_one_line_with_what_makes_a_list(
    files: dict[str, str], named: str, command: str, tmp_path: Path
) -> None:
    made(tmp_path, files)
    wanted = requirements.of(Requirements(), tmp_path)
    assert wanted is None or not wanted.asks
    line = requirements.unread(Requirements(), tmp_path)
    assert line and named in line and command in line and "\n" not in line
    (tmp_path / "requirements.txt").write_text("b\n")
    beside = requirements.unread(Requirements(), tmp_path)
    assert beside is None or "come from requirements.txt" in beside
    for given in (Requirements(off=True), Requirements(requirements=tmp_path / "requirements.txt")):
        assert requirements.unread(given, tmp_path) is None


def test_a_project_of_poetry_that_needs_nothing_or_has_a_standard_list_is_silent(tmp_path: Path) -> None:
    for text in (
        '[tool.poetry.dependencies]\npython = "^3.10"\n',
        '[project]\ndependencies = ["b"]\n[tool.poetry.dependencies]\nb = {extras = ["c"]}\n',
    ):
        made(tmp_path, {"pyproject.toml": text})
        assert requirements.unread(Requirements(), tmp_path) is None


def test_a_list_with_a_comment_in_latin_1_is_read(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes(b"# caf\xe9\npear\n")
    wanted = requirements.of(Requirements(), tmp_path)
    assert wanted and wanted.lines and "pear" in wanted.lines
    (tmp_path / "requirements.txt").write_bytes(b"\x89PNG\0\0pear\n")
    with pytest.raises(EnvironmentFault, match="it is no text"):
        requirements.of(Requirements(), tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_list_in_any_encoding_is_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes("pear\n".encode(encoding))
    wanted = requirements.of(Requirements(), tmp_path)
    assert wanted and wanted.lines and wanted.lines[0].lstrip("\ufeff") == "pear"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("pyproject.toml", '[project]\ndependencies = "pear"\n', "dependencies is no list of names"),
        ("pyproject.toml", "[project]\ndependencies = [{pear = 1}]\n", "dependencies is no list of names"),
        ("requirements.txt", "# own wheels\n--find-links ./wheels\npear\n", "line 2: .*there is no folder .*/wheels:"),
    ],
)
def test_a_list_that_cannot_be_followed_is_refused_with_its_place(
    name: str, text: str, said: str, tmp_path: Path
) -> None:
    made(tmp_path, {name: text})
    with pytest.raises(EnvironmentFault, match=f"{name}: {said}"):
        requirements.of(Requirements(), tmp_path)


def test_a_pyproject_in_another_encoding_is_refused_with_the_way_on(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes('[project]\nname = "x"\n'.encode("utf-16"))
    with pytest.raises(EnvironmentFault, match="is not in UTF-8: save it so"):
        requirements.of(Requirements(), tmp_path)


def test_a_project_around_a_folder_that_is_synced_by_itself_is_named(tmp_path: Path) -> None:
    made(tmp_path, {"pyproject.toml": '[project]\nname = "x"\n', "scripts/train.py": ""})
    said = requirements.unread(Requirements(), tmp_path / "scripts")
    assert said and f"{tmp_path}/pyproject.toml has no effect" in said and f"start from {tmp_path}," in said
    for mark in ("scripts/requirements.txt", "regatta.toml"):
        made(tmp_path, {mark: ""})
        assert requirements.unread(Requirements(), tmp_path / "scripts") is None
        (tmp_path / mark).unlink()


def test_settings_of_uv_in_a_script_that_have_no_effect_are_named(tmp_path: Path) -> None:
    uv = '# [tool.uv]\n# exclude-newer = "2024-06-01T00:00:00Z"\n# [tool.uv.sources]\n# pear = {path = "pear"}\n# ///\n'
    made(tmp_path, {"a.py": SCRIPT, "b.py": f"\ufeff{SCRIPT.replace('# ///' + chr(10) + 'import', uv + 'import')}"})
    assert requirements.unread(Requirements(script=tmp_path / "a.py"), tmp_path) is None
    said = requirements.unread(Requirements(script=tmp_path / "b.py"), tmp_path)
    assert said and "[tool.uv] exclude-newer of b.py has no effect" in said


def test_settings_of_uv_are_part_of_what_a_list_says(tmp_path: Path) -> None:
    """Otherwise versions of an earlier resolution would be taken, against them."""
    names = set()
    for text in ("", '[tool.uv]\nexclude-newer = "2024-06-01"\n', '[tool.uv]\nconstraint-dependencies = ["pear<2"]\n'):
        made(tmp_path, {"pyproject.toml": f'[project]\ndependencies = ["pear"]\n{text}'})
        wanted = requirements.of(Requirements(), tmp_path)
        names.add(wanted and wanted.digest)
    made(tmp_path, {"uv.toml": 'exclude-newer = "2024-06-01"\n'})
    wanted = requirements.of(Requirements(), tmp_path)
    assert len({*names, wanted and wanted.digest}) == 4


def test_a_list_of_another_package_of_the_tree_is_named_with_its_folder(tmp_path: Path) -> None:
    app = '[tool.poetry]\nname = "app"\nversion = "1"\n[tool.poetry.dependencies]\npython = "^3.10"\n'
    made(tmp_path, {"requirements.txt": "-e ./.libs/app\n", ".libs/app/pyproject.toml": app, ".libs/app/app.py": ""})
    wanted = requirements.of(Requirements(), tmp_path)
    assert wanted and requirements.unread_own(wanted, tmp_path) is None
    made(tmp_path, {".libs/app/pyproject.toml": f'{app}b = "^1"\n'})
    wanted = requirements.of(Requirements(), tmp_path)
    line = wanted and requirements.unread_own(wanted, tmp_path)
    assert line and "[tool.poetry.dependencies] of .libs/app" in line


@pytest.mark.parametrize("name", ["poetry.lock", "Pipfile.lock", "environment.yml"])
def test_such_a_file_that_is_named_is_refused_with_the_command(name: str, tmp_path: Path) -> None:
    made(tmp_path, {name: "x"})
    with pytest.raises(EnvironmentFault, match=rf"{name}: is not read: '.*requirements.txt'"):
        requirements.of(Requirements(requirements=tmp_path / name), tmp_path)


def test_the_block_of_a_script_counts_before_the_projects_list(tmp_path: Path) -> None:
    made(tmp_path, {"t.py": SCRIPT, "requirements.txt": "apple\n", "plain.py": "import os\n"})
    found = requirements.of(Requirements(script=tmp_path / "t.py"), tmp_path)
    assert found and found.label == "t.py" and found.lines == ("pear>=2",)
    other = requirements.of(Requirements(script=tmp_path / "plain.py"), tmp_path)
    assert other and other.label == "requirements.txt"
    named = requirements.of(
        Requirements(script=tmp_path / "t.py", requirements=tmp_path / "requirements.txt"), tmp_path
    )
    assert named and named.label == "requirements.txt"
    made(
        tmp_path, {"t.py": SCRIPT.replace("# ///\n", '# [tool.uv.sources]\n# pear = {git = "https://host/x"}\n# ///\n')}
    )
    with pytest.raises(EnvironmentFault, match=r"t\.py: pear comes from git"):
        requirements.of(Requirements(script=tmp_path / "t.py"), tmp_path)


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": '[project]\nname = "x"\nrequires-python = ">=3.13"\n'},
        {"pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.12"\n'},
        {"pyproject.toml": '[tool.poetry.dependencies]\npython = "~3.10"\n'},
        {"uv.lock": 'version = 1\nrequires-python = ">=3.12"\n'},
        {"setup.cfg": "[options]\npython_requires = <3.11\n"},
        {"setup.py": "from setuptools import setup\nsetup(python_requires='>=3.12')\n"},
        {"Pipfile": '[requires]\npython_version = "3.12"\n'},
        {"t.py": SCRIPT.replace("3.10", "3.12")},
    ],
)
def test_a_project_for_another_python_is_refused_also_if_it_needs_no_packages(
    files: dict[str, str], tmp_path: Path
) -> None:
    made(tmp_path, {"t.py": "", **files})
    with pytest.raises(EnvironmentFault, match=r"is for Python .*, and the nodes have 3\.11\.2"):
        python_range.check("3.11.2", tmp_path, tmp_path / "t.py")


@pytest.mark.parametrize("said", [">=3.10", "^3.10", "~3.11", "~=3.11", "==3.11.*", ">=3.11.2"])
def test_a_project_for_the_clusters_python_passes(said: str, tmp_path: Path) -> None:
    made(tmp_path, {"pyproject.toml": f'[project]\nrequires-python = "{said}"\n'})
    python_range.check("3.11.2", tmp_path)
    python_range.check("3.11", tmp_path)


def test_a_python_version_beside_the_project_or_above_it_is_a_line(tmp_path: Path) -> None:
    below = made(tmp_path, {"ex/t.py": ""}) / "ex"
    for said, fits in (("3.11\n", True), ("3.11.2", True), ("system", True), ("cpython@3.11", True), ("3.1", False)):
        (tmp_path / ".python-version").write_text(said)
        assert (python_range.pinned("3.11.2", tmp_path, below) is None) == fits
    (below / ".python-version").write_text("# mine\n3.12\n")
    line = python_range.pinned("3.11.2", tmp_path, below)
    assert line and "ex/.python-version names Python 3.12" in line and "3.11.2" in line


def test_all_of_it_comes_before_the_program(tmp_path: Path, here: Path) -> None:
    folder = made(
        tmp_path / "x/tree",
        {
            "t.py": "print('ran')\n",
            "pyproject.toml": '[tool.poetry.dependencies]\nhumanize = "*"\n',
            ".python-version": "2.7\n",
            "new.py": "# /// script\n# requires-python = '>=3.99'\n# ///\nprint('ran')\n",
        },
    )
    words = ("torchrun", f"--inventory={here}", "--workers=1")
    done = running.typed(folder, *words, "t.py")
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "ran\n" in said, said
    assert "[tool.poetry.dependencies]" in said and "names Python 2.7" in said
    refused = running.typed(folder, *words, "new.py")
    assert refused.returncode and "new.py: is for Python >=3.99" in refused.stderr
    assert "ran\n" not in refused.stdout
    assert running.typed(folder, *words, "--no-environment", "new.py").returncode == 0
