"""The same release on every node, proven by hash."""

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regatta import paths
from regatta.errors import NodesError, RemoteError, SyncError
from regatta.hosts import routes, rsync
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.program import hint
from regatta.release.tree import Tree
from regatta_protocol.operations.launch import Inspect, Inspected
from regatta_protocol.operations.releases import (
    Abandon,
    BeginRelease,
    BegunRelease,
    ChangedFile,
    CommitRelease,
    FetchRelease,
    Held,
    Patch,
)

COMMIT_TIMEOUT = 600.0
PATCH_BYTES = 1 << 18


@dataclass(frozen=True)
class Synced:
    """A release that every node has. `sent_to` are the nodes that had to receive it; `answers` what each node said."""

    tree: Tree
    sent_to: tuple[str, ...]
    answers: dict[str, Inspected]


def sync(
    remote: Remote,
    tree: Tree,
    nodes: Iterable[Node],
    *,
    repair: bool = False,
    ask: dict[str, Inspect] | None = None,
) -> Synced:
    """Prove or make the release on every node; `ask` has more of the one question that each node is asked first.

    Raises SyncError naming node and path where a node's copy differs (unless `repair`, which replaces it), NodesError
    where nodes cannot be reached.
    """
    nodes = routes.with_relays(remote.cluster, nodes)
    last = _last(tree.root)
    older, patch = (last["release"], _patch(tree, last)) if last else (None, None)

    def ask_of(node: Node) -> Inspect:
        small = None if routes.relay(remote.cluster, node) else patch  # once over the way to a relay, not once a node
        return (ask or {}).get(node.name, Inspect()).changed(release=tree.release, hint=older, patch=small)

    answers, failed = remote.gather(nodes, lambda node: remote.call(node, ask_of(node)))
    if failed:
        for node in nodes:
            if node.name in answers and (made := answers[node.name].begun):
                _abandon(remote, node, made.incoming)
        raise NodesError("sync", failed)
    states = {name: answer.release.state for name, answer in answers.items() if answer.release}
    damaged = {node: answers[node.name].release for node in nodes if states[node.name] is Held.DIFFERS}
    if damaged and not repair:
        raise SyncError("\n".join(_damage(node, tree.release, said.differs) for node, said in damaged.items() if said))
    lacking = [node for node in nodes if states[node.name] not in (Held.WHOLE, Held.MADE)]
    begun = {node.name: answers[node.name].begun for node in lacking}
    remote.rest(lacking)  # each has memory here, and so have the many copies of rsync
    _done, failed = routes.spread(
        remote,
        lacking,
        lambda node: _send(remote, tree, node, begun.pop(node.name, None)),
        lambda node, relay: _pass_on(remote, tree, node, relay, begun.pop(node.name, None)),
        tree=len(lacking) > routes.tree_nodes() and _size(tree) > routes.LARGE_BYTES,
    )
    if failed:
        raise NodesError("sync", failed)
    _remember(tree)
    sent_to = tuple(node.name for node in nodes if states[node.name] is not Held.WHOLE)
    return Synced(tree, sent_to, answers)


def _send(remote: Remote, tree: Tree, node: Node, begun: BegunRelease | None) -> None:
    """Send a release to one node; once more without links to older releases where what arrived differs."""
    for attempt in ("against older releases", "whole"):
        if begun is None:
            begun = remote.call(node, BeginRelease(tree.release))
        incoming = begun.incoming
        link_dest = begun.link_dest if attempt != "whole" else ()
        try:
            rsync.rsync(remote, node, tree.root, (e[0] for e in tree.entries), incoming, link_dest=link_dest)
            arrived = CommitRelease(tree.release, incoming, [list(entry) for entry in tree.entries])
            answer = remote.call(node, arrived, timeout=COMMIT_TIMEOUT)
        except BaseException:
            _abandon(remote, node, incoming)
            raise
        if answer.ok:
            remote.rest([node])
            return
        begun = None
        difference = answer.differs
    raise RemoteError(
        node.name, f"the copy of {difference[0]} {difference[1]}: did it change while it was being sent? Sync again"
    )


def _pass_on(remote: Remote, tree: Tree, node: Node, relay: Node, begun: BegunRelease | None) -> None:
    """Have a node fetch the release from the relay on its way, which has it."""
    begun = begun or remote.call(node, BeginRelease(tree.release))
    there = FetchRelease(tree.release, begun, relay.cluster_address, relay.root)
    try:
        answer = remote.call(node, there, timeout=COMMIT_TIMEOUT)
    except BaseException:
        _abandon(remote, node, begun.incoming)
        raise
    if not answer.ok:
        raise RemoteError(node.name, f"the copy of {answer.differs[0]} that {relay.name} passed on differs: sync again")


def _abandon(remote: Remote, node: Node, incoming: str) -> None:
    try:
        remote.call(node, Abandon(incoming), timeout=5)
    except Exception:  # the first error is the one to show; the node clears abandoned folders itself
        return


def _size(tree: Tree) -> int:
    """Bytes of a release's files, as they are now."""
    with contextlib.suppress(OSError):  # one that is gone shows when it is sent
        return sum(os.lstat(tree.root / path).st_size for path, _, _ in tree.entries)
    return 0


def _damage(node: Node, release: str, difference: tuple[str, ...]) -> str:
    path, what = difference
    return (
        f"{node.name}: release {release} was changed there: {path} {what}. Nothing was started. "
        f"'{hint('sync --repair')}' replaces it."
    )


def _memory(root: Path) -> Path:
    return paths.cache_dir() / "releases" / hashlib.sha256(str(root).encode()).hexdigest()[:16]


def _last(root: Path) -> dict[str, Any] | None:
    """{"release", "entries"} of what was synced last from here; most nodes have it."""
    try:
        found = json.loads(_memory(root).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _remember(tree: Tree) -> None:
    file = _memory(tree.root)
    with contextlib.suppress(OSError):  # it only saves time
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"release": tree.release, "entries": tree.entries}))


def _patch(tree: Tree, last: dict[str, Any]) -> Patch | None:
    """Return what makes the tree of the last release, small enough to go with the question; None where it is not.

    A file that changes meanwhile makes another release, which the node notices.
    """
    before = {path: (kind, content) for path, kind, content in last["entries"]}
    changed = [(path, kind, content) for path, kind, content in tree.entries if before.get(path) != (kind, content)]
    try:
        status = {path: os.lstat(tree.root / path) for path, _, _ in changed}
        if sum(info.st_size for info in status.values()) > PATCH_BYTES:
            return None
        contents = {
            path: content if kind == "l" else base64.b64encode((tree.root / path).read_bytes()).decode()
            for path, kind, content in changed
        }
    except OSError:
        return None
    return Patch(
        last["release"],
        tuple(sorted(before.keys() - {path for path, _, _ in tree.entries})),
        {path: ChangedFile(kind, contents[path], status[path].st_mtime_ns) for path, kind, _ in changed},
    )
