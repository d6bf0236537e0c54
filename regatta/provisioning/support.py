"""`make support-bundle`: one archive with what a person who helps needs to see, and no secret in it."""

import io
import os
import platform
import subprocess
import sys
import tarfile
import time
from importlib import metadata
from pathlib import Path

from regatta import paths
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.node import support
from regatta.provisioning.secrets import tokens
from regatta.services import parts
from regatta_protocol.operations.hosts import AskSupport

_SECONDS = 120.0
_PROGRAMS = (
    ["ssh", "-V"],
    ["rsync", "--version"],
    ["git", "-C", str(paths.PROJECT), "log", "-1", "--oneline"],
    ["git", "-C", str(paths.PROJECT), "status", "--short"],
)
_LEFT_OUT = {"secrets", "known_hosts.old"}


def bundle(cluster: Cluster, folder: Path) -> Path:
    """Ask every node, add what this machine knows, write `regatta-support-<cluster>-<time>.tar.gz`; returns its path.

    A node that does not answer is in it with the reason: such a cluster needs help most.
    """
    remote = Remote(cluster)
    files = tuple(pattern for part in parts.every() for pattern in part.files)
    wanted = AskSupport(tokens(), files)
    answers, failed = remote.gather(cluster.nodes, lambda node: remote.call(node, wanted, timeout=_SECONDS))
    texts = {f"{node}/{name}": text for node, answer in answers.items() for name, text in answer.texts.items()}
    texts |= {f"{node}/unreachable.txt": f"{error}\n" for node, error in failed.items()}
    texts |= {f"controller/{name}": text for name, text in _own(cluster).items()}
    secrets = support.held_by(str(path) for path in (cluster.folder / "secrets").glob("*") if path.is_file())
    stem = f"regatta-support-{cluster.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    target = folder / f"{stem}.tar.gz"
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in sorted(texts.items()):
            body = support.scrub(text, secrets).encode()
            info = tarfile.TarInfo(f"{stem}/{name}")
            info.size, info.mode, info.mtime = len(body), 0o600, int(time.time())
            archive.addfile(info, io.BytesIO(body))
    for node, error in failed.items():
        print(f"{node} does not answer, which the bundle says: {error}")
    return target


def _own(cluster: Cluster) -> dict[str, str]:
    """This machine's versions and the inventory, without its secrets."""
    packages = sorted(f"{item.metadata['Name']} {item.version}" for item in metadata.distributions())
    found = {
        "versions.txt": f"{platform.platform()}\nPython {sys.version}\n",
        "packages.txt": "\n".join(packages) + "\n",
        "programs.txt": "".join(f"$ {' '.join(words)}\n{_said(words)}\n" for words in _PROGRAMS),
    }
    for path in sorted(cluster.folder.rglob("*")):
        name = path.relative_to(cluster.folder)
        if path.is_file() and not _LEFT_OUT & set(name.parts) and path.stat().st_size <= support.MOST_BYTES:
            found[f"inventory/{name}"] = support.read(str(path))
    return found


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout + done.stderr
