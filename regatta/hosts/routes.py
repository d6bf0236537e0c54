"""The way to a node: its jump host, and the member of the cluster that is one.

Members behind such a *relay* get what is large from it, over the network among the nodes: each thing crosses the way
from the controller to the relay once. In a large cluster without relays some nodes do the same for the others, so that
the controller's network carries about as many copies as the square root of their number.
"""

import math
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from regatta.errors import RemoteError, UnreachableError, UsageError
from regatta.hosts import openssh
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.openssh import Jump
from regatta.hosts.remote import Remote

LARGE_AT_A_TIME = 16
"""Each has an ssh and mostly a program that reads or packs here; more of them only share the wire."""
TREE_NODES = 16
EACH_SERVES = 9
"""An sshd with its own settings refuses some of those who knock when ten do at once."""
LARGE_BYTES = 16 << 20
"""Less than this is sooner sent from here to every node than to some of them first."""


def proxy_option(node: Node) -> tuple[str, str] | None:
    """Return how a node's SSH arguments lead to it: ("jump", hosts) or ("command", ProxyCommand); None: straight."""
    words = list(node.ssh_args)
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        if word.startswith("-J") and (hosts := word[2:] or following):
            return "jump", hosts
        option = following if word == "-o" else word[2:] if word.startswith("-o") else ""
        name, _, value = option.partition("=")
        kind = {"proxycommand": "command", "proxyjump": "jump"}.get(name.strip().lower())
        if kind and value.strip():
            return kind, value.strip()
    return None


def jump(node: Node) -> Jump | None:
    """The last jump host of a node; None where it has none, or its own ProxyCommand."""
    kind, hosts = proxy_option(node) or ("", "")
    return None if kind != "jump" or hosts == "none" else openssh.jump(hosts)


def relay(cluster: Cluster, node: Node) -> Node | None:
    """The member that a node's way leads through at last; None where no member is on it."""
    found = jump(node)
    for member in cluster.nodes if found else ():
        assert found
        same_port = found.port is None or found.port == (member.port or 22)
        if member.name != node.name and found.host in (member.name, member.host) and same_port:
            return member
    return None


def with_relays(cluster: Cluster, nodes: Iterable[Node]) -> list[Node]:
    """The nodes and all relays on the ways to them, each once."""
    wanted: dict[str, Node] = {}
    for node in nodes:
        here: Node | None = node
        while here and here.name not in wanted:
            wanted[here.name] = here
            here = relay(cluster, here)
    return list(wanted.values())


def tree_nodes() -> int:
    """Return how many nodes may get what is large from here before some pass it on (`REGATTA_TREE_NODES`)."""
    wanted = os.environ.get("REGATTA_TREE_NODES") or str(TREE_NODES)
    if not wanted.isdecimal():
        raise UsageError(f"REGATTA_TREE_NODES={wanted}: give a number of nodes")
    return int(wanted)


def sources(cluster: Cluster, nodes: Iterable[Node], *, tree: bool = True) -> dict[str, Node]:
    """Which of the nodes get what is large from which member, by name; the others get it from here.

    That is the relay on their way. In a `tree`, where more than `tree_nodes` have none, the first of these, the square
    root of their number, serve the others.
    """
    nodes = list(nodes)
    found = {node.name: through for node in nodes if (through := relay(cluster, node))}
    straight = [node for node in nodes if node.name not in found]
    if tree and len(straight) > tree_nodes():
        count = max(math.isqrt(len(straight)), math.ceil(len(straight) / (1 + EACH_SERVES)))
        first, others = straight[:count], straight[count:]
        found |= {node.name: first[index % len(first)] for index, node in enumerate(others)}
    return found


def longer(node: Node, through: Node, error: RemoteError) -> str:
    """The message about a relay that could not pass something on."""
    return f"{node.name}: {through.name} could not pass it on, it is sent the long way ({error.reason})"


def warn(line: str) -> None:
    """A line on standard error."""
    print(f"warning: {line}", file=sys.stderr, flush=True)


def spread(
    remote: Remote,
    nodes: Iterable[Node],
    give: Callable[[Node], Any],
    pass_on: Callable[[Node, Node], Any],
    told: Callable[[str], object] = warn,
    *,
    tree: bool = False,
) -> tuple[dict[str, Any], dict[str, Exception]]:
    """Bring something to all `nodes`: `give(node)` from here, `pass_on(node, relay)` once the node's relay has it.

    A relay that is not among the nodes has it already. Files that a relay cannot pass on are given from here, the long
    way, and `told` reports it. With `tree` nodes without a relay may get it from each other (`sources`), but not for a
    member, for whom nodes fetch nothing. Returns what `Remote.gather` does.
    """
    left = list(nodes)
    from_whom = sources(remote.cluster, left, tree=tree and not any(node.member for node in left))
    done: dict[str, Any] = {}
    failed: dict[str, Exception] = {}

    def bring(node: Node) -> Any:
        through = from_whom.get(node.name)
        if through and through.name not in failed:
            try:
                return pass_on(node, through)
            except UnreachableError:
                raise
            except RemoteError as error:
                told(longer(node, through, error))
        return give(node)

    while left:
        waiting = {node.name for node in left}
        wave = [node for node in left if getattr(from_whom.get(node.name), "name", None) not in waiting] or left
        some, others = remote.gather(wave, bring, at_a_time=LARGE_AT_A_TIME)
        done, failed = done | some, failed | others
        left = [node for node in left if node not in wave]
    return done, failed
