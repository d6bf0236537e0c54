"""A layer as one archive in the controller's cache: downloaded, proven, installed, compiled, packed."""

import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from regatta import paths
from regatta.environment import own, uv
from regatta.environment.resolve import Pinned, Resolution
from regatta.errors import EnvironmentFault
from regatta.node import manifest

if TYPE_CHECKING:
    from regatta.environment.compiler import Compiler

KEEP = 8
LARGE = 200_000_000
"""Bytes to download from which on the rest of the work is worth a word."""
IN_BUNDLE = "layers"
"""The folder of a bundle that has layers."""
_TRAMPOLINE = re.compile(rb"\A#!/bin/sh\n'''exec' [^\n]*\n' '''\n")
_COMPILE_SECONDS = 900
_MAKING = ".making-"
"""The beginning of the name of a layer's folder while it is made; its key and its own word follow."""


@dataclass(frozen=True)
class Archive:
    """A layer in the cache: `tree` is the hash of its files, `bytes` what they take, `compiled`: with byte code."""

    path: Path
    sha256: str
    tree: str
    bytes: int
    compiled: bool


def folder() -> Path:
    """Return where archives are kept."""
    return paths.cache_dir() / "layers"


def of_bundles() -> list[Path]:
    """The folders with layers of the bundles that were unpacked into the cache."""
    return sorted((paths.cache_dir() / "bundle").glob(f"*/{IN_BUNDLE}"))


def make(wanted: Resolution, say: Callable[[str], None], compiler: "Compiler | None" = None) -> Archive:
    """The archive of a layer, made unless it is there. EnvironmentFault explains what cannot be had.

    `compiler`: who builds what is published as source and is no plain Python; without it that is refused.
    """
    base = folder()
    base.mkdir(parents=True, exist_ok=True)
    waiting = f"environment: waiting for another command that makes {wanted.key}"
    with _locked(_lock_of(base, wanted.key), lambda: say(waiting)):
        if found := _there(wanted.key):
            os.utime(found.path)
            return found
        _clear_abandoned(base, wanted.key)
        with tempfile.TemporaryDirectory(prefix=f"{_MAKING}{wanted.key}-", dir=base) as temporary:
            work = Path(temporary)
            tree = work / "layer"
            _install(wanted, work, tree, say, compiler)
            if wanted.size > LARGE:
                say("environment: compiling and packing it, which takes minutes")
            compiled = _compile(tree, wanted.minor)
            _settle(tree)
            archive = _packed(tree, work / "layer.tar.gz", compiled)
            target = base / f"{wanted.key}.tar.gz"
            archive.path.rename(target)
            described = {"sha256": archive.sha256, "tree": archive.tree, "bytes": archive.bytes, "compiled": compiled}
            new = work / "described"
            new.write_text(json.dumps(described))
            new.rename(base / f"{wanted.key}.json")
        _prune(base, wanted.key)
        made = _there(wanted.key)
        assert made
        return made


def _there(key: str) -> Archive | None:
    for place in (folder(), *of_bundles()):
        path = place / f"{key}.tar.gz"
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            described = json.loads((place / f"{key}.json").read_text())
            if _sha256(path) == described["sha256"]:
                return Archive(path, **described)
    return None


@contextmanager
def _locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """One process at a time; the others wait, and hear so."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(
    wanted: Resolution, work: Path, tree: Path, say: Callable[[str], None], compiler: "Compiler | None"
) -> None:
    free = shutil.disk_usage(work).free
    if free < 4 * wanted.size + (64 << 20):
        raise EnvironmentFault(
            f"{work.parent} has {free >> 20} MiB free, and the layer needs about {(4 * wanted.size >> 20) + 64} MiB: "
            "free some space there, or let $REGATTA_CACHE name another disk"
        )
    tree.mkdir()
    if packages := tuple(_wheel(package, wanted, work, say, compiler) for package in wanted.packages):
        _fill(packages, wanted, work, tree, say)
        _programs(tree)
    for package in wanted.own:
        own.describe(package, tree)


def _fill(packages: Sequence[Pinned], wanted: Resolution, work: Path, tree: Path, say: Callable[[str], None]) -> None:
    """Install packages into a folder."""
    lock = work / "pylock.layer.toml"
    lock.write_text(_lock(packages))
    words = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--link-mode", "copy"]
    words += ["--preview-features", "pylock", "--python", uv.BUILDER, "--target", str(tree)]
    words += ["--python-version", wanted.minor, "--python-platform", wanted.platform, "--requirement", str(lock)]
    uv.run(words, cwd=work, what=f"downloading {len(packages)} package(s)", say=say)
    shutil.rmtree(tree / ".lock", ignore_errors=True)


def _wheel(
    package: Pinned, wanted: Resolution, work: Path, say: Callable[[str], None], compiler: "Compiler | None"
) -> Pinned:
    """The package as it can be installed for the nodes: source that needs a compiler is built by a node."""
    if not package.files[0].source:
        return package
    with tempfile.TemporaryDirectory(dir=work) as temporary:
        tree = Path(temporary) / "tree"
        try:
            _fill([package], wanted, Path(temporary), tree, say)
            if _plain_python(tree):
                return package
        except EnvironmentFault:
            if compiler is None:
                raise
    if compiler is None:
        raise EnvironmentFault(
            f"{package.name} {package.version} is published as source for a compiler. Only wheels and plain Python "
            "are taken: name a version that has a wheel, or put one into a folder that PIP_FIND_LINKS names"
        )
    with tempfile.TemporaryDirectory(dir=work) as temporary:
        return replace(package, files=(compiler.wheel(package, wanted.minor, wanted.platform, Path(temporary)),))


def _plain_python(tree: Path) -> bool:
    """Whether nothing in it was compiled for this machine."""
    return all("Root-Is-Purelib: true" in wheel.read_text() for wheel in tree.glob("*.dist-info/WHEEL"))


def _lock(packages: Sequence[Pinned]) -> str:
    """Packages as a pylock.toml: uv takes no file with another SHA-256."""
    lines = ['lock-version = "1.0"', 'created-by = "regatta"']
    for package in packages:
        lines += ["[[packages]]", f"name = {json.dumps(package.name)}", f"version = {json.dumps(package.version)}"]
        files = [
            f'{{ url = {json.dumps(file.url)}, hashes = {{ sha256 = "{file.sha256}" }} }}' for file in package.files
        ]
        if package.files[0].source:
            lines.append(f"sdist = {files[0]}")
        else:
            lines.append(f"wheels = [{', '.join(files)}]")
    return "\n".join([*lines, ""])


def _programs(tree: Path) -> None:
    """Let the layer's programs start by the run's own Python, wherever that is: the first one on its path."""
    for path in (tree / "bin").glob("*") if (tree / "bin").is_dir() else ():
        text = path.read_bytes()
        first, _, rest = text.partition(b"\n")
        if found := _TRAMPOLINE.match(text):
            path.write_bytes(b"#!/usr/bin/env python\n" + text[found.end() :])
        elif first.startswith(b"#!") and b"python" in first:
            path.write_bytes(b"#!/usr/bin/env python\n" + rest)


def _compile(tree: Path, minor: str) -> bool:
    """Byte code for all of it, where this machine has the nodes' Python; else each node makes its own."""
    for shipped in [*tree.rglob("__pycache__")]:
        shutil.rmtree(shipped)
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = sys.executable if minor == own else shutil.which(f"python{minor}")
    if python is None:
        return False
    command = [python, "-I", "-m", "compileall", "-q", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(tree), str(tree)]
    subprocess.run(command, capture_output=True, check=False, timeout=_COMPILE_SECONDS, stdin=subprocess.DEVNULL)
    return True


def _settle(tree: Path) -> None:
    """Only plain files and folders, with the modes that they have on a node."""
    for base, folders, files in os.walk(tree):
        for name in [*folders, *files]:
            path = Path(base) / name
            info = path.lstat()
            if stat.S_ISDIR(info.st_mode):
                path.chmod(0o755)
            elif stat.S_ISREG(info.st_mode):
                path.chmod(0o755 if info.st_mode & 0o111 else 0o644)
            else:
                raise EnvironmentFault(
                    f"the layer would have {path.relative_to(tree)}, which is neither file nor folder: name another "
                    "version of the package that brings it"
                )


def _packed(tree: Path, target: Path, compiled: bool) -> Archive:
    """One archive, the same for the same files."""
    found = [manifest.entry(str(tree), path) for path in manifest.walk(str(tree))]
    entries = sorted(entry for entry in found if entry)
    size = sum((tree / entry[0]).stat().st_size for entry in entries)
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", 1, raw, 0) as packed,
        tarfile.open(mode="w", fileobj=packed) as tar,
    ):
        for entry in entries:
            tar.add(tree / entry[0], entry[0], recursive=False, filter=_plain)
    return Archive(target, _sha256(target), manifest.release_id(entries), size, compiled)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _lock_of(base: Path, key: str) -> Path:
    return base / f".{key}.lock"


def _clear_abandoned(base: Path, own: str) -> None:
    """Remove what killed commands have left: of the layer `own`, whose lock we hold, and of those that no process
    makes.
    """
    for path in base.glob(f"{_MAKING}*"):
        key = path.name.removeprefix(_MAKING).partition("-")[0]
        with contextlib.suppress(BlockingIOError), contextlib.ExitStack() as stack:
            if key != own:
                lock = stack.enter_context(_lock_of(base, key).open("w"))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)


def _prune(base: Path, keep: str) -> None:
    """The archives that were asked for last stay."""
    found = sorted(base.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[KEEP:]:
        key = path.name.removesuffix(".tar.gz")
        if key != keep:
            path.unlink(missing_ok=True)
            (base / f"{key}.json").unlink(missing_ok=True)
