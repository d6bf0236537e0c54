"""Input files of a run: put on every node once, kept there by content."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regatta import files, paths
from regatta.errors import DataError, NodesError, RemoteError
from regatta.hosts import routes, rsync
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta_protocol.operations.launch import InputFile, Inspect
from regatta_protocol.operations.releases import Abandon
from regatta_protocol.operations.transfers import BeginFile, CommitFile, FetchFile

COMMIT_TIMEOUT = 600.0


@dataclass(frozen=True)
class DataFile:
    """A file on the controller and what identifies its content; `size` in bytes."""

    path: Path
    sha256: str
    size: int

    def on(self, node: Node) -> str:
        """The path at which a node keeps it."""
        return f"{node.state}/data/{self.sha256}/{self.path.name}"

    def question(self) -> InputFile:
        """Return what a node is asked to find out whether it has the file."""
        return InputFile(self.sha256, self.path.name, self.size)


def identify(path: Path) -> DataFile:
    """Hash a file; the hash is remembered under the file's inode, size and times. DataError where it cannot be read."""
    try:
        path = path.expanduser().resolve(strict=True)
        info = path.stat()
        if not path.is_file():
            raise DataError(f"{path} is not a file: give one")
        memory = paths.cache_dir() / "sha256" / f"{info.st_dev}-{info.st_ino}.json"
        key = [str(path), info.st_size, info.st_mtime_ns, info.st_ctime_ns]
        try:
            known = json.loads(memory.read_text())
        except (OSError, ValueError):
            known = None
        if known and known["key"] == key:
            return DataFile(path, known["sha256"], info.st_size)
        digest = files.sha256(path)
    except OSError as error:
        raise DataError(
            f"{error.filename} cannot be read ({error.strerror}): correct that and start the run again"
        ) from None
    memory.parent.mkdir(parents=True, exist_ok=True)
    memory.write_text(json.dumps({"key": key, "sha256": digest}))
    return DataFile(path, digest, info.st_size)


def bring(remote: Remote, file: DataFile, nodes: Iterable[Node]) -> list[str]:
    """Put a file on the nodes that lack it, and on relays to them; returns their names. NodesError names the cause."""
    nodes = routes.with_relays(remote.cluster, nodes)
    answers = remote.everywhere(nodes, Inspect(data=(file.question(),), facts_wanted=False), step="data")
    lacking = [node for node in nodes if not answers[node.name].data[file.sha256]]
    _done, failed = routes.spread(
        remote,
        lacking,
        lambda node: _send(remote, file, node, None),
        lambda node, relay: _send(remote, file, node, relay),
        tree=file.size > routes.LARGE_BYTES,
    )
    if failed:
        raise NodesError(f"putting {file.path.name} on the nodes", failed)
    return [node.name for node in lacking]


def _send(remote: Remote, file: DataFile, node: Node, relay: Node | None) -> None:
    incoming = remote.call(node, BeginFile(file.size)).incoming
    try:
        if relay:
            there = FetchFile(relay.cluster_address, file.on(relay), incoming)
            remote.call(node, there, timeout=COMMIT_TIMEOUT)
        else:
            rsync.rsync(remote, node, file.path.parent, [file.path.name], incoming)
        answer = remote.call(node, CommitFile(incoming, file.sha256, file.path.name), timeout=COMMIT_TIMEOUT)
    except BaseException:
        remote.gather([node], lambda _: remote.call(node, Abandon(incoming), timeout=5))
        raise
    if not answer.ok:
        raise RemoteError(
            node.name, f"{file.path.name} arrived with another content: did it change meanwhile? Start the run again"
        )
