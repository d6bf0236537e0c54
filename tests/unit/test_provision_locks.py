"""The lock, read for the nodes' Python rather than the controller's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regatta.paths import PROJECT
from regatta.provisioning import lockfile, locks
from regatta.provisioning.lockfile import LockError
from regatta.provisioning.locks import Chosen, Target, choose, fingerprint

ONE, TWO = "1" * 64, "2" * 64
LOCK = f"""\
# a comment
async-timeout==5.0.1 ; python_full_version < '3.11' --hash=sha256:{ONE}
numpy==2.2.6 ; python_full_version < '3.11' \\
    --hash=sha256:{ONE} \\
    --hash=sha256:{TWO}
numpy==2.4.6 ; python_full_version == '3.11.*' \\
    --hash=sha256:{ONE}
    # via pandas
numpy==2.5.5 ; python_full_version >= '3.12' --hash=sha256:{TWO}
colorama==0.4.6 ; sys_platform == 'win32' --hash=sha256:{ONE}
Six_Pack==1.0  --hash sha256:{ONE}   # of what
greenlet==1.0 ; platform_machine == 'aarch64' --hash=sha256:{ONE}
"""
TORCH = f"torch==2.13.0+cpu --hash=sha256:{ONE}\n"
X86 = Target("3.11.2", "x86_64")


def pins(lock: str, target: Target) -> tuple[str, ...]:
    return Chosen(choose(lock, target)).pins


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "node.lock"
    path.write_text(LOCK)
    (tmp_path / "torch-cpu.lock").write_text(TORCH)
    return path


@pytest.mark.parametrize(
    ("python", "numpy", "has_timeout"),
    [("3.10.12", "2.2.6", True), ("3.11.2", "2.4.6", False), ("3.12.3", "2.5.5", False)],
)
def test_markers_are_those_of_the_node(lock: Path, python: str, numpy: str, has_timeout: bool) -> None:
    found = locks.read(lock, Target(python, "x86_64"), lock.with_name("torch-cpu.lock")).pins
    assert f"numpy=={numpy}" in found
    assert ("async-timeout==5.0.1" in found) is has_timeout
    assert "torch==2.13.0+cpu" in found and "six-pack==1.0" in found
    assert not any(pin.startswith(("colorama", "greenlet")) for pin in found)


def test_machine_counts() -> None:
    assert "greenlet==1.0" in pins(LOCK, Target("3.11.2", "aarch64"))


def test_an_entry_has_its_hashes_and_its_line() -> None:
    (entry,) = [entry for entry in lockfile.entries(LOCK) if entry.version == "2.2.6"]
    assert (entry.name, entry.hashes, entry.line) == ("numpy", (ONE, TWO), 3)
    assert entry.requirement == f"numpy==2.2.6 --hash=sha256:{ONE} --hash=sha256:{TWO}"


@pytest.mark.parametrize(
    ("build", "pin"), [("cu126", "torch==2.13.0+cu126"), ("pypi", "torch==2.13.0"), ("cpu", "torch==2.13.0+cpu")]
)
def test_torch_build_is_the_users_choice(lock: Path, build: str, pin: str) -> None:
    torch = lock.with_name("torch.lock")
    torch.write_text(f"{pin} --hash=sha256:{ONE}\nnvidia-nccl==2.0 --hash=sha256:{TWO}\n")
    found = locks.read(lock, Target("3.11.2", "x86_64", torch_build=build), torch)
    assert pin in found.pins and "nvidia-nccl==2.0" in found.pins
    assert [entry.name for entry in found.torch] == ["nvidia-nccl", "torch"]
    with pytest.raises(LockError, match=r"torch\.lock has torch .*not build 'rocm6'"):
        locks.read(lock, Target("3.11.2", "x86_64", torch_build="rocm6"), torch)


@pytest.mark.parametrize(
    ("torch", "said"),
    [
        (None, "make torch-lock BUILD=cpu"),
        (f"numpy==2.4.6 --hash=sha256:{ONE}", r"line 1 .*numpy is in .*node\.lock too"),
        (f"triton==1 --hash=sha256:{ONE}", "has no torch"),
        ("torch==2.13.0+cpu", r"torch-cpu\.lock: line 1 .*has no SHA-256"),
    ],
)
def test_a_build_of_torch_without_a_known_hash_is_refused(lock: Path, torch: str | None, said: str) -> None:
    path = lock.with_name("torch-cpu.lock")
    path.unlink() if torch is None else path.write_text(torch)
    with pytest.raises(LockError, match=said):
        locks.read(lock, X86, path)


@pytest.mark.parametrize(
    ("lock", "said"),
    [
        (f"numpy>=2 --hash=sha256:{ONE}", "line 1 .* not pinned"),
        (f"numpy==2.* --hash=sha256:{ONE}", "not pinned"),
        (f"a==1 --hash=sha256:{ONE}\na==2 --hash=sha256:{ONE}", "line 2 .* second version of a"),
        (f"a==1 ; nonsense --hash=sha256:{ONE}", "line 1"),
        ("# nothing", "no package"),
        ("a==1", "line 1 .*has no SHA-256"),
        (f"a==1 --hash=sha256:{ONE}\nb==1 ; python_version > '3'\n", "line 2 .*'b==1.*has no SHA-256"),
        (f"# torch==1 \\\n    --hash=sha256:{ONE}\n", "belongs to no package"),
        (f"a==1 \\\n    --hash=sha256:{ONE}\n    --hash=sha256:{TWO}\n", "line 3 .*belongs to no package"),
        (f"a==1 \\\nb==2 \\\n    --hash=sha256:{ONE}\n", "line 1 .*a==1 b==2"),
        (f"a==1 \\\n\nb==2 --hash=sha256:{ONE}\n", "line 2 .*entry of line 1 ends here"),
        (f"a==1 \\\n    --hash=sha256:{ONE} \\\n", "line 1 .*cut off"),
        (f"a==1 --hash=sha256:{ONE[:-1]}", "line 1 .*64 digits"),
        (f"a==1 --hash=md5:{ONE}", "line 1 .*sha256"),
        (f"--index-url http://127.0.0.1/ \\\n--hash=sha256:{ONE}", "line 1 .*option of pip"),
        ("-r other.txt", "line 1"),
    ],
)
def test_a_lock_that_does_not_say_one_version_and_its_files_is_refused(lock: str, said: str) -> None:
    with pytest.raises(LockError, match=said):
        pins(lock, X86)


def test_a_missing_lock_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="make locks"):
        locks.read(tmp_path / "none.lock", X86)


def test_the_name_of_an_environment_follows_all_that_matters() -> None:
    name = fingerprint(pins(LOCK, X86), X86)
    patch = Target("3.11.9", "x86_64", glibc="2.39")
    assert fingerprint(pins(LOCK, patch), patch) == name
    assert fingerprint(pins(LOCK.replace(ONE, "3" * 64), X86), X86) == name
    others = [Target("3.12.1", "x86_64"), Target("3.11.2", "aarch64"), Target("3.11.2", "x86_64", torch_build="cu126")]
    assert len({name, *(fingerprint(pins(LOCK, other), other) for other in others)}) == 4


def test_the_name_is_what_it_was_before_locks_had_hashes() -> None:
    assert fingerprint(("numpy==2.4.6", "torch==2.13.0+cpu"), X86) == "281989b9a4dd"


@pytest.mark.parametrize("python", ["3.10.12", "3.11.2", "3.12.3", "3.13.5", "3.14.4"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("build", ["cpu", "pypi"])
def test_the_real_lock_holds_for_every_supported_python(python: str, machine: str, build: str) -> None:
    target = Target(python, machine, torch_build=build)
    found = locks.read(PROJECT / "requirements/node.lock", target, PROJECT / f"requirements/torch-{build}.lock").pins
    names = {pin.split("==")[0] for pin in found}
    assert {"torch", "ray", "numpy", "scipy", "torch-ppr", "hdfs", "uv"} <= names
    assert any(name.startswith(("nvidia", "triton", "cuda")) for name in names) is (build == "pypi")
    test = {str(entry) for entry in choose((PROJECT / "requirements/node-test.lock").read_text(), target)}
    assert {pin for pin in found if not pin.startswith(("torch==", "nvidia", "triton", "cuda"))} <= test


RESOLVED = f"""\
nvidia-nccl==2.0 ; sys_platform == 'linux' \\
    --hash=sha256:{ONE} \\
    --hash=sha256:{TWO}
sympy==1.0 \\
    --hash=sha256:{ONE}
torch==2.13.0 \\
    --hash=sha256:{TWO} \\
    --hash=sha256:{ONE}
torch-ppr==0.0.8 \\
    --hash=sha256:{TWO}
triton==3.0 \\
    --hash=sha256:{ONE}
"""


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    """A copy of requirements/ with a uv that resolves all to `RESOLVED`, and notes what it was asked."""
    folder = tmp_path / "requirements"
    folder.mkdir()
    for name in ("compile.sh", "node.in", "node.lock", "torch-pypi.lock"):
        (folder / name).write_bytes((PROJECT / "requirements" / name).read_bytes())
    uv = tmp_path / "uv"
    (tmp_path / "resolved").write_text(RESOLVED)
    uv.write_text(
        f"""#!{sys.executable} -IS
import json, pathlib, sys
words = sys.argv[1:]
asked = pathlib.Path("{tmp_path}/asked")
with asked.open("a") as file: file.write(json.dumps(words) + chr(10))
pathlib.Path(words[words.index("--output-file") + 1]).write_text(pathlib.Path("{tmp_path}/resolved").read_text())
"""
    )
    uv.chmod(0o755)
    return folder


def compiled(folder: Path, *words: str) -> list[list[str]]:
    env = os.environ | {"UV": str(folder.parent / "uv")}
    subprocess.run(["bash", folder / "compile.sh", *words], env=env, check=True)
    return [json.loads(line) for line in (folder.parent / "asked").read_text().splitlines()]


def test_whole_entries_go_from_the_nodes_lock_to_that_of_torchs_build(requirements: Path) -> None:
    asked = compiled(requirements)
    assert len(asked) == 9 and all("--generate-hashes" in words for words in asked)
    text = (requirements / "node.lock").read_text()
    assert [str(entry) for entry in lockfile.entries(text)] == ["sympy==1.0", "torch-ppr==0.0.8"]
    found = lockfile.entries((requirements / "torch-pypi.lock").read_text())
    assert {str(entry): entry.hashes for entry in found} == {
        "nvidia-nccl==2.0": (ONE, TWO),
        "torch==2.13.0": (TWO, ONE),
        "triton==3.0": (ONE,),
    }


def test_the_lock_of_a_build_is_made_from_its_index(requirements: Path) -> None:
    before = (requirements / "node.lock").read_text()
    text = RESOLVED.replace("torch==2.13.0", "torch==2.13.0+cu126")
    (requirements.parent / "resolved").write_text(text)
    (asked,) = compiled(requirements, "torch", "cu126")
    assert asked[asked.index("--index") + 1].endswith("/cu126")
    found = locks.read(requirements / "node.lock", Target("3.11.2", "x86_64", torch_build="cu126"))
    torch = locks.choose((requirements / "torch-cu126.lock").read_text(), X86)
    assert [str(entry) for entry in torch] == ["nvidia-nccl==2.0", "torch==2.13.0+cu126", "triton==3.0"]
    assert (requirements / "node.lock").read_text() == before and found
