"""Spark on the controller: the pinned source package of pyspark, made once into an archive for all nodes."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from regatta import paths
from regatta.errors import RegattaError
from regatta.files import locked, settle, sha256, write
from regatta.program import about_hosts
from regatta.provisioning import bundling

LOCK = paths.PROJECT / "requirements/spark.lock"
_PROPERTY = re.compile(r"\s*(#|spark\.[\w.-]+[\s=:]+\S)")
_QUIET = ("--quiet", "--no-input", "--disable-pip-version-check")


class SparkError(RegattaError):
    """Spark cannot be had, or is not what the lock says."""


@dataclass(frozen=True)
class Release:
    """The archive: its path here, its SHA-256, and the key of the lock that it was made from."""

    path: str
    sha256: str
    key: str


def key_of(lock: Path = LOCK) -> str:
    """Return what an archive is kept by."""
    return sha256(lock)[:12]


def version(lock: Path = LOCK) -> str:
    """Return the version of pyspark that a lock names."""
    found = re.search(r"^pyspark==([\w.]+)", lock.read_text(), re.M)
    return found[1] if found else "unknown"


def make(lock: Path = LOCK) -> Release:
    """The archive of the lock: a bundle's, else that of the cache, where it is made if it is missing.

    Raises SparkError.
    """
    key = key_of(lock)
    if bundle := os.environ.get(bundling.FOLDER_VARIABLE):
        return _bundled(Path(bundle), key)
    folder = paths.cache_dir() / "spark" / key
    folder.parent.mkdir(parents=True, exist_ok=True)
    told = folder / "release.json"
    with locked(folder.with_name(f"{key}.lock")):
        if not (there := _told(told)):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            archive = folder / "spark.tar"
            with tempfile.TemporaryDirectory(dir=folder) as work:
                _pack(_wheel(lock, Path(work)), archive)
            settle(folder)
            there = Release(str(archive), sha256(archive), key)
            write(told, json.dumps(there.__dict__))
        return there


def _told(file: Path) -> Release | None:
    """Return what is kept of an archive; None where there is nothing whole."""
    try:
        return Release(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def check_properties(path: str) -> None:
    """Raises SparkError where `spark_properties_file` is no file that can be read, or has a line that is no property.

    '' is none. The message shows no line, since they are secret.
    """
    if not path:
        return
    try:
        lines = Path(path).expanduser().read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SparkError(
            f"spark_properties_file: {path} on this machine cannot be read: {why}; correct it in the inventory"
        ) from None
    for number, line in enumerate(lines, 1):
        if line.strip() and not _PROPERTY.match(line):
            raise SparkError(
                f"spark_properties_file: {path}, line {number} is no property of Spark: write spark.NAME VALUE"
            )


def _bundled(bundle: Path, key: str) -> Release:
    archive = bundle / "spark" / key / "spark.tar"
    if not archive.is_file():
        raise SparkError(
            f"the bundle lacks the Spark that this inventory wants: make it again ('{about_hosts('bundle')}') "
            "with an inventory that "
            "has spark_enabled: true, by this version of Regatta; or set spark_enabled: false"
        )
    return Release(str(archive), sha256(archive), key)


def _wheel(lock: Path, folder: Path) -> Path:
    """By this machine's own setuptools, as the wheelhouse does it; pip refuses what the lock has no SHA-256 of."""
    command = [sys.executable, "-m", "pip", "wheel", *_QUIET, "--no-deps", "--no-build-isolation", "--require-hashes"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(folder), "--requirement", str(lock)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=os.environ | {"PIP_REQUIRE_VIRTUALENV": "0"},
    )
    found = list(folder.glob("pyspark-*.whl"))
    if done.returncode or len(found) != 1:
        said = re.sub(r"//[^/\s@']+@", "//", done.stderr.strip())
        raise SparkError(f"pip cannot make the wheel of pyspark (or set spark_enabled: false):\n{said[-2000:]}")
    return found[0]


def _pack(wheel: Path, archive: Path) -> None:
    """The package of the wheel as a tar that root may unpack: plain modes, programs executable."""
    with zipfile.ZipFile(wheel) as source, tarfile.open(archive, "w") as target:
        for entry in source.infolist():
            if entry.is_dir() or not entry.filename.startswith("pyspark/") or "/examples/" in entry.filename:
                continue
            info = tarfile.TarInfo(entry.filename)
            info.size, info.mode = entry.file_size, 0o755 if entry.filename.startswith("pyspark/bin/") else 0o644
            with source.open(entry) as file:
                target.addfile(info, file)
