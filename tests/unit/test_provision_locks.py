"""The lock, read for the nodes' Python rather than the controller's."""

from pathlib import Path

import pytest

from regatta.provisioning import locks
from regatta.provisioning.locks import LockError, Target, fingerprint, pins

LOCK = """\
# a comment
async-timeout==5.0.1 ; python_full_version < '3.11'
numpy==2.2.6 ; python_full_version < '3.11'
numpy==2.4.6 ; python_full_version == '3.11.*'
numpy==2.5.5 ; python_full_version >= '3.12'
colorama==0.4.6 ; sys_platform == 'win32'
Torch==2.13.0
greenlet==1.0 ; platform_machine == 'aarch64'
"""


@pytest.mark.parametrize(
    ("python", "numpy", "has_timeout"),
    [("3.10.12", "2.2.6", True), ("3.11.2", "2.4.6", False), ("3.12.3", "2.5.5", False)],
)
def test_markers_are_those_of_the_node(python: str, numpy: str, has_timeout: bool) -> None:
    found = pins(LOCK, Target(python, "x86_64"))
    assert f"numpy=={numpy}" in found
    assert ("async-timeout==5.0.1" in found) is has_timeout
    assert "torch==2.13.0+cpu" in found
    assert not any(pin.startswith(("colorama", "greenlet")) for pin in found)


def test_machine_counts() -> None:
    assert "greenlet==1.0" in pins(LOCK, Target("3.11.2", "aarch64"))


@pytest.mark.parametrize(("build", "pin"), [("cu126", "torch==2.13.0+cu126"), ("", "torch==2.13.0")])
def test_torch_build_is_the_users_choice(build: str, pin: str) -> None:
    assert pin in pins(LOCK, Target("3.11.2", "x86_64", torch_build=build))


@pytest.mark.parametrize(
    ("lock", "said"),
    [
        ("numpy>=2", "line 1 .* not pinned"),
        ("numpy==2.*", "not pinned"),
        ("a==1\na==2", "line 2 .* second version of a"),
        ("a==1 ; nonsense", "line 1"),
        ("# nothing", "no package"),
    ],
)
def test_a_lock_that_does_not_say_one_version_is_refused(lock: str, said: str) -> None:
    with pytest.raises(LockError, match=said):
        pins(lock, Target("3.11.2", "x86_64"))


def test_a_missing_lock_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="make locks"):
        locks.read_pins(tmp_path / "none.lock", Target("3.11.2", "x86_64"))


def test_the_name_of_an_environment_follows_all_that_matters() -> None:
    base = Target("3.11.2", "x86_64")
    name = fingerprint(pins(LOCK, base), base)
    patch = Target("3.11.9", "x86_64", glibc="2.39")
    assert fingerprint(pins(LOCK, patch), patch) == name
    others = [Target("3.12.1", "x86_64"), Target("3.11.2", "aarch64"), Target("3.11.2", "x86_64", torch_build="cu126")]
    assert len({name, *(fingerprint(pins(LOCK, other), other) for other in others)}) == 4


@pytest.mark.parametrize("python", ["3.10.12", "3.11.2", "3.12.3", "3.13.1"])
def test_the_real_lock_holds_for_every_supported_python(python: str) -> None:
    found = locks.read_pins(Path(__file__).resolve().parents[2] / "requirements/node.lock", Target(python, "x86_64"))
    names = {pin.split("==")[0] for pin in found}
    assert {"torch", "ray", "numpy", "scipy", "torch-ppr", "hdfs", "uv"} <= names
    assert not any(name.startswith(("nvidia", "triton", "cuda")) for name in names)
