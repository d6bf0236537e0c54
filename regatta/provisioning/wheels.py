"""The wheelhouse: one download for all nodes, kept in the controller's cache and listed with SHA-256."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import parse_sdist_filename, parse_wheel_filename

from regatta.errors import RegattaError
from regatta.provisioning.files import locked, sha256
from regatta.provisioning.locks import Target

MANIFEST = "manifest.json"
_QUICK = ("--retries", "1", "--timeout", "15")


class WheelError(RegattaError):
    """The wheelhouse cannot be made, or what is in the cache is not what was downloaded."""


def platforms(target: Target) -> tuple[str, ...]:
    """The wheel platforms that a node accepts, best first."""
    major, minor = (int(part) for part in target.glibc.split(".")[:2])
    if major != 2:
        raise WheelError(f"nodes have C library {target.glibc}; only glibc 2.x is known")
    oldest = 5 if target.machine == "x86_64" else 17
    tags = [f"manylinux_2_{n}_{target.machine}" for n in range(minor, oldest - 1, -1)]
    tags += [f"{old}_{target.machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1")]
    return (*tags, f"linux_{target.machine}")


def download_command(target: Target, folder: Path, wanted: Sequence[str], *options: str) -> list[str]:
    """`pip download` of exact versions for the target; pip's own settings on the controller are honoured."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--dest", str(folder), "--python-version", target.minor, "--implementation", "cp"]
    command += [f"--platform={tag}" for tag in platforms(target)]
    return [*command, *options, *wanted]


def make(folder: Path, wanted: Sequence[str], target: Target, torch_index: str) -> Path:
    """Make the wheelhouse `folder` unless it is there and whole; returns it.

    A download that was stopped leaves `folder` absent; pip's cache makes the next one quick.
    """
    with locked(folder.with_name(f"{folder.name}.lock")):
        if (folder / MANIFEST).is_file():
            check(folder)
            return folder
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        if others := [pin for pin in wanted if not _is_torch(pin)]:
            _pip(download_command(target, partial, others, "--no-deps"))
        for pin in filter(_is_torch, wanted):
            _download_torch(partial, pin, wanted, target, torch_index)
        _build_sources(partial, target)
        _must_hold(partial, wanted)
        write_manifest(partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
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


def _is_torch(pin: str) -> bool:
    return pin.startswith("torch==")


def _download_torch(folder: Path, pin: str, wanted: Sequence[str], target: Target, index: str) -> None:
    """From the machine's own pip sources, else from the index of PyTorch. A CUDA build brings its own packages."""
    options: list[str] = ["--no-deps"]
    if target.torch_build not in ("", "cpu"):
        constraints = folder / "constraints.txt"
        constraints.write_text("\n".join(w for w in wanted if not _is_torch(w)) + "\n")
        options = ["--only-binary=:all:", "--constraint", str(constraints), "--find-links", str(folder)]
    try:
        _pip(download_command(target, folder, [pin], *options, *_QUICK))
    except WheelError as error:
        if not target.torch_build:
            raise
        try:
            _pip(download_command(target, folder, [pin], *options, *_QUICK, "--extra-index-url", index))
        except WheelError:
            raise WheelError(
                f"no build of {pin} for Python {target.minor} on {target.machine}, neither in this machine's own pip "
                f"sources nor at {index} (python_env_torch_index; python_env_torch_build is "
                f"'{target.torch_build}'):\n{error}"
            ) from None


def _build_sources(folder: Path, target: Target) -> None:
    """Packages that are published as source only: made into wheels here, where they are plain Python."""
    sources = [path for pattern in ("*.tar.gz", "*.zip", "*.tar.bz2") for path in folder.glob(pattern)]
    for source in sources:
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-input", "--disable-pip-version-check"]
        before = set(folder.glob("*.whl"))
        _pip([*command, "--no-deps", "--wheel-dir", str(folder), str(source)])
        (made,) = set(folder.glob("*.whl")) - before
        if not made.name.endswith("-none-any.whl"):
            raise WheelError(
                f"{source.name} has no wheel for Python {target.minor} on {target.machine} and is not plain Python: "
                f"put a wheel of it where pip looks (PIP_FIND_LINKS) and try again"
            )
        source.unlink()


def _must_hold(folder: Path, wanted: Sequence[str]) -> None:
    held = set()
    for path in folder.iterdir():
        if path.suffix == ".whl":
            name, version, _, _ = parse_wheel_filename(path.name)
            held.add(f"{name}=={version}")
        elif path.name.endswith((".tar.gz", ".zip")):
            name, version = parse_sdist_filename(path.name)
    if missing := [pin for pin in wanted if pin not in held]:
        raise WheelError(f"pip did not bring {', '.join(missing)}")


def _pip(command: Sequence[str]) -> None:
    if importlib.util.find_spec("pip") is None:
        raise WheelError("pip is missing beside this Python: run 'make setup'")
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PIP_REQUIRE_VIRTUALENV": "0"}
    )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise WheelError("pip: " + "\n".join(errors[-4:]))
