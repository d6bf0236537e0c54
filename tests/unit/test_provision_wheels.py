"""The wheelhouse: one download, a manifest that is believed only as far as the files agree with it."""

import sys
import zipfile
from pathlib import Path

import pytest

from regatta.provisioning import archive, wheels
from regatta.provisioning.files import sha256
from regatta.provisioning.locks import Target
from regatta.provisioning.wheels import WheelError

TARGET = Target("3.11.2", "x86_64", "2.36")


def make_wheel(folder: Path, name: str, version: str = "1.0") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", "x = 1\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose pip knows one folder and no index."""
    folder = tmp_path / "sources"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def test_made_once_and_listed(tmp_path: Path, sources: Path) -> None:
    make_wheel(sources, "alpha")
    made = wheels.make(tmp_path / "house", ["alpha==1.0"], TARGET, "http://127.0.0.1:9/none")
    assert wheels.check(made) == {"alpha-1.0-py3-none-any.whl": sha256(made / "alpha-1.0-py3-none-any.whl")}
    for path in sources.iterdir():
        path.unlink()
    assert wheels.make(tmp_path / "house", ["alpha==1.0"], TARGET, "http://127.0.0.1:9/none") == made


def test_torch_comes_from_the_machines_own_sources_first(tmp_path: Path, sources: Path) -> None:
    make_wheel(sources, "torch", "2.13.0+cpu")
    made = wheels.make(tmp_path / "house", ["torch==2.13.0+cpu"], TARGET, "http://127.0.0.1:9/none")
    assert [path.name for path in made.glob("*.whl")] == ["torch-2.13.0+cpu-py3-none-any.whl"]


def test_a_missing_torch_names_the_variables(tmp_path: Path, sources: Path) -> None:
    with pytest.raises(WheelError, match=r"torch==2.13.0\+cpu.*python_env_torch_index"):
        wheels.make(tmp_path / "house", ["torch==2.13.0+cpu"], TARGET, "http://127.0.0.1:9/none")
    assert not (tmp_path / "house").exists()


def test_a_missing_package_is_named(tmp_path: Path, sources: Path) -> None:
    with pytest.raises(WheelError, match="beta"):
        wheels.make(tmp_path / "house", ["beta==1.0"], TARGET, "http://127.0.0.1:9/none")
    assert not (tmp_path / "house").exists()


@pytest.mark.parametrize("harm", ["changed", "missing", "added", "manifest"])
def test_a_tampered_wheelhouse_is_refused(tmp_path: Path, harm: str) -> None:
    house = tmp_path / "house"
    wheel = make_wheel(house, "alpha")
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
        wheels.make(house, ["alpha==1.0"], TARGET, "")


def test_download_asks_for_the_nodes_python_and_machine() -> None:
    command = wheels.download_command(TARGET, Path("/w"), ["a==1"], "--no-deps")
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert command[command.index("--python-version") + 1] == "3.11"
    assert "--platform=manylinux_2_36_x86_64" in command
    assert "--platform=manylinux_2_37_x86_64" not in command
    assert "--platform=manylinux2014_x86_64" in command


def test_plan_believes_the_cache_only_where_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGATTA_CACHE", str(tmp_path))
    lock = tmp_path / "node.lock"
    lock.write_text("alpha==1.0\n")
    plan = archive.make_plan(lock, TARGET)
    assert not plan.packed
    packed = Path(plan.archive)
    packed.parent.mkdir()
    packed.write_bytes(b"0123456789")
    packed.with_name(f"{packed.name}.json").write_text('{"sha256": "ab", "bytes": 10}')
    assert archive.make_plan(lock, TARGET).packed
    packed.write_bytes(b"0123")
    assert not archive.make_plan(lock, TARGET).packed
