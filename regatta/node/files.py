"""Input files on a node, kept by content: `data/<sha256>/<name>`, read-only."""

from __future__ import annotations

import os
import secrets
import shutil
from typing import TYPE_CHECKING

from regatta.node import disk, manifest, staging
from regatta.node.problem import Problem
from regatta_protocol.operations.layers import Incoming
from regatta_protocol.operations.transfers import ProvenFile

if TYPE_CHECKING:
    from regatta_protocol.place import Place


def path(place: Place, sha256: str, name: str) -> str:
    """Return where a file of that content is kept."""
    return os.path.join(place["state"], "data", sha256, name)


def have(place: Place, sha256: str, name: str, size: int) -> bool:
    """Whether the node has the file (its content was proven when it came); marks its folder as asked for now."""
    target = path(place, sha256, name)
    there = os.path.isfile(target) and os.path.getsize(target) == size
    if there:
        os.utime(os.path.dirname(target))
    return there


def begin(place: Place, size: int) -> Incoming:
    """Make a folder to receive a file; Problem where the disk is too small for it."""
    base = os.path.join(place["state"], "data")
    os.makedirs(base, mode=0o755, exist_ok=True)
    free = shutil.disk_usage(base).free
    if free < size + (64 << 20):
        raise Problem(f"{base} has {free >> 20} MiB free, the file needs {size >> 20} MiB: free some space there")
    if place.get("member"):
        return Incoming(staging.make(place))
    incoming = os.path.join(base, f".incoming-{secrets.token_hex(8)}")
    os.mkdir(incoming)
    return Incoming(incoming)


def commit(place: Place, incoming: str, sha256: str, name: str) -> ProvenFile:
    """Prove the file that arrived and move it to its place; then it is on the disk."""
    incoming = staging.taken(place, incoming, os.path.join(place["state"], "data"))
    arrived = os.path.join(incoming, name)
    plain = os.path.isfile(arrived) and not os.path.islink(arrived)
    actual = manifest.file_hash(arrived) if plain else None
    if actual != sha256:
        shutil.rmtree(incoming, ignore_errors=True)
        return ProvenFile(ok=False, actual=actual)
    os.chmod(arrived, 0o444)
    os.chmod(incoming, 0o755)
    disk.settle(arrived)
    disk.settle(incoming)
    target = os.path.dirname(path(place, sha256, name))
    try:
        os.rename(incoming, target)
    except OSError:
        os.replace(arrived, path(place, sha256, name))
        disk.settle(target)
        shutil.rmtree(incoming, ignore_errors=True)
    disk.settle(os.path.dirname(target))
    return ProvenFile(ok=True)
