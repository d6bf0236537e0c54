"""Archives to many nodes: once from here to those that pass it on, from there to the others, by the cluster's own key.

Those are relays and, in a large cluster, the first of its nodes (`routes.sources`). Between `stage` and `unstage` they
keep the archive in its own cache, which only root and `regatta` read. Each node verifies what it has got before it
unpacks it.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from regatta.errors import NodesError, RemoteError, UnreachableError
from regatta.hosts import inventories, routes
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.provisioning import archive
from regatta_protocol.operations.transfers import Drop, Fetch, Offer, Take

FETCH_SECONDS = 3600.0


def stage(
    inventory: str, hosts: Iterable[str], source: Path, target: str, told: Callable[[str], object]
) -> dict[str, str]:
    """Put a file in the caches of all that pass it on to `hosts`: who has it for whom, also for itself, by name.

    `target` is where the nodes will have it: who has it there already is not sent it again. `told` hears of those that
    could not pass it on to another one's cache.
    """
    chosen = inventories.load(inventory)
    remote = Remote(chosen)
    lacking = [chosen.node(host) for host in hosts]
    from_whom = routes.sources(chosen, lacking)
    keepers = {node.name: node for node in (*relays(chosen, lacking), *from_whom.values())}

    def give(node: Node) -> None:
        path = _offer(remote, node, source, target)
        archive.copy(inventory, node.name, (str(source), f"NODE:{path}"))

    def pass_on(node: Node, through: Node) -> None:
        _fetch(remote, node, through, source, _offer(remote, node, source, target))

    _done, failed = routes.spread(remote, keepers.values(), give, pass_on, told, tree=True)
    if failed:
        raise NodesError(f"copying {source.name}", failed)
    return {node: through.name for node, through in from_whom.items()} | {name: name for name in keepers}


def send(inventory: str, host: str, source: Path, target: str, keeper: str, told: Callable[[str], object]) -> None:
    """Bring a file to a node from the cache of `keeper` (as `stage` said; '': none), or, where that fails, from here.

    `told` hears of such a failure.
    """
    chosen = inventories.load(inventory)
    node, remote = chosen.node(host), Remote(chosen)
    try:
        if keeper == host:
            remote.call(node, Take(source.name, target))
            return
        if keeper:
            _fetch(remote, node, chosen.node(keeper), source, target)
            return
    except UnreachableError:
        raise
    except RemoteError as error:
        told(routes.longer(node, chosen.node(keeper), error))
    archive.send(inventory, host, source, target)


def unstage(inventory: str) -> bool:
    """Clear the caches of all that may have one; whether there is one."""
    chosen = inventories.load(inventory)
    found = chosen.nodes if len(chosen.nodes) > routes.tree_nodes() else relays(chosen, chosen.nodes)
    Remote(chosen).everywhere(found, Drop(), step="clearing what nodes keep for others")
    return bool(found)


def relays(chosen: Cluster, nodes: Iterable[Node]) -> list[Node]:
    """The relays among the nodes and on the ways to them."""
    serving = {through.name for node in chosen.nodes if (through := routes.relay(chosen, node))}
    return [node for node in routes.with_relays(chosen, nodes) if node.name in serving]


def _offer(remote: Remote, node: Node, source: Path, target: str) -> str:
    return remote.call(node, Offer(source.name, target)).path


def _fetch(remote: Remote, node: Node, through: Node, source: Path, target: str) -> None:
    there = Fetch(through.cluster_address, f"{through.root}/.relay/{source.name}", target)
    remote.call(node, there, timeout=FETCH_SECONDS)
