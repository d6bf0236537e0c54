"""The wheelhouse: one download, a manifest that is believed only as far as the files agree with it."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from packages import make_source, make_wheel, serve

from regatta.files import sha256
from regatta.provisioning import archive, wheels
from regatta.provisioning.lockfile import Entry
from regatta.provisioning.locks import Chosen, Target
from regatta.provisioning.wheels import HashError, WheelError

TARGET = Target("3.11.2", "x86_64", "2.36")


NOWHERE = "http://127.0.0.1:9/none"


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose pip knows one folder and no index."""
    folder = tmp_path / "sources"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def entry(path: Path, version: str = "1.0") -> Entry:
    """The entry of a lock that has only this file."""
    return Entry(path.name.split("-")[0], version, None, (sha256(path),), 1)


def wanted(*paths: Path) -> Chosen:
    return Chosen(tuple(entry(path) for path in paths))


def test_made_once_and_listed(tmp_path: Path, sources: Path) -> None:
    lock = wanted(make_wheel(sources, "alpha"))
    made = wheels.make(tmp_path / "house", lock, TARGET, NOWHERE)
    assert wheels.check(made) == {"alpha-1.0-py3-none-any.whl": sha256(made / "alpha-1.0-py3-none-any.whl")}
    for path in sources.iterdir():
        path.unlink()
    assert wheels.make(tmp_path / "house", lock, TARGET, NOWHERE) == made


def test_torch_comes_from_the_machines_own_sources_first(tmp_path: Path, sources: Path) -> None:
    torch = entry(make_wheel(sources, "torch", "2.13.0+cpu"), "2.13.0+cpu")
    lock = Chosen((entry(make_wheel(sources, "alpha")),), (torch,))
    made = wheels.make(tmp_path / "house", lock, TARGET, NOWHERE)
    names = ["alpha-1.0-py3-none-any.whl", "torch-2.13.0+cpu-py3-none-any.whl"]
    assert sorted(path.name for path in made.glob("*.whl")) == names


def test_a_missing_torch_names_the_variables(tmp_path: Path, sources: Path) -> None:
    lock = Chosen((entry(make_wheel(sources, "alpha")),), (Entry("torch", "2.13.0+cpu", None, ("0" * 64,), 1),))
    with pytest.raises(
        WheelError, match=r"torch-2.13.0\+cpu-cp311-cp311-.*python_env_torch_index.*pip download .*put it into"
    ):
        wheels.make(tmp_path / "house", lock, TARGET, NOWHERE)
    assert not (tmp_path / "house").exists()


def test_a_missing_package_is_named(tmp_path: Path, sources: Path) -> None:
    with pytest.raises(WheelError, match="beta"):
        wheels.make(tmp_path / "house", Chosen((Entry("beta", "1.0", None, ("0" * 64,), 1),)), TARGET, NOWHERE)
    assert not (tmp_path / "house").exists()


def test_a_build_of_torch_that_is_not_known_is_refused(tmp_path: Path, sources: Path) -> None:
    own = make_wheel(sources, "torch", "2.13.0+cpu")
    torch = Entry("torch", "2.13.0+cpu", None, ("0" * 64,), 1)
    with pytest.raises(HashError, match=r"torch==2\.13\.0\+cpu.*not the file that the lock names") as caught:
        wheels.make(tmp_path / "house", Chosen((entry(make_wheel(sources, "alpha")),), (torch,)), TARGET, NOWHERE)
    assert sha256(own) in str(caught.value)
    assert not (tmp_path / "house").exists()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small index on loopback, which is all that pip knows; the folder of its files."""
    files = tmp_path / "files"
    files.mkdir()

    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    with serve(files) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        yield files


def test_an_index_that_serves_another_file_under_the_name_is_refused(tmp_path: Path, index: Path) -> None:
    lock = wanted(make_wheel(index, "alpha"), make_wheel(index, "beta"))
    house = wheels.make(tmp_path / "house", lock, TARGET, NOWHERE)
    assert len(wheels.check(house)) == 2
    make_wheel(index, "beta", text="x = 'evil'\n")
    with pytest.raises(HashError, match=r"beta==1\.0 .*not the file that the lock names") as caught:
        wheels.make(tmp_path / "other", lock, TARGET, NOWHERE)
    assert sha256(index / "beta-1.0-py3-none-any.whl") in str(caught.value)
    assert not (tmp_path / "other").exists()


def test_a_changed_hash_in_the_lock_is_refused_also_where_the_cache_has_the_wheels(tmp_path: Path, index: Path) -> None:
    lock = wanted(make_wheel(index, "alpha"))
    house = wheels.make(tmp_path / "house", lock, TARGET, NOWHERE)
    changed = Chosen((replace(lock.others[0], hashes=("f" * 64,)),))
    with pytest.raises(HashError, match="alpha"):
        wheels.make(house, changed, TARGET, NOWHERE)
    assert wheels.make(house, lock, TARGET, NOWHERE) == house


def test_a_source_is_verified_and_built_without_a_download(tmp_path: Path, index: Path) -> None:
    lock = wanted(make_source(index, "sail"))
    house = wheels.make(tmp_path / "house", lock, TARGET, NOWHERE)
    assert list(wheels.check(house)) == ["sail-1.0-py3-none-any.whl"]
    stamp = house.stat().st_ino
    assert wheels.make(house, lock, TARGET, NOWHERE).stat().st_ino == stamp
    ran = tmp_path / "ran"
    make_source(index, "sail", f"open({str(ran)!r}, 'w')\n")
    with pytest.raises(HashError, match="sail"):
        wheels.make(tmp_path / "other", lock, TARGET, NOWHERE)
    assert not ran.exists()


@pytest.mark.parametrize("harm", ["changed", "missing", "added", "manifest"])
def test_a_tampered_wheelhouse_is_refused(tmp_path: Path, harm: str) -> None:
    house = tmp_path / "house"
    wheel = make_wheel(house, "alpha")
    lock = wanted(wheel)
    wheels.write_manifest(house)
    wheels.check(house)
    if harm == "changed":
        wheel.write_bytes(wheel.read_bytes() + b"x")
    elif harm == "missing":
        wheel.unlink()
    elif harm == "added":
        make_wheel(house, "gamma")
    else:
        (house / wheels.MANIFEST).write_text("{")
    with pytest.raises(WheelError, match="try again"):
        wheels.make(house, lock, TARGET, NOWHERE)


def test_download_asks_for_the_nodes_python_and_machine() -> None:
    command = wheels.download_command(TARGET, Path("/w"), Path("/wanted.txt"))
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert command[command.index("--python-version") + 1] == "3.11"
    assert "--platform=manylinux_2_36_x86_64" in command
    assert "--platform=manylinux_2_37_x86_64" not in command
    assert "--platform=manylinux2014_x86_64" in command
    assert {"--require-hashes", "--no-deps", "--no-build-isolation"} <= set(command)


def test_plan_believes_the_cache_only_where_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGATTA_CACHE", str(tmp_path))
    lock = Chosen((Entry("alpha", "1.0", None, ("0" * 64,), 1),))
    plan = archive.make_plan(lock, TARGET)
    assert not plan.packed
    packed = Path(plan.archive)
    packed.parent.mkdir()
    packed.write_bytes(b"0123456789")
    packed.with_name(f"{packed.name}.json").write_text('{"sha256": "ab", "bytes": 10}')
    assert archive.make_plan(lock, TARGET).packed
    packed.write_bytes(b"0123")
    assert not archive.make_plan(lock, TARGET).packed
