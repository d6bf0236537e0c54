"""A layer on the nodes: brought as releases are, through relays and from node to node, proven by hash, whole or not."""

from collections.abc import Iterable

from regatta.environment.build import Archive
from regatta.environment.resolve import Resolution
from regatta.errors import NodesError, RemoteError
from regatta.hosts import routes, rsync
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta_protocol.operations.layers import AboutLayer, BeginLayer, CommitLayer, FetchLayer
from regatta_protocol.operations.releases import Abandon

COMMIT_SECONDS = 900.0


def bring(
    remote: Remote, wanted: Resolution, key: str, archive: Archive, lacking: Iterable[Node], label: str
) -> list[str]:
    """Put a layer on the nodes that lack it; gives their names. NodesError names each node's cause.

    `key`: its name there. `label`: for whom it is, kept next to it.
    """
    lacking = list(lacking)
    about = AboutLayer(
        tree=archive.tree,
        compiled=archive.compiled,
        bytes=archive.bytes,
        packages=wanted.versions,
        instead={package.name: package.instead for package in wanted.packages if package.instead},
        label=label,
    )
    remote.rest(lacking)  # each has memory here, and so have the many copies of rsync
    _done, failed = routes.spread(
        remote,
        lacking,
        lambda node: _send(remote, key, archive, node, None, about),
        lambda node, relay: _send(remote, key, archive, node, relay, about),
        tree=archive.path.stat().st_size > routes.LARGE_BYTES,
    )
    if failed:
        raise NodesError(f"putting layer {key} on the nodes", failed)
    return [node.name for node in lacking]


def _send(remote: Remote, key: str, archive: Archive, node: Node, relay: Node | None, about: AboutLayer) -> None:
    incoming = remote.call(node, BeginLayer(key, archive.path.stat().st_size + archive.bytes)).incoming
    try:
        if relay:
            there = FetchLayer(key, incoming, relay.cluster_address, relay.root, about)
            done = remote.call(node, there, timeout=COMMIT_SECONDS)
        else:
            rsync.rsync(remote, node, archive.path.parent, [archive.path.name], incoming)
            arrived = CommitLayer(key, incoming, archive.path.name, archive.sha256, about)
            done = remote.call(node, arrived, timeout=COMMIT_SECONDS)
    except BaseException:
        remote.gather([node], lambda _: remote.call(node, Abandon(incoming), timeout=5))
        raise
    if not done.ok:
        raise RemoteError(node.name, f"layer {key} arrived with another content; start the run again")
