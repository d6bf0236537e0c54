"""Archives to many nodes: once from here to each relay, from there to the nodes behind it, with the cluster's own key.

Between `stage` and `unstage` a relay keeps the archive on a shelf of its own, which only root and `regatta` read. Each
node verifies what it has got before it unpacks it.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from regatta import cluster, ways
from regatta.cluster import Cluster, Node
from regatta.errors import NodesError, RemoteError, UnreachableError
from regatta.provisioning import archive
from regatta.remote import Remote

FETCH_SECONDS = 3600.0


def stage(inventory: str, hosts: Iterable[str], source: Path, target: str, told: Callable[[str], object]) -> bool:
    """Put a file on the shelves of all relays among `hosts` and on the ways to them; whether there is one.

    `target` is where the nodes will have it: a relay that has it there already is not sent it again. `told` hears of
    relays that could not pass it on.
    """
    chosen = cluster.load(inventory)
    remote = Remote(chosen)
    found = relays(chosen, [chosen.node(host) for host in hosts])

    def give(node: Node) -> None:
        path = _offer(remote, node, source, target)
        archive.copy(inventory, node.name, (str(source), f"NODE:{path}"))

    def pass_on(node: Node, through: Node) -> None:
        _fetch(remote, node, through, source, _offer(remote, node, source, target))

    _done, failed = ways.spread(remote, found, give, pass_on, told)
    if failed:
        raise NodesError(f"copying {source.name}", failed)
    return bool(found)


def send(inventory: str, host: str, source: Path, target: str, told: Callable[[str], object]) -> None:
    """Bring a staged file to a node: from its relay, its own shelf, or where that fails (as `told`) from here."""
    chosen = cluster.load(inventory)
    node, remote = chosen.node(host), Remote(chosen)
    through = ways.relay(chosen, node)
    try:
        if through:
            _fetch(remote, node, through, source, target)
            return
        if node in relays(chosen, [node]):
            remote.call(node, "relay.take", name=source.name, target=target)
            return
    except UnreachableError:
        raise
    except RemoteError as error:
        told(ways.longer(node, through or node, error))
    archive.send(inventory, host, source, target)


def unstage(inventory: str) -> bool:
    """Clear the shelves of all relays; whether there is one."""
    chosen = cluster.load(inventory)
    found = relays(chosen, chosen.nodes)
    Remote(chosen).everywhere(found, "relay.drop", step="clearing what relays keep for others")
    return bool(found)


def relays(chosen: Cluster, nodes: Iterable[Node]) -> list[Node]:
    """The relays among the nodes and on the ways to them."""
    serving = {through.name for node in chosen.nodes if (through := ways.relay(chosen, node))}
    return [node for node in ways.with_relays(chosen, nodes) if node.name in serving]


def _offer(remote: Remote, node: Node, source: Path, target: str) -> str:
    return str(remote.call(node, "relay.offer", name=source.name, own=target)["path"])


def _fetch(remote: Remote, node: Node, through: Node, source: Path, target: str) -> None:
    there = {"host": through.cluster_address, "source": f"{through.root}/.relay/{source.name}"}
    remote.call(node, "relay.fetch", timeout=FETCH_SECONDS, target=target, **there)
