"""torch's builds for every Python and machine: from Regatta's lock, else from an index that promises SHA-256."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from packages import make_wheel, serve

from regatta.files import sha256
from regatta.paths import PROJECT
from regatta.provisioning import __main__ as steps
from regatta.provisioning import lockfile, locks, torchlock, wheels
from regatta.provisioning.lockfile import LockError
from regatta.provisioning.locks import Chosen, Target
from regatta.provisioning.torchlock import Sources

REAL = PROJECT / "requirements/torch-cpu.lock"
PYTHONS = ("3.10.12", "3.11.2", "3.12.3", "3.13.5", "3.14.4")
MACHINES = ("x86_64", "aarch64")
BUILDS = [(python, machine) for python in PYTHONS for machine in MACHINES]


def wheel(folder: Path, version: str, target: Target, text: str = "x = 1\n", needs: str = "") -> Path:
    python = f"cp{target.minor.replace('.', '')}"
    return make_wheel(folder, "torch", version, text, f"{python}-{python}-manylinux_2_28_{target.machine}", needs)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """An index like PyTorch's: the folder of its files, and its URL. Nothing else is known to pip and uv."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "pip"))
    monkeypatch.setenv("REGATTA_CACHE", str(tmp_path / "cache"))
    files = tmp_path / "files"
    files.mkdir()
    with serve(files, hashes=True) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        yield files, url


def sources(tmp_path: Path, url: str, torch: str = "") -> Sources:
    """Locks of a Regatta whose torch is 2.13.0, and that knows `torch` of its build `cpu`."""
    folder = tmp_path / "requirements"
    folder.mkdir(exist_ok=True)
    (folder / "node.lock").write_text(f"numpy==2.0 --hash=sha256:{'1' * 64}\n")
    (folder / "torch-pypi.lock").write_text(f"torch==2.13.0 --hash=sha256:{'2' * 64}\n")
    nothing = f"torch==2.13.0+cpu ; python_version < '3' --hash=sha256:{'3' * 64}\n"
    (folder / "torch-cpu.lock").write_text(torch or nothing)
    return Sources(folder / "node.lock", folder / "torch-cpu.lock", tmp_path / "inventory", url)


@pytest.mark.parametrize(("python", "machine"), BUILDS)
def test_the_real_lock_names_the_file_of_each_python_and_machine(python: str, machine: str) -> None:
    (entry,) = locks.choose(REAL.read_text(), Target(python, machine))
    assert str(entry) == "torch==2.13.0+cpu"
    assert len(entry.hashes) == (2 if (python[:4], machine) == ("3.10", "x86_64") else 1)
    others = [one for one in lockfile.entries(REAL.read_text()) if one.line != entry.line]
    assert not {value for one in others for value in one.hashes} & set(entry.hashes)


@pytest.mark.parametrize(("python", "machine"), BUILDS)
def test_a_build_is_resolved_proven_and_refused(
    tmp_path: Path, index: tuple[Path, str], python: str, machine: str
) -> None:
    files, url = index
    target = Target(python, machine, "2.36")
    made = {other: wheel(files, "2.13.0+cpu", Target(*other), text=f"x = {other}\n") for other in BUILDS}
    mine = made[python, machine]
    known = sources(tmp_path, url)
    said: list[str] = []
    chosen = torchlock.read(known, target, said.append)
    own = tmp_path / f"inventory/torch-cpu-cp{target.minor.replace('.', '')}-{machine}.lock"
    assert len(said) == 1 and url in said[0] and str(own) in said[0]
    assert sha256(mine) in {value for entry in chosen.torch for value in entry.hashes}
    if python != PYTHONS[0] and (python, machine) != BUILDS[-1]:
        return  # pip, which is slow to start, is asked for the first and the last
    house = wheels.make(tmp_path / "house", Chosen((), chosen.torch), target, url)
    assert wheels.check(house) == {mine.name: sha256(mine)}
    wheel(files, "2.13.0+cpu", target, text="evil = 1\n")
    again: list[str] = []
    same = torchlock.read(known, target, again.append)
    assert again == [] and same.torch == chosen.torch
    with pytest.raises(wheels.HashError, match="not the file that the lock names"):
        wheels.make(tmp_path / "other", Chosen((), same.torch), target, url)


def test_what_regattas_lock_knows_is_never_asked_of_the_index(tmp_path: Path, index: tuple[Path, str]) -> None:
    files, url = index
    target = Target("3.13.5", "x86_64", "2.41")
    good = sha256(wheel(tmp_path, "2.13.0+cpu", target))
    known = sources(tmp_path, url, f"torch==2.13.0+cpu ; python_version == '3.13' --hash=sha256:{good}\n")
    wheel(files, "2.13.0+cpu", target, text="evil = 1\n")
    said: list[str] = []
    chosen = torchlock.read(known, target, said.append)
    assert said == [] and not (tmp_path / "inventory").exists()
    with pytest.raises(wheels.HashError, match="not the file that the lock names"):
        wheels.make(tmp_path / "house", Chosen((), chosen.torch), target, url)


def test_another_build_brings_the_packages_that_only_it_needs(tmp_path: Path, index: tuple[Path, str]) -> None:
    files, url = index
    target = Target("3.11.2", "x86_64", "2.36", "cu126")
    wheel(files, "2.13.0+cu126", target, needs="nvidia-nccl==2.0")
    make_wheel(files, "nvidia_nccl", "2.0")
    known = replace(sources(tmp_path, url), torch=tmp_path / "requirements/torch-cu126.lock")
    said: list[str] = []
    chosen = torchlock.read(known, target, said.append, keep=False)
    assert [str(entry) for entry in chosen.torch] == ["nvidia-nccl==2.0", "torch==2.13.0+cu126"]
    assert "would be kept" in said[0] and not (tmp_path / "inventory").exists()


def test_an_own_lock_of_an_older_torch_is_made_again(tmp_path: Path, index: tuple[Path, str]) -> None:
    files, url = index
    target = Target("3.13.5", "aarch64", "2.41")
    wheel(files, "2.13.0+cpu", target)
    known = sources(tmp_path, url)
    own = known.of(target)
    assert own
    own.parent.mkdir()
    own.write_text(f"torch==2.12.0+cpu --hash=sha256:{'4' * 64}\n")
    said: list[str] = []
    assert torchlock.read(known, target, said.append).pins[-1] == "torch==2.13.0+cpu" and said


def test_without_a_way_to_the_index_the_file_the_command_and_the_folder_are_named(
    tmp_path: Path, index: tuple[Path, str]
) -> None:
    target = Target("3.14.4", "aarch64", "2.43")
    known = sources(tmp_path, "http://127.0.0.1:9/none")
    with pytest.raises(LockError, match=r"torch-2\.13\.0\+cpu-cp314-cp314-manylinux_2_28_aarch64\.whl") as caught:
        torchlock.read(known, target, lambda _: None)
    assert str(torchlock.brought()) in str(caught.value)
    assert "pip download" in str(caught.value) and "--python-version 3.14" in str(caught.value)


def test_an_index_with_a_password_is_refused_before_it_is_an_argument(tmp_path: Path, index: tuple[Path, str]) -> None:
    known = sources(tmp_path, "https://me:secret@127.0.0.1:9/none")
    with pytest.raises(LockError, match="password") as caught:
        torchlock.read(known, Target("3.14.4", "aarch64", "2.43"), lambda _: None)
    assert "secret" not in str(caught.value)


def test_a_wheel_that_was_put_into_the_folder_is_taken_if_it_is_the_file_of_the_lock(
    tmp_path: Path, index: tuple[Path, str]
) -> None:
    target = Target("3.14.4", "aarch64", "2.43")
    mine = wheel(torchlock.brought(), "2.13.0+cpu", target)
    lock = f"torch==2.13.0+cpu ; python_version == '3.14' --hash=sha256:{sha256(mine)}\n"
    known = sources(tmp_path, index[1], lock)
    chosen = torchlock.read(known, target, lambda _: None)
    house = wheels.make(tmp_path / "house", Chosen((), chosen.torch), target, "http://127.0.0.1:9/none")
    assert wheels.check(house) == {mine.name: sha256(mine)}
    wheel(torchlock.brought(), "2.13.0+cpu", target, text="evil = 1\n")
    with pytest.raises(wheels.HashError):
        wheels.make(tmp_path / "other", Chosen((), chosen.torch), target, "http://127.0.0.1:9/none")


def test_a_wheel_in_the_folder_that_no_lock_knows_is_kept_by_its_own_hash(
    tmp_path: Path, index: tuple[Path, str]
) -> None:
    target = Target("3.14.4", "aarch64", "2.43")
    mine = wheel(torchlock.brought(), "2.13.0+cpu", target)
    chosen = torchlock.read(sources(tmp_path, index[1]), target, lambda _: None)
    assert [entry.hashes for entry in chosen.torch] == [(sha256(mine),)]


def test_the_step_of_provisioning_says_it_in_a_line(
    tmp_path: Path, index: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    files, url = index
    wheel(files, "2.13.0+cpu", Target("3.15.0", "x86_64"))
    known = sources(tmp_path, url)
    words = ["--lock", str(known.lock), "--python", "3.15.0", "--machine", "x86_64", "--glibc", "2.43"]
    words += ["--torch-lock", str(known.torch), f"--torch-index={url}", f"--own={known.own}"]
    assert steps.main(["plan", *words]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "kept in" in answer["warnings"][0] and "torch==2.13.0+cpu" in answer["pins"]
    assert steps.main(["plan", *words]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []
