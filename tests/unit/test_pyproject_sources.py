"""A name to which a project's table gives a source is taken from there or refused, never from a public index.

Each index is one of our own; the public one has another package of each name.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import wheels

from regatta import files
from regatta.environment import requirements, resolve, told
from regatta.environment.base import Base, Package
from regatta.environment.requirements import Requirements
from regatta.environment.resolve import Resolution
from regatta.errors import EnvironmentFault

PYTHON = ".".join(map(str, sys.version_info[:3]))
BASE = Base("b" * 16, PYTHON, "x86_64", "2.36", {"clicky": Package("clicky", "8.5")})
OTHERS = ("app", "plum", "vcs", "own_app")


def index(folder: Path, *made: Path) -> str:
    """The address of an index that has these files."""
    for wheel in made:
        page = folder / "simple" / wheel.name.split("-")[0].replace("_", "-") / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        before = page.read_text() if page.exists() else ""
        page.write_text(f'{before}<a href="{wheel.as_uri()}#sha256={files.sha256(wheel)}">{wheel.name}</a>\n')
    return (folder / "simple").as_uri()


@pytest.fixture(autouse=True)
def public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The index of all packages, with one of each name, and others that need these."""
    folder = tmp_path / "public"
    made = [wheels.make(folder, name, "99.0", {f"{name}.py": "ANOTHER = True\n"}) for name in OTHERS]
    made += [wheels.make(folder, f"needs_{name}", "1.0", {"needs.py": ""}, [name]) for name in OTHERS]
    made += [wheels.make(folder, "pear", "2.5", {"pear.py": ""}), wheels.make(folder, "quince", "1.0", {"q.py": ""})]
    for name in ("PIP_NO_INDEX", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_FIND_LINKS", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_DEFAULT_INDEX", index(folder, *made))
    return index(folder)


@pytest.fixture
def private(tmp_path: Path) -> str:
    """An index of one's own."""
    folder = tmp_path / "private"
    return index(folder, wheels.make(folder, "plum", "1.0", {"plum.py": ""}, ["pear"]))


def project(folder: Path, name: str, dependencies: Sequence[str], tables: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_text(f'[project]\nname = "{name}"\nversion = "1"\ndependencies = {[*dependencies]}\n{tables}')
    return file


def resolved(root: Path, *more: str, script: Path | None = None) -> Resolution | None:
    wanted = requirements.of(Requirements(more=more, script=script), root)
    assert wanted
    return resolve.resolve(wanted, BASE, root, lambda _: None)


def versions(root: Path, *more: str, script: Path | None = None) -> Mapping[str, str]:
    found = resolved(root, *more, script=script)
    return found.versions if found else {}


PATHS = [
    '[tool.uv.sources]\nApp = {path = "libs/app", editable = true}\n',
    '[tool.uv.sources]\napp = {workspace = true}\n[tool.uv.workspace]\nmembers = ["libs/*"]\n',
    '[tool.poetry.dependencies]\napp = {path = "libs/app", develop = true}\n',
    '[tool.poetry.group.dev.dependencies]\napp = {path = "libs/app"}\n',
]


@pytest.mark.parametrize("tables", PATHS)
@pytest.mark.parametrize("line", ["app", "app[fast]>=1", "needs-app"])
def test_a_package_of_the_tree_is_taken_from_there_also_where_another_needs_it(
    tables: str, line: str, tmp_path: Path
) -> None:
    extras = '[project.optional-dependencies]\nfast = ["quince"]\n'
    project(tmp_path / "tree/libs/app", "app", ["pear>=2"], extras)
    project(tmp_path / "tree", "x", [line, "x[more]"], tables)
    expected = {"pear": "2.5"} | ({"quince": "1.0"} if "fast" in line else {})
    assert versions(tmp_path / "tree") == expected | ({"needs-app": "1.0"} if "needs" in line else {})


@pytest.mark.parametrize(
    "line",
    ["-e ./libs/app", "-e libs/app", "./libs/app", "libs/app[fast]", "app @ file:./libs/app", "--editable=libs/app"],
)
def test_a_folder_in_a_list_is_taken_from_the_tree(line: str, tmp_path: Path) -> None:
    extras = '[project.optional-dependencies]\nfast = ["quince"]\n'
    project(tmp_path / "libs/app", "app", ["pear>=2"], extras)
    for name, text in (("requirements.txt", f"# ours\n{line}\n"), ("needs.txt", f"{line}\n")):
        (tmp_path / name).write_text(text)
    wanted = requirements.of(Requirements(), tmp_path)
    assert wanted and [one.path for one in wanted.own] == ["libs/app"]
    assert versions(tmp_path) == {"pear": "2.5"} | ({"quince": "1.0"} if "fast" in line else {})
    (tmp_path / "requirements.txt").write_bytes("-r needs.txt\r\n".encode("utf-16"))
    assert "pear" in versions(tmp_path), "as PowerShell writes it"


def test_limits_are_read_in_encodings_that_uv_does_not_read(tmp_path: Path) -> None:
    (tmp_path / "limits.txt").write_bytes("pear<2.5\r\n".encode("utf-16"))
    (tmp_path / "requirements.txt").write_text("pear\n-c limits.txt\n")
    with pytest.raises(EnvironmentFault, match=r"you require pear<2\.5"):
        versions(tmp_path)


@pytest.mark.parametrize("line", ["%% html", "pear --global-option=x", "pear=2"])
def test_a_line_that_uv_cannot_read_is_named_with_the_persons_own_list(line: str, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"pear\n{line}\n")
    with pytest.raises(EnvironmentFault, match=r"(?s)requirements\.txt.*Correct that line") as caught:
        versions(tmp_path)
    assert line in str(caught.value) and "/regatta-environment-" not in str(caught.value)


def test_the_project_itself_with_its_extras(tmp_path: Path) -> None:
    project(tmp_path, "own-app", [], '[project.optional-dependencies]\ntrain = ["pear"]\n')
    assert versions(tmp_path, "Own.App[train]") == {"pear": "2.5"}
    (tmp_path / "requirements.txt").write_text("-e .[train]\n")
    assert versions(tmp_path) == {"pear": "2.5"}
    (tmp_path / "requirements.txt").write_text(f"own-app[train] @ {tmp_path.as_uri()}\nneeds-own-app\n")
    assert versions(tmp_path) == {"pear": "2.5", "needs-own-app": "1.0"}


def test_a_folder_outside_of_the_tree_is_refused_by_name(tmp_path: Path) -> None:
    project(tmp_path / "outside", "app", [])
    (tmp_path / "tree").mkdir()
    for line, said in (
        ("-e ../outside", r"/outside is outside of .*/tree, the tree that is synced.*put it into the tree"),
        (f"app @ {(tmp_path / 'outside').as_uri()}", "is outside of"),
        ("-e ./lacking", "there is no such folder"),
        ("./app-1.0-py3-none-any.whl", "there is no such folder"),
        ("-e git+https://host/app", "no repository's source"),
        ("app @ https://host/app.whl", "URL is not taken"),
        ("https://host/app.whl", "URL is not taken"),
    ):
        (tmp_path / "tree/requirements.txt").write_text(f"{line}\n")
        with pytest.raises(EnvironmentFault, match=rf"requirements\.txt: line 1: .*{said}"):
            requirements.of(Requirements(), tmp_path / "tree")
    (tmp_path / "tree/requirements.txt").unlink()
    project(tmp_path / "tree", "x", ["app @ git+https://host/app"])
    with pytest.raises(EnvironmentFault, match=r"pyproject\.toml: 'app @ git.* no repository's source"):
        requirements.of(Requirements(), tmp_path / "tree")


ELSEWHERE = [
    '[tool.uv.sources]\nvcs = {git = "https://example.com/app"}\n',
    '[tool.uv.sources]\nVCS = {url = "https://example.com/app.whl"}\n',
    '[tool.uv.sources]\nvcs = [{index = "own", marker = "sys_platform == \'linux\'"}, {path = "vcs"}]\n',
    '[tool.uv.sources]\nvcs = {path = "../outside"}\n',
    '[tool.uv.sources]\nvcs = {path = "app.whl"}\n',
    '[tool.uv.sources]\nvcs = {index = "undeclared"}\n',
    "[tool.uv.sources]\nvcs = {workspace = true}\n",
    '[tool.poetry.dependencies]\nvcs = {git = "https://example.com/app"}\n',
    '[tool.poetry.group.dev.dependencies]\nvcs = {git = "https://example.com/app"}\n',
    '[tool.poetry.dependencies]\nvcs = {version = "1", source = "undeclared"}\n',
    '[tool.poetry.dependencies]\nvcs = [{version = "1", python = "<3"}, {git = "https://example.com/app"}]\n',
    '[[tool.pdm.source]]\nname = "own"\ninclude_packages = ["vcs"]\n',
]


@pytest.mark.parametrize("tables", ELSEWHERE)
def test_a_source_elsewhere_is_refused_by_name_whoever_asks_for_it(tables: str, tmp_path: Path) -> None:
    project(tmp_path / "outside", "vcs", [])
    tree = tmp_path / "tree"
    refused = pytest.raises(EnvironmentFault, match=r"pyproject\.toml: vcs comes from")
    for line in ("vcs", "needs-vcs"):
        project(tree, "x", [line], tables)
        with refused:
            resolved(tree)
    project(tree, "x", [], tables)
    with refused:
        resolved(tree, "vcs>=2")
    (tree / "requirements.txt").write_text("vcs\n")
    with refused:
        resolved(tree)


def indexed(url: str) -> list[str]:
    uv = f'[[tool.uv.index]]\nname = "own"\nurl = "{url}"\nexplicit = true\n'
    poetry = f'[[tool.poetry.source]]\nname = "own"\nurl = "{url}"\npriority = "explicit"\n'
    pdm = f'[[tool.pdm.source]]\nname = "own"\nurl = "{url}"\ninclude_packages = '
    marked = '[{index = "own", marker = "sys_platform == \'linux\'"}]'
    return [
        f'[tool.uv.sources]\nplum = {{index = "own"}}\n{uv}',
        f"[tool.uv.sources]\nplum = {marked}\n{uv}",
        f'[tool.poetry.dependencies]\nplum = {{version = "*", source = "own"}}\n{poetry}',
        f'{pdm}["plum"]\n',
        f'{pdm}["pl*"]\n',
    ]


@pytest.mark.parametrize("number", range(5))
def test_an_index_of_its_own_has_a_package_whoever_asks_for_it(number: int, private: str, tmp_path: Path) -> None:
    tree, tables = tmp_path / "tree", indexed(private)[number]
    project(tree, "x", ["plum", "quince"], tables)
    assert versions(tree) == {"plum": "1.0", "pear": "2.5", "quince": "1.0"}
    project(tree, "x", ["needs-plum"], tables)
    assert versions(tree) == {"plum": "1.0", "pear": "2.5", "needs-plum": "1.0"}
    project(tree, "x", ["needs-plum", "plum>=2"], tables)
    with pytest.raises(EnvironmentFault, match=r"plum"):
        resolved(tree)
    (tree / "requirements.txt").write_text("plum\n")
    found = resolved(tree)
    assert found and found.versions["plum"] == "1.0", "also where a list asks for it"
    assert "/private/" in next(one.files[0].url for one in found.packages if one.name == "plum")


def test_a_script_with_a_block_of_its_own_has_its_own_indexes(private: str, tmp_path: Path) -> None:
    head = '# /// script\n# dependencies = ["plum"]\n'
    url = f'# name = "own"\n# url = "{private}"\n'
    named = f'# [tool.uv.sources]\n# plum = {{index = "own"}}\n# [[tool.uv.index]]\n{url}'
    (tmp_path / "t.py").write_text(f"{head}{named}# explicit = true\n# ///\n")
    assert versions(tmp_path, script=tmp_path / "t.py")["plum"] == "1.0"
    (tmp_path / "t.py").write_text(f'{head}# [[tool.uv.index]]\n# url = "{private}"\n# ///\n')
    assert versions(tmp_path, script=tmp_path / "t.py")["plum"] == "1.0", "to uv the first index that has a name counts"


def test_indexes_are_one_only_where_pip_has_several(
    private: str, public: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(tmp_path, "x", ["plum"])
    monkeypatch.setenv("UV_INDEX", private)
    assert versions(tmp_path)["plum"] == "1.0"
    monkeypatch.delenv("UV_INDEX")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", private)
    assert versions(tmp_path)["plum"] == "99.0"
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL")
    (tmp_path / "requirements.txt").write_text(f"--extra-index-url {private}\nplum\n")
    assert versions(tmp_path)["plum"] == "99.0"


def test_locks_say_where_packages_are_from(private: str, public: str, tmp_path: Path) -> None:
    project(tmp_path / "libs/app", "app", ["pear"])
    project(tmp_path, "x", ["app", "plum"], '[tool.uv.sources]\napp = {path = "libs/app", editable = true}\n')

    def entry(name: str, version: str, source: str, more: str = "") -> str:
        return f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {{ {source} }}\n{more}\n'

    wheel = next((tmp_path / "private").glob("plum-*.whl"))
    file = f'wheels = [{{ url = "{wheel.as_uri()}", hash = "sha256:{files.sha256(wheel)}" }}]\n'
    pear = next((tmp_path / "public").glob("pear-*.whl"))
    lock = 'version = 1\nrequires-python = ">=3.9"\n' + entry(
        "x", "1", 'virtual = "."', 'dependencies = [{ name = "app" }, { name = "plum" }]'
    )
    lock += entry("app", "1", 'editable = "libs/app"', 'dependencies = [{ name = "pear" }]')
    lock += entry(
        "pear",
        "2.5",
        f'registry = "{public}"',
        f'wheels = [{{ url = "{pear.as_uri()}", hash = "sha256:{files.sha256(pear)}" }}]\n',
    )
    (tmp_path / "uv.lock").write_text(lock + entry("plum", "1.0", f'registry = "{private}"', file))
    assert versions(tmp_path) == {"plum": "1.0", "pear": "2.5"}
    git = entry("plum", "1.0", 'git = "https://example.com/plum#0123456789012345678901234567890123456789"')
    (tmp_path / "uv.lock").write_text(lock + git)
    with pytest.raises(EnvironmentFault, match=r"uv\.lock: plum comes from git"):
        resolved(tmp_path)
    (tmp_path / "uv.lock").unlink()
    head = 'lock-version = "1.0"\n[[packages]]\nname = "plum"\nversion = "1.0"\n'
    (tmp_path / "pylock.toml").write_text(f'{head}index = "{private}"\n')
    assert versions(tmp_path) == {"plum": "1.0", "pear": "2.5"}
    (tmp_path / "pylock.toml").write_text(f'{head}vcs = {{ type = "git", url = "https://example.com/plum" }}\n')
    with pytest.raises(EnvironmentFault, match=r"pylock\.toml: plum comes from vcs url"):
        resolved(tmp_path)


def test_lines_say_what_is_taken_from_where_and_what_is_left_out(tmp_path: Path) -> None:
    extras = '[project.optional-dependencies]\ntrain = ["pear"]\n[dependency-groups]\ndev = ["pear"]\n'
    project(tmp_path / "libs/app", "app", [])
    lines = ["app", "quince", "clicky", "winner; sys_platform == 'win32'"]
    project(tmp_path, "x", lines, extras + '[tool.uv.sources]\napp = {path = "libs/app"}\n')
    wanted = requirements.of(Requirements(), tmp_path)
    assert wanted
    found = resolve.resolve(wanted, BASE, tmp_path, lambda _: None)
    assert found
    said = "\n".join(told.lines(found, wanted))
    assert f"of pyproject.toml, from {tmp_path / 'public'}" in said
    assert "the tree's own app 1 (libs/app)" in said
    assert "clicky, which the nodes have; winner, which a marker excludes here" in said
    assert "extras train (--extra train takes one); groups dev (--group dev takes one)" in said
