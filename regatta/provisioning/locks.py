"""The lock of the nodes' packages, read for a Python and machine that are not the controller's."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from regatta.errors import RegattaError

_FORMAT = 2  # raise it when environments must be built anew although the lock is the same


class LockError(RegattaError):
    """The lock cannot be read, or it does not say exactly one version of a package."""


@dataclass(frozen=True)
class Target:
    """What a node runs: `python` is X.Y.Z, `machine` as in `uname -m`, `glibc` X.Y, `torch_build` a local label."""

    python: str
    machine: str
    glibc: str = "2.35"
    torch_build: str = "cpu"

    @property
    def minor(self) -> str:
        """`X.Y` of the Python."""
        return ".".join(self.python.split(".")[:2])

    def markers(self) -> dict[str, str]:
        """The environment in which a lock's markers are evaluated."""
        return {
            "implementation_name": "cpython",
            "implementation_version": self.python,
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": self.python,
            "python_version": self.minor,
            "sys_platform": "linux",
            "extra": "",
        }


def pins(lock: str, target: Target) -> tuple[str, ...]:
    """The lines of a lock that hold for the target, as sorted `name==version`; torch carries its build."""
    found: dict[str, str] = {}
    for number, raw in enumerate(lock.splitlines(), start=1):
        line = raw.split(" #")[0].strip()
        if not line or line.startswith("#"):
            continue
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            raise LockError(f"line {number} of the lock: '{line}': {error}") from None
        if requirement.marker and not requirement.marker.evaluate(target.markers()):
            continue
        exact = [s for s in requirement.specifier if s.operator == "=="]
        if len(exact) != 1 or len(requirement.specifier) != 1 or exact[0].version.endswith(".*"):
            raise LockError(f"line {number} of the lock: '{line}' is not pinned to one version (name==version)")
        name = canonicalize_name(requirement.name)
        if name in found and found[name] != exact[0].version:
            raise LockError(
                f"line {number} of the lock: a second version of {name} for Python {target.python} on {target.machine}"
            )
        found[name] = exact[0].version
    if target.torch_build and "torch" in found and "+" not in found["torch"]:
        found["torch"] += f"+{target.torch_build}"
    if not found:
        raise LockError("the lock holds no package for this Python")
    return tuple(f"{name}=={version}" for name, version in sorted(found.items()))


def read_pins(path: Path, target: Target) -> tuple[str, ...]:
    """`pins` of a file."""
    try:
        return pins(path.read_text(), target)
    except OSError as error:
        raise LockError(f"cannot read the lock: {error}; 'make locks' writes it") from None
    except LockError as error:
        raise LockError(f"{path}: {error}") from None


def fingerprint(chosen: tuple[str, ...], target: Target) -> str:
    """The hash that names an environment: pins, Python X.Y, machine and torch build."""
    identity = [_FORMAT, list(chosen), target.minor, target.machine, target.torch_build]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]
