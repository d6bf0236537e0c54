"""Packages of a project beyond the nodes': found, resolved, refused, made into a layer, placed on this machine."""

import fcntl
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import wheels

from regatta import files
from regatta.cards import discovery
from regatta.environment import base, build, bundled, layer_cache, requirements, resolve
from regatta.environment.base import Base, Package
from regatta.environment.requirements import Requirements
from regatta.errors import EnvironmentFault, NodesError, RemoteError
from regatta.frameworks import registry
from regatta.hosts.remote import Remote
from regatta.node import layers, notes
from regatta.paths import PROJECT
from regatta.provisioning import lockfile
from regatta_protocol.operations.launch import Inspect, Inspected
from regatta_protocol.operations.layers import BeginLayer, LayerState, LookAtLayers
from regatta_protocol.run import Spec
from regatta_protocol.states import Mode

PYTHON = ".".join(map(str, sys.version_info[:3]))
HERE = Base(
    "b" * 16,
    PYTHON,
    "x86_64",
    "2.36",
    {
        "torch": Package("torch", "2.13.0+cpu", ("filelock",)),
        "ray": Package("ray", "2.60.0", ("clicky<9",)),
        "clicky": Package("clicky", "8.5"),
        "filelock": Package("filelock", "4.2"),
    },
)


@pytest.fixture(autouse=True)
def folder_of_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All packages come from a folder: no network."""
    folder = tmp_path / "wheels"
    main = "def main():\n    print('program of', __name__)\n"
    wheels.make(folder, "apple", "1.0", {"apple/__init__.py": main}, ["pear>=2", "torch"])
    wheels.make(folder, "pear", "2.5", {"pear.py": main})
    wheels.make(folder, "pear", "1.0", {"pear.py": main})
    wheels.make(folder, "clicky", "8.1", {"clicky.py": main})
    wheels.make(folder, "clicky", "9.1", {"clicky.py": main})
    wheels.make(folder, "torch", "2.9.0", {"torch.py": main})
    wheels.make(folder, "torch", "2.8.0", {"torch.py": main}, ["nvidia-fruit"])
    wheels.make(folder, "nvidia_fruit", "12.8", {"fruit.py": main})
    wheels.make(folder, "ray", "2.9.0", {"ray.py": main})
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project without a list of packages."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def resolved(
    tree: Path, *lines: str, name: str = "requirements.txt", on: Base = HERE, fixed: tuple[str, ...] = ()
) -> resolve.Resolution | None:
    """Return what a list comes to."""
    if lines:
        (tree / name).write_text("\n".join(lines) + "\n")
    wanted = requirements.of(Requirements(), tree, fixed)
    assert wanted
    return resolve.resolve(wanted, on, tree, lambda _: None)


def test_the_first_list_that_says_something_is_taken(tree: Path) -> None:
    assert requirements.of(Requirements(), tree) is None
    (tree / "pyproject.toml").write_text('[project]\nname = "x"\ndynamic = ["dependencies"]\n')
    assert requirements.of(Requirements(), tree) is None
    for name, text in (
        ("pyproject.toml", '[project]\nname = "x"\ndependencies = ["pear"]\n'),
        ("requirements.txt", "pear\n"),
        ("pylock.toml", 'lock-version = "1.0"\n'),
        ("uv.lock", "version = 1\n"),
    ):
        (tree / name).write_text(text)
        found = requirements.of(Requirements(), tree)
        assert found and found.file == tree / name
    assert requirements.of(Requirements(off=True), tree) is None
    (tree / "own.txt").write_text("apple\n")
    (tree / "regatta.toml").write_text('[environment]\nrequirements = "own.txt"\nwith = ["pear"]\n')
    found = requirements.of(Requirements(more=("clicky",)), tree)
    assert found and found.file == tree / "own.txt" and found.more == ("pear", "clicky")


def test_a_layer_is_what_the_base_lacks_and_its_name_follows_what_is_in_it(tree: Path) -> None:
    assert resolved(tree, "torch>=2", "ray", "torch==2.13.0") is None
    found = resolved(tree, "apple", "ray")
    assert found and found.versions == {"apple": "1.0", "pear": "2.5"}
    assert all(len(file.sha256) == 64 for package in found.packages for file in package.files)
    assert found.headline().startswith("environment: 2 packages beyond the base (apple 1.0, pear 2.5), ")
    same = resolved(tree, "pear>2", "apple # the same in other words")
    other = resolved(tree, "apple", on=replace(HERE, id="c" * 16))
    assert same and other and same.key == found.key != other.key
    assert resolve.Resolution.from_json(json.loads(json.dumps(found.as_json()))) == found


def test_a_size_that_the_index_does_not_tell_is_no_part_of_what_is_said() -> None:
    def said(*sizes: int) -> str:
        packages = [resolve.Pinned(f"p{n}", "1", (resolve.File("x", "0", size),)) for n, size in enumerate(sizes)]
        return resolve.Resolution("key", "base", "3.11", "x86_64", tuple(packages)).headline()

    assert "1.5 MB," in said(1_000_000, 500_000)
    assert "1.0 MB at least," in said(1_000_000, 0)
    assert "MB" not in said(0) and "kB" not in said(0)


def test_another_version_stands_before_the_bases_where_the_base_allows_it(tree: Path) -> None:
    found = resolved(tree, "clicky<8.5")
    assert found and [(one.version, one.instead) for one in found.packages] == [("8.1", "8.5")]
    assert "1 in another version (clicky 8.1 for 8.5)" in found.headline()
    with pytest.raises(EnvironmentFault, match=r"(?s)ray.*clicky<9"):
        resolved(tree, "clicky>=9", fixed=("ray",))


def test_what_contradicts_the_base_gets_its_own_unless_a_service_is_made_of_it(tree: Path) -> None:
    found = resolved(tree, "torch==2.9.0", "pear", fixed=("ray",))
    assert found and found.versions == {"torch": "2.9.0", "pear": "2.5"}
    assert found.headline().startswith("environment: its own torch 2.9.0, 1 package beyond the base (pear 2.5), ")
    assert not found.hint()
    large = resolved(tree, "torch==2.8.0")
    assert large and "'torch==2.8.0+cpu'" in large.hint() and "--extra-index-url" in large.hint()
    older = resolved(tree, "ray==2.9.0")
    assert older and older.versions == {"ray": "2.9.0"} and "its own ray 2.9.0" in older.headline()
    with pytest.raises(EnvironmentFault, match=r"needs ray 2\.9\.0, and the cluster runs ray 2\.60\.0"):
        resolved(tree, "ray==2.9.0", fixed=("ray",))
    alone = resolved(tree, "clicky>=9")
    assert alone and alone.versions == {"clicky": "9.1"}, "no run of this list has Ray"


def test_of_pips_indexes_the_wheel_for_this_machine_counts(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, own = (wheels.make(tmp_path / name, "plum", "1.0", {"plum.py": name}) for name in ("plain", "own"))
    own = own.rename(own.with_name("plum-1.0-py3-none-manylinux_2_28_x86_64.whl"))
    for name in ("PIP_NO_INDEX", "UV_INDEX", "UV_INDEX_STRATEGY", "UV_DEFAULT_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", index_of(tmp_path / "a", own, "plum"))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", index_of(tmp_path / "b", plain, "plum"))
    found = resolved(tree, "plum")
    assert found and [Path(one.url).name for one in found.packages[0].files] == [own.name]
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", index_of(tmp_path / "c", own, "plum"))
    monkeypatch.setenv("PIP_INDEX_URL", index_of(tmp_path / "d", plain, "plum"))
    found = resolved(tree, "plum")
    assert found and [Path(one.url).name for one in found.packages[0].files] == [own.name]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("plum", r"plum was not found"),
        ("apple==1.0\npear==1.0", r"(?s)apple depend on pear>=2.*pear==1.0"),
        ("-e .", r"requirements.txt: line 1: '-e \.': .* has no name of a package"),
        ("./sub", r"line 1: './sub': there is no such folder"),
        ("pear @ file:///croot/pear_17", "as where conda's 'pip freeze' has made the list: write a version"),
        ("x @ git+https://host/x", r"line 1: .* no repository's source"),
        ("-r missing.txt", r"missing.txt: cannot be read"),
        ("pear==2.5 --hash=sha256:" + "0" * 64, r"pear 2.5: the index has other files than the lock"),
        ("not a requirement!", r"resolving requirements.txt: .*"),
    ],
)
def test_what_cannot_be_had_is_said(tree: Path, line: str, said: str) -> None:
    with pytest.raises(EnvironmentFault, match=said):
        resolved(tree, line)


def test_pips_indexes_are_one_as_they_are_to_pip(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("first", "2.5"), ("second", "1.0")):
        wheel = wheels.make(tmp_path / name, "plum", version, {"plum.py": ""})
        page = tmp_path / name / "simple/plum/index.html"
        page.parent.mkdir(parents=True)
        page.write_text(f'<a href="{wheel.as_uri()}#sha256={files.sha256(wheel)}">{wheel.name}</a>')
    indexes = [(tmp_path / name / "simple").as_uri() for name in ("first", "second")]
    for name in ("PIP_NO_INDEX", "UV_INDEX", "UV_INDEX_STRATEGY", "UV_DEFAULT_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", indexes[0])
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", indexes[1])
    found = resolved(tree, "plum>=2")
    assert found and found.versions == {"plum": "2.5"}
    monkeypatch.setenv("PIP_INDEX_URL", indexes[1])
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL")
    listed = resolved(tree, f"--extra-index-url {indexes[0]}", "plum>=1")
    assert listed and listed.versions == {"plum": "2.5"}, "those that a list names as well"


def index_of(folder: Path, wheel: Path, name: str) -> str:
    """The address of an index that has this one file."""
    page = folder / f"simple/{name}/index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{wheel.as_uri()}#sha256={files.sha256(wheel)}">{wheel.name}</a>')
    return (folder / "simple").as_uri()


def test_companions_of_torch_are_of_the_nodes_build_or_refused(
    tree: Path, tmp_path: Path, folder_of_wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels.make(folder_of_wheels, "torchvision", "0.28.0", {"torchvision.py": ""}, ["torch==2.13.0"])
    wheels.make(folder_of_wheels, "timm", "1.0", {"timm.py": ""}, ["torchvision"])
    for name in ("PIP_NO_INDEX", "UV_INDEX", "UV_INDEX_STRATEGY", "UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", index_of(tmp_path / "main", next(folder_of_wheels.glob("pear-1*")), "pear"))
    monkeypatch.setattr(registry.find("torch"), "cpu_builds", (tmp_path / "nothing/simple").as_uri())
    for line in ("torchvision", "timm"):
        with pytest.raises(
            EnvironmentFault, match=r"(?s)torchvision 0\.28\.0 is compiled .* nodes' torch 2\.13\.0\+cpu"
        ):
            resolved(tree, line)
    wheel = wheels.make(tmp_path / "cpu", "torchvision", "0.28.0+cpu", {"torchvision.py": ""}, ["torch==2.13.0"])
    monkeypatch.setattr(registry.find("torch"), "cpu_builds", index_of(tmp_path / "cpu", wheel, "torchvision"))
    for line in ("torchvision", "timm"):
        found = resolved(tree, line)
        assert found and found.versions["torchvision"] == "0.28.0+cpu", line
    own = resolved(tree, "torch==2.9.0", "pear")
    assert own and "torchvision" not in own.versions


def test_what_a_service_has_is_not_brought_again_and_contradictions_name_both_versions(
    tree: Path, folder_of_wheels: Path
) -> None:
    wheels.make(folder_of_wheels, "sparkling", "3.5.1", {"sparkling.py": ""})
    wheels.make(folder_of_wheels, "sparkling", "4.3.0", {"sparkling.py": ""})
    wheels.make(folder_of_wheels, "deltas", "1.0", {"deltas.py": ""}, ["sparkling<4"])

    def under_service(*lines: str) -> resolve.Resolution | None:
        (tree / "requirements.txt").write_text("\n".join(lines) + "\n")
        wanted = requirements.of(Requirements(), tree, ("sparkling",))
        assert wanted
        return resolve.resolve(replace(wanted, provided={"sparkling": "4.3.0"}), HERE, tree, lambda _: None)

    assert under_service("sparkling") is None and under_service("sparkling>=4") is None
    beside = under_service("pear", "sparkling")
    assert beside and beside.versions == {"pear": "2.5"}
    for line, by in (("sparkling==3.5.1", ""), ("deltas", " for deltas")):
        said = rf"needs sparkling 3\.5\.1{by}, and the cluster runs sparkling 4\.3\.0"
        with pytest.raises(EnvironmentFault, match=said):
            under_service(line)
    plain = resolved(tree, "sparkling==3.5.1")
    assert plain and plain.versions == {"sparkling": "3.5.1"}, "under other frameworks it is the run's own"


def test_what_a_killed_build_left_is_cleared_and_what_one_works_on_is_not(tree: Path) -> None:
    found = resolved(tree, "pear")
    assert found
    build.folder().mkdir(parents=True)
    own, dead, alive = (build.folder() / f".making-{key}-x" for key in (found.key, "d" * 12, "a" * 12))
    for path in (own, dead, alive):
        (path / "layer").mkdir(parents=True)
    with (build.folder() / f".{'a' * 12}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build.make(found, print)
    assert [path.exists() for path in (own, dead, alive)] == [False, False, True]


def test_locks_are_read_as_they_are(tree: Path, folder_of_wheels: Path) -> None:
    (tree / "pyproject.toml").write_text(
        f'[project]\nname = "x"\nversion = "0"\nrequires-python = ">={PYTHON}"\ndependencies = ["pear<2"]\n'
    )
    program = [str(Path(sys.executable).parent / "uv"), "lock", "--quiet", "--offline", "--python", sys.executable]
    subprocess.run(program, cwd=tree, check=True)
    (tree / "pyproject.toml").write_text((tree / "pyproject.toml").read_text().replace("pear<2", "pear"))
    found = resolved(tree)
    assert found and found.versions == {"pear": "1.0"}, "the lock counts"
    with pytest.raises(EnvironmentFault, match=r"uv.lock: is for Python .* and the nodes have 3\.9\.1"):
        resolved(tree, on=replace(HERE, python="3.9.1"))
    (tree / "uv.lock").unlink()
    found = resolved(
        tree, 'lock-version = "1.0"', "[[packages]]", 'name = "pear"', 'version = "1.0"', name="pylock.toml"
    )
    assert found and found.versions == {"pear": "1.0"}


@pytest.mark.parametrize("locked", [False, True], ids=["listed", "locked"])
def test_extras_and_groups_that_are_asked_for(tree: Path, folder_of_wheels: Path, locked: bool) -> None:
    wheels.make(folder_of_wheels, "quince", "1.0", {"quince.py": ""})
    (tree / "pyproject.toml").write_text(
        f'[project]\nname = "x"\nversion = "0"\nrequires-python = ">={PYTHON}"\ndependencies = []\n'
        '[project.optional-dependencies]\nround = ["pear"]\n'
        '[dependency-groups]\nred = ["quince"]\nall = [{include-group = "red"}]\n'
    )
    if locked:
        program = [str(Path(sys.executable).parent / "uv"), "lock", "--quiet", "--offline", "--python", sys.executable]
        subprocess.run(program, cwd=tree, check=True)

    def found(*extras: str, groups: tuple[str, ...] = ()) -> set[str]:
        wanted = requirements.of(Requirements(extras=extras, groups=groups), tree)
        made = wanted and resolve.resolve(wanted, HERE, tree, lambda _: None)
        return {*made.versions} if made else set()

    assert found() == set() and found("round") == {"pear"} and found(groups=("all",)) == {"quince"}
    with pytest.raises(EnvironmentFault, match="none"):
        found("none")
    with pytest.raises(EnvironmentFault, match="none"):
        found(groups=("none",))


def test_a_lock_beside_the_list_says_versions_and_files_where_the_list_allows_them(tree: Path, tmp_path: Path) -> None:
    lock = tmp_path / "layers.lock"

    def found(text: str, *more: str) -> dict[str, str]:
        lock.write_text(text)
        wanted = requirements.of(Requirements(more=more, lock=lock), tree)
        assert wanted
        made = resolve.resolve(wanted, HERE, tree, lambda _: None)
        assert made
        return made.versions

    (old,) = (tmp_path / "wheels").glob("pear-1.0-*")
    text = f"clicky==8.1\npear==1.0 ; python_version >= '3.10' \\\n    --hash=sha256:{files.sha256(old)}\n"
    assert found(text, "pear") == {"pear": "1.0"}, "the base has clicky"
    assert found(text, "pear>2") == {"pear": "2.5"}
    damaged = text.replace(files.sha256(old), "0" * 64)
    assert found(damaged, "pear>2") == {"pear": "2.5"}
    with pytest.raises(EnvironmentFault, match=r"pear 1\.0: the index has other files than the lock"):
        found(damaged, "pear")
    first, second = (requirements.of(Requirements(more=("pear",), lock=one), tree) for one in (lock, None))
    assert first and second and first.digest != second.digest


def test_the_lock_of_layers_has_what_regatta_brings() -> None:
    folder = PROJECT / "requirements"
    asked = {Requirement(line) for line in (folder / "layers.in").read_text().splitlines() if line[0] != "#"}
    brought = [line for name in registry.names() for line in registry.find(name).requirements]
    for workload in discovery.ours().values():
        brought += workload.requirements.read_text().splitlines() if workload.requirements else []
        for option in workload.card.options.values():
            brought += [line for lines in option.packages.values() for line in lines]
    assert asked == {*map(Requirement, brought)} - {Requirement("setuptools<81")}, "the nodes' lock has it, newer"
    pins = {entry.name: entry for entry in lockfile.entries((folder / "layers.lock").read_text())}
    known = {one: pins[canonicalize_name(one.name)] for one in asked}
    assert all(pin.hashes and one.specifier.contains(pin.version) for one, pin in known.items())
    assert not {*pins} & {entry.name for entry in lockfile.entries((folder / "node.lock").read_text())}


def test_an_archive_is_made_once_and_is_the_same_for_all_who_ask_at_once(tree: Path) -> None:
    found = resolved(tree, "apple")
    assert found
    said: list[str] = []
    made: list[build.Archive] = []
    threads = [threading.Thread(target=lambda: made.append(build.make(found, said.append))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2 and made[0] == made[1]
    assert sum("waiting for another command" in line for line in said) == 1
    names = sorted(path.name for path in build.folder().iterdir() if path.name.endswith((".gz", ".json")))
    assert names == [f"{found.key}.json", f"{found.key}.tar.gz"]
    made[0].path.write_bytes(b"damaged")
    assert build.make(found, said.append).sha256 == made[0].sha256, "the same files make the same archive"


def test_nothing_is_left_of_a_download_that_was_stopped(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = resolved(tree, "apple")
    assert found

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "_compile", stopped)
    with pytest.raises(KeyboardInterrupt):
        build.make(found, print)
    assert [path.name for path in build.folder().iterdir()] == [f".{found.key}.lock"]


def placed(remote: Remote, tree: Path, *lines: str) -> layer_cache.Layer | None:
    (tree / "requirements.txt").write_text("\n".join(lines) + "\n")
    made = layer_cache.Layers(remote, print)
    asked = made.asked(Requirements(), tree)
    assert asked
    answers = remote.everywhere(remote.cluster.nodes, Inspect(layer=asked.question()))
    return made.ready(asked, answers)


def test_a_layer_is_on_every_node_whole_and_read_only(pair: Remote, tree: Path, capsys) -> None:
    made = placed(pair, tree, "pear")
    assert made and made.packages == {"pear": "2.5"}
    for node in pair.cluster.nodes:
        folder = Path(node.root) / "layers" / made.key
        assert (folder / "pear.py").stat().st_mode & 0o777 == 0o444
        assert [*(folder / "__pycache__").glob("pear.*.pyc")], "with byte code"
        env = {"PYTHONPATH": str(folder), "PATH": f"{folder}/bin:{Path(sys.executable).parent}"}
        done = subprocess.run(["pear-program"], env=env, capture_output=True, text=True, check=True)
        assert done.stdout == "program of pear\n"
        assert not [*(Path(node.root) / "layers").glob(".incoming-*")]
    capsys.readouterr()
    again = placed(pair, tree, "pear")
    assert again == made
    assert capsys.readouterr().out.count("\n") == 1, "asked alone: the line that says what is brought"
    (told,) = pair.call(pair.cluster.head, LookAtLayers()).layers
    assert (told.key, told.whose, told.packages) == (made.key, ("project",), {"pear": "2.5"})


def test_a_list_is_resolved_again_where_its_wheels_have_moved(
    remote: Remote, tree: Path, folder_of_wheels: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """Neither node nor cache has the layer any more, and what was found before names files that are gone."""
    first = placed(remote, tree, "pear")
    assert first
    shutil.rmtree(build.folder())
    on_node = Path(remote.cluster.head.root) / "layers"
    on_node.rename(on_node.with_name("gone"))
    moved = folder_of_wheels.rename(folder_of_wheels.with_name("moved"))
    monkeypatch.setenv("UV_FIND_LINKS", str(moved))
    wheels.make(moved, "pear", "2.6", {"pear.py": "def main(): pass"})
    capsys.readouterr()
    made = placed(remote, tree, "pear")
    assert made and made.packages == {"pear": "2.6"}
    said = capsys.readouterr().out
    assert first.key not in said, "what is not brought is not told"
    assert said.count(f"layer {made.key}") == 2, "what it is, and that it is put there"


def test_a_bundle_brings_layers_to_where_nothing_can_be_downloaded(
    remote: Remote, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = base.ask(remote, remote.cluster.head)
    own = ("uv", "regatta")  # which needs it; nodes have neither
    installed = {name: package for name, package in nodes.packages.items() if name not in own}
    base.stubs(replace(nodes, packages=installed | {"uv": Package("uv", "0.1")}), tmp_path / "house")
    told = base.of_wheels(tmp_path / "house", nodes.python, nodes.machine, nodes.glibc)
    assert told.packages == installed, "what installs the others is not on the nodes"
    (tree / "requirements.txt").write_text("apple\n")
    (tree / "poetry.lock").touch()
    packed = bundled.pack(tree, told, tmp_path, print)
    made = packed.layer
    assert made and made.versions["apple"] == "1.0"
    assert "of requirements.txt, from " in packed.lines[0] and "and not from poetry.lock" in packed.lines[1]
    (tree / "poetry.lock").unlink()
    for inside, path in packed.files.items():
        there = tmp_path / "cache/bundle/abc" / inside
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, there)
    shutil.rmtree(build.folder())
    monkeypatch.setenv("UV_FIND_LINKS", "")
    layer = placed(remote, tree, "apple")
    assert layer and layer.key == made.key
    assert (Path(remote.cluster.head.root) / "layers" / layer.key / "pear.py").is_file()
    with pytest.raises(EnvironmentFault, match="clicky"):
        placed(remote, tree, "apple", "clicky==9.1")
    (tree / "requirements.txt").write_text("apple\n")
    wanted = requirements.of(Requirements(), tree)
    assert wanted and bundled.find(wanted, nodes)
    name, package = next(iter(nodes.packages.items()))
    others = {**nodes.packages, name: replace(package, version="0.0")}
    assert bundled.find(wanted, replace(nodes, packages=others)) is None, "made for other nodes"


def source(folder: Path, name: str, backend: str) -> None:
    """A package that is published only as source; `backend` is the code of its own build."""
    metadata = f"Metadata-Version: 2.2\nName: {name}\nVersion: 1.0\n"
    settings = '[build-system]\nrequires = []\nbuild-backend = "made"\nbackend-path = ["."]\n'
    project = f'[project]\nname = "{name}"\nversion = "1.0"\n'
    archived(folder, name, {"PKG-INFO": metadata, "pyproject.toml": settings + project, "made.py": backend})


def archived(folder: Path, name: str, whole: Mapping[str, str]) -> None:
    """A source archive of these files."""
    with tarfile.open(folder / f"{name}-1.0.tar.gz", "w:gz") as archive:
        for inside, text in whole.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{inside}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


BACKEND = """\
import os, pathlib, zipfile

def build_wheel(folder, settings=None, metadata=None):
    pathlib.Path(os.environ["HOME"], "it-may-write").touch()
    name = "stone-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("stone.py", f"BUILT_WITH = {os.path.basename(os.environ['HOME'])!r}")
        wheel.writestr("stone-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: stone\\nVersion: 1.0\\n")
        tags = "Root-Is-Purelib: false\\nTag: py3-none-any\\n"
        wheel.writestr("stone-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\n" + tags)
        wheel.writestr("stone-1.0.dist-info/RECORD", "")
    return name
"""


def test_old_source_tells_its_needs_beside_a_base_that_has_setuptools(tree: Path, folder_of_wheels: Path) -> None:
    setup = (
        "from setuptools import setup\nsetup(name='old', version='1.0', py_modules=['old'], install_requires=['pear'])"
    )
    whole = {"setup.py": setup, "old.py": "", "PKG-INFO": "Metadata-Version: 1.0\nName: old\n"}
    archived(folder_of_wheels, "old", whole)
    on = replace(HERE, packages={**HERE.packages, "setuptools": Package("setuptools", "84.0")})
    found = resolved(tree, "old", on=on)
    assert found and found.versions == {"old": "1.0", "pear": "2.5"}
    with tarfile.open(build.make(found, print).path) as archive:
        assert "old.py" in archive.getnames()


CURIOUS = """\
import json, os, resource, subprocess, sys
from setuptools import setup
left = subprocess.Popen(["sleep", "600"], start_new_session=True)
limits = [resource.getrlimit(one)[0] for one in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)]
with open({seen!r}, "w") as file:
    json.dump([left.pid, dict(os.environ), limits], file)
setup(name="curious", version="1.0", py_modules=["curious"])
"""


def test_the_build_of_source_has_limits_no_secrets_and_leaves_no_process(
    tree: Path, folder_of_wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen.json"
    whole = {"setup.py": CURIOUS.format(seen=str(seen)), "curious.py": "", "PKG-INFO": "Metadata-Version: 1.0\n"}
    archived(folder_of_wheels, "curious", whole)
    secrets = {"SSH_AUTH_SOCK": "/agent", "HF_TOKEN": "word", "UV_INDEX": "", "AWS_SECRET_ACCESS_KEY": "word"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    found = resolved(tree, "curious")
    assert found
    for work in (None, lambda: build.make(found, print)):
        if work:
            seen.unlink()
            work()
        left, environment, limits = json.loads(seen.read_text())
        assert not Path(f"/proc/{left}").exists(), "what the build has started ends with it"
        assert not secrets.keys() & environment.keys() and environment["HOME"] != os.environ["HOME"]
        assert all(0 < limit < 1 << 40 for limit in limits)


def test_source_for_a_compiler_is_built_once_on_a_node(
    remote: Remote, tree: Path, folder_of_wheels: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(folder_of_wheels, "stone", BACKEND)
    found = resolved(tree, "stone")
    assert found
    with pytest.raises(EnvironmentFault, match=r"stone 1\.0 is published as source for a compiler"):
        build.make(found, print)
    layer = placed(remote, tree, "stone")
    assert layer and layer.packages == {"stone": "1.0"}
    there = Path(remote.cluster.head.root) / "layers" / layer.key
    assert (there / "stone.py").read_text() == "BUILT_WITH = 'home'", "on the node, in a home of the build's own"
    assert "building stone 1.0 from source on here" in capsys.readouterr().out
    assert not [*there.parent.glob(".incoming-*")]
    again = placed(remote, tree, "stone", "pear")
    assert again and again.key != layer.key
    assert "building" not in capsys.readouterr().out
    (built,) = (build.paths.cache_dir() / "built").glob("*/*.whl")
    assert built.name == "stone-1.0-py3-none-any.whl"


def test_a_build_that_fails_says_why_and_where(remote: Remote, tree: Path, folder_of_wheels: Path) -> None:
    source(folder_of_wheels, "stone", "import os\n\ndef build_wheel(folder, *_):\n    raise OSError('no gcc here')\n")
    with pytest.raises(EnvironmentFault, match=r"stone 1\.0 .*here cannot build it:\n(.*\n)*.*OSError: no gcc here"):
        placed(remote, tree, "stone")
    assert not [*(Path(remote.cluster.head.root) / "layers").glob(".incoming-*")]


def test_a_layer_that_arrives_damaged_is_not_there(remote: Remote, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = build.make
    monkeypatch.setattr(build, "make", lambda *words: replace(make(*words), tree="0" * 16))
    with pytest.raises(NodesError, match=r"here: layer [0-9a-f]{12} arrived with another content"):
        placed(remote, tree, "pear")
    assert [path.name for path in (Path(remote.cluster.head.root) / "layers").iterdir()] == []


def test_a_full_disk_is_said_before_anything_is_sent(remote: Remote) -> None:
    with pytest.raises(RemoteError, match="MiB free, and the layer needs"):
        remote.call(remote.cluster.head, BeginLayer("k", 1 << 60))


def test_layers_that_nobody_has_asked_for_go_and_those_of_runs_stay(remote: Remote) -> None:
    place = remote.place(remote.cluster.head)
    top = Path(place["root"]) / "layers"
    for number in range(layers.KEEP + 4):
        (top / f"k{number}").mkdir(parents=True)
        (top / f".k{number}.json").write_text("{}")
        os.utime(top / f".k{number}.json", (number + 1, number + 1))
    (Path(place["state"]) / "runs/going").mkdir(parents=True)
    with notes.starting(place, "going", Spec("going", Mode.MEMBER, "ray", "ab", layer="k0"), None):
        pass
    assert sorted(layers.prune(place, "k1")) == ["k2", "k3"]
    assert (top / "k0").is_dir() and not (top / "k2").exists()


def test_nodes_with_different_environments_are_named() -> None:
    known = {"a": "1", "b": "1", "c": "2"}
    answers = {name: Inspected(layer=LayerState(base, there=True)) for name, base in known.items()}
    with pytest.raises(EnvironmentFault, match="c has another Python environment than a"):
        base.same(answers)
