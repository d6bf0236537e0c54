"""Files to a node by rsync, over the same SSH connection as everything else."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from regatta.errors import RemoteError
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote, explain


def rsync(
    remote: Remote, node: Node, source: Path, paths: Iterable[str], target: str, *, link_dest: Iterable[str] = ()
) -> None:
    """Copy `paths` below `source` into the folder `target` of a node, unchanged files linked from `link_dest`.

    Raises RemoteError with rsync's own words (disk full, connection lost). This machine as a node needs no rsync.
    """
    if node.local and shutil.which("rsync") is None:
        _copy(node, source, paths, Path(target))
        return
    command = ["rsync", "-rlpt", "--chmod=D755,Fa=rX", "--files-from=-", "--from0", "--timeout=60"]
    command += [f"--link-dest={folder}" for folder in link_dest]
    if node.local:
        destination = f"{target}/"
    else:
        command += over_ssh(remote, node)
        destination = f"{remote.destination(node)}:{target}/"
    names = b"\0".join(os.fsencode(path) for path in paths)
    done = subprocess.run(
        [*command, f"{source}/", destination], input=names, capture_output=True, check=False, start_new_session=True
    )
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip()
        if done.returncode == 255 or "Host key verification" in message or "Permission denied (" in message:
            raise explain(node, 255, message)
        if "rsync: command not found" in message or "rsync: not found" in message:
            raise RemoteError(node.name, "rsync is not installed there: run 'make provision'")
        raise RemoteError(node.name, f"rsync: {_first(message)}")


def over_ssh(remote: Remote, node: Node) -> list[str]:
    """Options of rsync to or from a node, as root there."""
    shell = " ".join(_quote(word) for word in remote.ssh(node))
    return ["-e", shell, "--rsync-path=sudo -n rsync", "--protect-args"]


def _copy(node: Node, source: Path, paths: Iterable[str], target: Path) -> None:
    try:
        for path in paths:
            copy = target / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / path, copy, follow_symlinks=False)
            if not copy.is_symlink():
                copy.chmod(0o555 if copy.stat().st_mode & 0o111 else 0o444)
    except OSError as error:
        raise RemoteError(node.name, f"{error.filename}: {error.strerror}") from None


def _quote(word: str) -> str:
    """Quote a word of rsync's `-e` option, which knows quotes but no backslashes."""
    if not any(char in word for char in " '\"\t"):
        return word
    return '"' + word.replace('"', '""') + '"' if "'" in word else f"'{word}'"


def _first(message: str) -> str:
    lines = [line for line in message.splitlines() if line.strip()]
    telling = [line for line in lines if "No space left" in line or "failed:" in line or "error" in line]
    return (telling or lines or ["failed without a message"])[0]
