"""The lock of torch's build for a cluster: Regatta's, else the cluster's own, which is made from PyTorch's index."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from regatta import files, paths
from regatta.environment import uv
from regatta.environment.base import Base
from regatta.errors import EnvironmentFault
from regatta.provisioning import locks
from regatta.provisioning.lockfile import Entry, LockError, entries
from regatta.provisioning.locks import BUILT, PYPI, Chosen, Target

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sources:
    """Where SHA-256 come from: the lock of all other packages, the one of torch's build, the folder of the cluster's
    own locks, and the index that is asked for what neither knows.
    """

    lock: Path
    torch: Path | None
    own: Path | None = None
    index: str = ""

    def of(self, target: Target) -> Path | None:
        """The lock that has torch's build for this target: the given one, else the cluster's own."""
        if self.torch is None or self.own is None or _holds(self.torch, target):
            return self.torch
        return self.own / f"torch-{target.torch_build}-cp{target.minor.replace('.', '')}-{target.machine}.lock"


def read(sources: Sources, target: Target, say: Say, *, keep: bool = True) -> Chosen:
    """The packages for a target. If no lock has torch's build, the index is asked, and its answer kept if `keep`.

    LockError names the file that is missing, and what to do.
    """
    torch = sources.of(target)
    if torch is None or torch == sources.torch or _current(torch, sources, target):
        return locks.read(sources.lock, target, torch)
    with tempfile.TemporaryDirectory(prefix="regatta-torch-") as temporary:
        made = Path(temporary) / torch.name
        made.write_text(_from_index(sources, target))
        chosen = locks.read(sources.lock, target, made)
        if keep:
            files.make_folder(torch.parent)
            files.write(torch, made.read_text())
    kept = f"are kept in {torch}" if keep else f"would be kept in {torch}"
    say(
        f"build '{target.torch_build}' of torch for Python {target.minor} on {target.machine} is in no lock here; "
        f"its SHA-256 were taken from {f'{brought()} and ' if brought().is_dir() else ''}{sources.index} and {kept}"
    )
    return chosen


def brought() -> Path:
    """The folder of the controller's cache into which a person puts wheels of torch that cannot be downloaded here."""
    return paths.cache_dir() / "torch"


def refuse_password(index: str) -> None:
    """Raise LockError where the index has a password in it, as pip and uv get it as an argument."""
    if "@" in urlsplit(index).netloc:
        raise LockError(
            "python_env_torch_index has a password in it, which every user of this machine could see while pip runs: "
            "put it into ~/.netrc or pip's keyring"
        )


def advice(version: str, target: Target, index: str) -> str:
    """The advice where there is no way to the index: the file, the command that downloads it elsewhere, the folder."""
    python = f"cp{target.minor.replace('.', '')}"
    file = f"{BUILT}-{version}-{python}-{python}-manylinux_2_28_{target.machine}.whl"
    return (
        f"{file} is needed, and was found neither in this machine's own pip sources nor at {index} "
        f"(python_env_torch_index). Download it where that index can be reached: pip download --no-deps --only-binary "
        f":all: --python-version {target.minor} --platform manylinux_2_28_{target.machine} --index-url {index} "
        f"{BUILT}=={version}; then put it into {brought()} and try again"
    )


def _holds(path: Path, target: Target) -> bool:
    """Whether a lock has torch for the target. `locks.read` explains what is wrong with one that makes no sense."""
    if not path.is_file():
        return False
    try:
        known = [entry for entry in entries(path.read_text()) if entry.name == BUILT]
    except (LockError, OSError, UnicodeDecodeError):
        return True
    return not known or any(not entry.marker or entry.marker.evaluate(target.markers()) for entry in known)


def _current(own: Path, sources: Sources, target: Target) -> bool:
    """Whether the cluster's own lock is there, and of the version that Regatta's locks have now."""
    if not own.is_file():
        return False
    return any(str(entry) == f"{BUILT}=={_version(sources, target)}" for entry in entries(own.read_text()))


def _version(sources: Sources, target: Target) -> str:
    """The version of torch in this build: that of the locks next to the one of all other packages."""
    for path in sorted(sources.lock.parent.glob("torch-*.lock")):
        for entry in entries(path.read_text()):
            if entry.name == BUILT:
                label = "" if target.torch_build == PYPI else f"+{target.torch_build}"
                return entry.version.partition("+")[0] + label
    raise LockError(
        f"{sources.torch}: there is no such lock, so no SHA-256 of torch's build '{target.torch_build}' is known "
        f"(python_env_torch_build), and no lock next to {sources.lock} says which version of torch is wanted: "
        "set python_env_torch_lock to a lock that has it"
    )


def _from_index(sources: Sources, target: Target) -> str:
    """The lock's text: torch and what only this build needs, with the SHA-256 of their links in the index."""
    refuse_password(sources.index)
    version = _version(sources, target)
    links = [brought()] if brought().is_dir() else []
    own = ["--index", sources.index] if sources.index and target.torch_build != PYPI else []
    with tempfile.TemporaryDirectory(prefix="regatta-torch-") as temporary:
        work = Path(temporary)
        wanted, out = work / "torch.in", work / "torch.lock"
        wanted.write_text(f"{BUILT}=={version}\n")
        words = ["pip", "compile", "--quiet", "--no-annotate", "--no-header", "--generate-hashes", "--python-version"]
        words += [target.minor, "--python-platform", Base("", target.python, target.machine, target.glibc, {}).platform]
        words += ["--constraints", str(sources.lock), "--output-file", str(out), *own, str(wanted)]
        try:
            uv.run(words, links=links, cwd=work, what=f"looking for torch {version} in {sources.index}")
        except EnvironmentFault as error:
            why = str(error).partition("\nThe index of packages was not reached")[0]
            raise LockError(f"{advice(version, target, sources.index)}.\n{why}") from None
        others = {entry.name for entry in locks.choose(sources.lock.read_text(), target)}
        found = [entry for entry in entries(out.read_text()) if entry.name not in others]
    head = f"# Made by provisioning from {sources.index}, for Python {target.minor} on {target.machine}.\n"
    return head + "".join(_lines(entry) for entry in found)


def _lines(entry: Entry) -> str:
    return " \\\n".join((str(entry), *(f"    --hash=sha256:{value}" for value in entry.hashes))) + "\n"
