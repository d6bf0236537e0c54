"""A layer on the nodes: brought as releases are, through relays and from node to node, proven by hash, whole or not."""

from collections.abc import Iterable
from typing import Any

from regatta.environment.build import Archive
from regatta.environment.resolve import Resolution
from regatta.errors import NodesError, RemoteError
from regatta.hosts import routes, rsync
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote

COMMIT_SECONDS = 900.0


def bring(remote: Remote, wanted: Resolution, archive: Archive, lacking: Iterable[Node], label: str) -> list[str]:
    """Put a layer on the nodes that lack it; gives their names. NodesError names each node's cause.

    `label`: for whom it is, kept next to it.
    """
    lacking = list(lacking)
    about = {
        "tree": archive.tree,
        "compiled": archive.compiled,
        "bytes": archive.bytes,
        "packages": wanted.versions,
        "instead": {package.name: package.instead for package in wanted.packages if package.instead},
        "label": label,
    }
    remote.rest(lacking)  # each has memory here, and so have the many copies of rsync
    _done, failed = routes.spread(
        remote,
        lacking,
        lambda node: _send(remote, wanted.key, archive, node, None, about),
        lambda node, relay: _send(remote, wanted.key, archive, node, relay, about),
        tree=archive.path.stat().st_size > routes.LARGE_BYTES,
    )
    if failed:
        raise NodesError(f"putting layer {wanted.key} on the nodes", failed)
    return [node.name for node in lacking]


def _send(remote: Remote, key: str, archive: Archive, node: Node, relay: Node | None, about: dict[str, Any]) -> None:
    begun = remote.call(node, "layer.begin", key=key, size=archive.path.stat().st_size + archive.bytes)
    if "error" in begun:
        raise RemoteError(node.name, begun["error"])
    incoming = begun["incoming"]
    try:
        if relay:
            there = {"host": relay.cluster_address, "root": relay.root}
            done = remote.call(
                node, "layer.fetch", timeout=COMMIT_SECONDS, key=key, incoming=incoming, about=about, **there
            )
        else:
            rsync.rsync(remote, node, archive.path.parent, [archive.path.name], incoming)
            done = remote.call(
                node,
                "layer.commit",
                timeout=COMMIT_SECONDS,
                key=key,
                incoming=incoming,
                archive=archive.path.name,
                sha256=archive.sha256,
                about=about,
            )
    except BaseException:
        remote.gather([node], lambda _: remote.call(node, "release.abandon", timeout=5, incoming=incoming))
        raise
    if not done["ok"]:
        raise RemoteError(node.name, f"layer {key} arrived with another content; start the run again")
