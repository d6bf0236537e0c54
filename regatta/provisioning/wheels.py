"""The wheelhouse: one download for all nodes, kept in the controller's cache and listed with SHA-256."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.utils import parse_sdist_filename, parse_wheel_filename

from regatta.errors import RegattaError
from regatta.files import locked, put, sha256
from regatta.node import siteproxy
from regatta.program import checkout_only, setup
from regatta.provisioning import progress, torchlock
from regatta.provisioning.lockfile import Entry
from regatta.provisioning.locks import BUILT, PYPI, Chosen, Target

MANIFEST = "manifest.json"
_SOURCES = "sources.json"  # wheel that was made here: SHA-256 of what it was made from
_PIP = (sys.executable, "-m", "pip")
_QUIET = ("--quiet", "--no-input", "--disable-pip-version-check")
_ACCESS = re.compile(r"\b(401|403|407)\b|ProxyError|Tunnel connection failed|Cannot connect to proxy|credentials", re.I)
_CREDENTIALS = re.compile(r"//[^/\s@']+@")
_WHERE = (
    "index and password: pip's own settings, ~/.netrc or keyring; proxy: http_proxy, https_proxy, no_proxy "
    "in the environment of this command"
)
_PACKAGES = (".whl", ".tar.gz", ".tar.bz2", ".zip")
_QUICK = ("--retries", "1", "--timeout", "15")
_OTHER_FILE = re.compile(
    r"DO NOT MATCH THE HASHES.*?\n\s+(?P<what>[^\n]+?):?\n.*?Got\s+(?P<got>[0-9a-f]{64})", re.DOTALL
)


class WheelError(RegattaError):
    """The wheelhouse cannot be made, or what is in the cache is not what was downloaded."""


class HashError(WheelError):
    """A download is not a file of the lock."""


def platforms(target: Target) -> tuple[str, ...]:
    """The wheel platforms that a node accepts, best first."""
    major, minor = (int(part) for part in target.glibc.split(".")[:2])
    if major != 2:
        raise WheelError(f"nodes have C library {target.glibc}; only glibc 2.x is known: use a supported release there")
    oldest = 5 if target.machine == "x86_64" else 17
    tags = [f"manylinux_2_{n}_{target.machine}" for n in range(minor, oldest - 1, -1)]
    tags += [f"{old}_{target.machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1")]
    return (*tags, f"linux_{target.machine}")


def download_command(target: Target, folder: Path, wanted: Path, *options: str) -> list[str]:
    """`pip download` of a file of requirements with hashes for the target; pip's own settings here are honoured."""
    command = [*_PIP, "download", *_QUIET, "--require-hashes", "--no-deps", "--no-build-isolation"]
    command += ["--dest", str(folder), "--python-version", target.minor, "--implementation", "cp"]
    command += [f"--platform={tag}" for tag in platforms(target)]
    return [*command, *options, "--requirement", str(wanted)]


def make(folder: Path, wanted: Chosen, target: Target, torch_index: str) -> Path:
    """Make the wheelhouse `folder` unless it is there, whole, and what the locks say; returns it.

    pip refuses a file whose SHA-256 the locks do not have. A download that was stopped leaves `folder` as it was; pip's
    cache makes the next one quick.
    """
    torchlock.refuse_password(torch_index)
    with locked(folder.with_name(f"{folder.name}.lock")):
        if (folder / MANIFEST).is_file() and _is_of(folder, check(folder), wanted.all):
            return folder
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with progress.telling(lambda: _arrived(partial, len(wanted.all))):
            _download(partial, wanted.others, target)
            if wanted.torch:
                _download_torch(partial, wanted.torch, target, torch_index)
        _build_sources(partial, target)
        _must_hold(partial, wanted.pins)
        write_manifest(partial)
        shutil.rmtree(folder, ignore_errors=True)
        put(partial, folder)
    return folder


def write_manifest(folder: Path) -> None:
    """List every wheel of the folder with its SHA-256."""
    listed = {path.name: sha256(path) for path in sorted(folder.glob("*.whl"))}
    (folder / MANIFEST).write_text(json.dumps(listed, indent=1) + "\n")


def check(folder: Path) -> dict[str, str]:
    """The manifest of a wheelhouse whose files all agree with it; WheelError names the first that does not."""
    try:
        listed: dict[str, str] = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise WheelError(f"{folder}: no readable manifest ({error}); delete this folder and try again") from None
    for name, expected in listed.items():
        path = folder / name
        if not path.is_file():
            raise WheelError(f"{path} is missing from the wheelhouse; delete {folder} and try again")
        if sha256(path) != expected:
            raise WheelError(
                f"{path} is not the file that was downloaded (its SHA-256 differs); delete {folder} and try again"
            )
    if extra := {path.name for path in folder.glob("*.whl")} - listed.keys():
        raise WheelError(f"{folder}: {min(extra)} is not in the manifest; delete this folder and try again")
    return listed


def made_here(folder: Path) -> dict[str, str]:
    """The wheels of a wheelhouse that were made from a source: name -> SHA-256 of the source."""
    try:
        found: dict[str, str] = json.loads((folder / _SOURCES).read_text())
    except (OSError, ValueError):
        return {}
    return found


def _is_of(folder: Path, listed: Mapping[str, str], wanted: Sequence[Entry]) -> bool:
    """Whether every wheel is a file of the locks, or was made here from one."""
    known = {value for entry in wanted for value in entry.hashes}
    made = made_here(folder)
    return all(made.get(name, value) in known for name, value in listed.items())


def _download(folder: Path, wanted: Sequence[Entry], target: Target, *options: str) -> None:
    with tempfile.NamedTemporaryFile("w", prefix="regatta-wanted-", suffix=".txt") as file:
        file.writelines(f"{entry.requirement}\n" for entry in wanted)
        file.flush()
        with tempfile.TemporaryDirectory(dir=folder, prefix=".arriving-") as work:
            _pip(download_command(target, folder, Path(file.name), *options), Path(work))


def _download_torch(folder: Path, wanted: Sequence[Entry], target: Target, index: str) -> None:
    """From the machine's own pip sources, else from the index of PyTorch; with the packages of that build."""
    if target.torch_build == PYPI:
        _download(folder, wanted, target)
        return
    own = ["--find-links", str(torchlock.brought())] if torchlock.brought().is_dir() else []
    try:
        _download(folder, wanted, target, *_QUICK, *own)
    except WheelError:
        try:
            _download(folder, wanted, target, *_QUICK, *own, "--extra-index-url", index)
        except HashError:
            raise
        except WheelError as error:
            version = next(entry.version for entry in wanted if entry.name == BUILT)
            raise WheelError(f"{torchlock.advice(version, target, index)}.\n{error}") from None


def _build_sources(folder: Path, target: Target) -> None:
    """Packages that are published as source only: made into wheels here, where they are plain Python.

    With this machine's own setuptools, which has a hash in the controller's lock: an isolated build would download
    another one, without any.
    """
    made_from = {}
    sources = [path for suffix in _PACKAGES[1:] for path in folder.glob(f"*{suffix}")]
    for source in sources:
        before = set(folder.glob("*.whl"))
        _pip([*_PIP, "wheel", *_QUIET, "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)])
        (made,) = set(folder.glob("*.whl")) - before
        if not made.name.endswith("-none-any.whl"):
            raise WheelError(
                f"{source.name} has no wheel for Python {target.minor} on {target.machine} and is not plain Python: "
                f"put a wheel of it where pip looks (PIP_FIND_LINKS) and try again"
            )
        made_from[made.name] = sha256(source)
        source.unlink()
    (folder / _SOURCES).write_text(json.dumps(made_from, indent=1) + "\n")


def _arrived(folder: Path, count: int) -> tuple[str, int, None]:
    """The number of packages that pip has brought, and their bytes: no lock says how many bytes they have in all."""
    found = progress.held(folder, *_PACKAGES)
    return f"{len(found)} of {count} packages of Python,", sum(found.values()), None


def _must_hold(folder: Path, wanted: Sequence[str]) -> None:
    held = set()
    for path in folder.iterdir():
        if path.suffix == ".whl":
            name, version, _, _ = parse_wheel_filename(path.name)
            held.add(f"{name}=={version}")
        elif path.name.endswith((".tar.gz", ".zip")):
            name, version = parse_sdist_filename(path.name)
    if missing := [pin for pin in wanted if pin not in held]:
        raise WheelError(f"pip did not bring {', '.join(missing)}: try again")


def _pip(command: Sequence[str], work: Path | None = None) -> None:
    """`work`: where it keeps what is under way."""
    if importlib.util.find_spec("pip") is None:
        raise WheelError(f"pip is missing next to this Python: run '{setup('pip')}'")
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=os.environ | {"PIP_REQUIRE_VIRTUALENV": "0"} | ({"TMPDIR": str(work)} if work else {}),
    )
    if not done.returncode:
        return
    if other := _OTHER_FILE.search(done.stderr):
        raise HashError(
            f"{other['what']}: this is not the file that the lock names, its SHA-256 is {other['got']}. Nothing of it "
            "was kept. Either the file there was replaced, or the lock is not the right one "
            f"({checkout_only('locks')})"
        )
    raise WheelError("pip: " + _reason(done.stderr))


def _reason(said: str) -> str:
    """Return what pip's output comes to; that an index refused the password, or a proxy is down, it only warns of."""
    lines = said.splitlines()
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    told = [line for line in lines if _ACCESS.search(line)]
    way = siteproxy.shown("https://index/")
    more = [*told[-1:], *([f"pip asked{way}"] if way else []), *([f"({_WHERE})"] if told or way else [])]
    return _CREDENTIALS.sub("//", "\n".join([*errors[-4:], *more]))
