"""The lock of the nodes' packages, read for a Python and machine that are not the controller's."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regatta.program import checkout_only
from regatta.provisioning.lockfile import Entry, LockError, entries

BUILT = "torch"
"""The package of which an environment has one build or another; its own lock has each build."""
PYPI = "pypi"
"""The build of torch that the ordinary index of packages has, without a local label."""
_FORMAT = 2  # raise it when environments must be built again although the lock is the same


@dataclass(frozen=True)
class Target:
    """The platform of a node: `python` is X.Y.Z, `machine` as in `uname -m`, `glibc` X.Y, `torch_build` a local
    label.
    """

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


@dataclass(frozen=True)
class Chosen:
    """The packages for a target: `torch` is the part that the lock of torch's build has, `others` all else, by name."""

    others: tuple[Entry, ...]
    torch: tuple[Entry, ...] = ()

    @property
    def pins(self) -> tuple[str, ...]:
        """Sorted `name==version`."""
        return tuple(sorted((str(entry) for entry in self.all), key=lambda pin: pin.split("==")))

    @property
    def all(self) -> tuple[Entry, ...]:
        """Both parts."""
        return self.others + self.torch


def choose(lock: str, target: Target) -> tuple[Entry, ...]:
    """The entries of a lock that hold for the target, by name. LockError names the line that makes no sense."""
    return _sorted(_holding(entries(lock), target))


def _holding(found: Iterable[Entry], target: Target) -> dict[str, Entry]:
    chosen: dict[str, Entry] = {}
    for entry in found:
        if entry.marker and not entry.marker.evaluate(target.markers()):
            continue
        if entry.name in chosen and chosen[entry.name].version != entry.version:
            raise LockError(
                f"line {entry.line} of the lock: a second version of {entry.name} for Python {target.python} "
                f"on {target.machine}: take one of them out"
            )
        chosen[entry.name] = entry
    if not chosen:
        raise LockError(f"the lock has no package for Python {target.python}: {checkout_only('locks')} writes it again")
    return chosen


def _sorted(chosen: dict[str, Entry]) -> tuple[Entry, ...]:
    return tuple(chosen[name] for name in sorted(chosen))


def read(path: Path, target: Target, torch_path: Path | None = None) -> Chosen:
    """`choose` of a lock, and of the lock that adds torch's build to it."""
    others = _read(path, target)
    if torch_path is None:
        return Chosen(others)
    if not torch_path.is_file():
        raise LockError(
            f"{torch_path}: there is no such lock, so no SHA-256 of torch's build '{target.torch_build}' is known "
            f"(python_env_torch_build); {checkout_only(f'torch-lock BUILD={target.torch_build}')} writes it"
        )
    torch = _read(torch_path, target)
    names = {entry.name for entry in others}
    if twice := [entry for entry in torch if entry.name in names]:
        raise LockError(
            f"{torch_path}: line {twice[0].line} of the lock: {twice[0].name} is in {path} too; take it out"
        )
    (built,) = [entry.version for entry in torch if entry.name == BUILT] or [""]
    label = "" if target.torch_build == PYPI else target.torch_build
    if not built or built.partition("+")[2] != label:
        raise LockError(
            f"{torch_path} has {f'torch {built}' if built else 'no torch'}, not build '{label}' of torch: "
            f"{checkout_only(f'torch-lock BUILD={target.torch_build}')} writes it again"
        )
    return Chosen(others, torch)


def _read(path: Path, target: Target) -> tuple[Entry, ...]:
    try:
        return choose(path.read_text(), target)
    except (OSError, UnicodeDecodeError) as error:
        raise LockError(f"cannot read the lock {path}: {error}; {checkout_only('locks')} writes it") from None
    except LockError as error:
        raise LockError(f"{path}: {error}") from None


def fingerprint(pins: tuple[str, ...], target: Target) -> str:
    """The hash that names an environment: pins, Python X.Y, machine and torch build."""
    identity = [_FORMAT, list(pins), target.minor, target.machine, target.torch_build]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]
