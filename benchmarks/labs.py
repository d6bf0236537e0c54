"""Labs of the benchmarks' own, and what a bare host of one needs to receive a release: rsync."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import shell
from benchmarks.shell import BenchError
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.paths import PROJECT

_ARCHIVES = "/var/cache/apt/archives"
_FETCH = (
    "{ apt-get update && apt-get install --download-only --no-install-recommends --yes rsync; } >&2 && "
    f"cd {_ARCHIVES} && tar --create *.deb"
)
_INSTALL = (
    "mkdir --parents /tmp/rsync && cd /tmp/rsync && tar --extract && dpkg --install *.deb && rm --recursive /tmp/rsync"
)


@contextlib.contextmanager
def lab(name: str, nodes: int) -> Iterator[Path]:
    """The inventory of a lab that lives as long as the context; BenchError where there is one of this name already."""
    if shell.run([sys.executable, "-m", "lab", "status", "--name", name], check=False).code == 0:
        raise BenchError(
            f"there is a lab '{name}' already: another benchmark runs, or one was killed; to remove it: "
            f"make lab-down LAB={name}"
        )
    try:
        shell.run([sys.executable, "-m", "lab", "up", "--name", name, "--nodes", str(nodes)])
        yield PROJECT / "inventory" / name
    finally:
        with shell.undisturbed():
            shell.run([sys.executable, "-m", "lab", "down", "--name", name])


def give_rsync(cluster: Cluster) -> None:
    """Install rsync on bare hosts; one of them downloads it for all."""
    remote = Remote(cluster)
    packages = as_root(remote, cluster.head, _FETCH)
    _done, failed = remote.gather(cluster.nodes, lambda node: as_root(remote, node, _INSTALL, packages))
    if failed:
        raise BenchError("; ".join(f"{name}: {error}" for name, error in failed.items()))


def as_root(remote: Remote, node: Node, script: str, feed: bytes = b"") -> bytes:
    """Return what a script that runs as root on a node prints, with `feed` as its input; OSError where it fails."""
    command = [*remote.ssh(node), "--", remote.destination(node), f"sudo -n sh -c '{script}'"]
    done = subprocess.run(command, input=feed, capture_output=True, check=False, start_new_session=True, timeout=600)
    if done.returncode:
        raise OSError(
            f"{node.name}: `{script[:40]}` failed:\n{shell.last_lines(done.stderr.decode('utf-8', 'replace'))}"
        )
    return done.stdout
