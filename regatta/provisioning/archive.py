"""The packed environment in the controller's cache, and its way to and from the nodes."""

import json
import os
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regatta import files, paths
from regatta.errors import RegattaError, RemoteError
from regatta.hosts import inventories, openssh, rsync
from regatta.hosts.remote import Remote, explain
from regatta.provisioning import bundling, locks, progress

TELLING = ("--info=progress2", "--outbuf=N", "--no-human-readable")
"""By which rsync tells how much it has copied."""


class ArchiveError(RegattaError):
    """The packed environment is missing, damaged or could not be moved."""


@dataclass(frozen=True)
class Plan:
    """Which environment a cluster gets and what the cache already has of it."""

    hash: str
    python: str
    pins: tuple[str, ...]
    wheels: str
    archive: str
    packed: bool
    sha256: str
    bytes: int


def make_plan(chosen: locks.Chosen, target: locks.Target) -> Plan:
    """Look into the cache for what the locks say. Changes nothing."""
    name = locks.fingerprint(chosen.pins, target)
    archive = paths.cache_dir() / "env" / f"env-{name}.tar.zst"
    described = _description(archive)
    return Plan(
        hash=name,
        python=target.minor,
        pins=chosen.pins,
        wheels=str(bundling.wheelhouse(name) or paths.cache_dir() / "wheels" / name),
        archive=str(archive),
        packed=bool(described),
        sha256=str(described.get("sha256", "")),
        bytes=int(described.get("bytes", 0)),
    )


def as_json(plan: Plan) -> str:
    """A plan for Ansible."""
    return json.dumps(asdict(plan))


def fetch(inventory: str, host: str, remote_path: str, archive: Path, sha256: str) -> None:
    """Copy the archive that a node packed into the cache, and keep it only if its SHA-256 is as the node says."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with files.locked(archive.with_name(f"{archive.name}.lock")):
        arriving = archive.with_name(f"{archive.name}.part")
        copy(inventory, host, ("NODE:" + remote_path, str(arriving)))
        found = files.sha256(arriving)
        if found != sha256:
            arriving.unlink()
            raise ArchiveError(f"{host}: the packed environment arrived damaged (SHA-256 differs); try again")
        _describe(archive).unlink(missing_ok=True)
        files.put(arriving, archive)
        files.write(_describe(archive), json.dumps({"sha256": sha256, "bytes": archive.stat().st_size}) + "\n")


def send(inventory: str, host: str, source: Path, target: str) -> None:
    """Copy a file or a folder of the cache to a node; what a stopped copy left there is used again."""
    if not source.exists():
        raise ArchiveError(f"{source} is gone from the cache; run the command again to rebuild it")
    tail = "/" if source.is_dir() else ""
    copy(inventory, host, (f"{source}{tail}", f"NODE:{target}{tail}"))


def copy(inventory: str, host: str, ends: tuple[str, str]) -> None:
    """rsync between this machine and a node, whose end begins with `NODE:`. Raises RemoteError with rsync's words."""
    chosen = inventories.load(inventory)
    node, remote = chosen.node(host), Remote(chosen)
    command = ["rsync", "-rt", "--inplace", "--partial", "--mkpath", "--delete", "--chmod=D700,F600", "--timeout=60"]
    command += [*TELLING, *rsync.over_ssh(remote, node)]
    command += [end.replace("NODE:", f"{openssh.for_rsync(node)}:", 1) for end in ends]
    with tempfile.TemporaryFile() as said, progress.telling(lambda: copied(said.fileno(), ends[0])):
        try:
            done = subprocess.run(
                command,
                env=rsync.environment(node),
                stdout=said,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                check=False,
            )
        except FileNotFoundError:
            raise ArchiveError("rsync is not installed on this machine: apt-get install rsync") from None
    if done.returncode == 255:
        raise explain(node, 255, done.stderr.strip(), remote.config)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        telling = [line for line in lines if "No space left" in line] or lines or ["rsync failed without a message"]
        raise RemoteError(host, f"copying {Path(ends[0]).name}: {telling[0]}")


def copied(said: int, source: str) -> tuple[str, int, int | None]:
    """What is copied, bytes done by rsync's last line (`  1234567  12%  1.23MB/s  0:00:01`), bytes of a source here."""
    words = os.pread(said, 200, max(0, os.fstat(said).st_size - 200)).rpartition(b"%")[0].split()
    done = int(words[-2]) if len(words) > 1 and words[-2].isdigit() else 0
    return f"copying {Path(source).name}", done, progress.size(Path(source)) or None


def _describe(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.json")


def _description(archive: Path) -> dict[str, Any]:
    try:
        described = json.loads(_describe(archive).read_text())
        whole = archive.stat().st_size == described["bytes"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return described if whole else {}
