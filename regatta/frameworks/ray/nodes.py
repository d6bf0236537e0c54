"""Which nodes are in Ray: each by the raylet that it has now.

Ray's head lists a raylet that died with its host for up to half a minute more; a run that is placed on that fails.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from regatta.errors import LaunchError
from regatta.frameworks.ray.state import RayNode, RayState
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.program import hint
from regatta_protocol.operations.launch import Inspect

JOIN_SECONDS = 60.0
POLL_SECONDS = 0.5
ASKS = {"ray_node": "ray.service.node_id"}
"""The argument that makes `inspect` say a node's id in Ray."""


def present(listed: Sequence[RayNode], nodes: Sequence[Node], own: Mapping[str, str | None]) -> list[str]:
    """The addresses that are listed, but for raylets of which their node knows better: `own` maps its name to its id.

    A node that is not in `own` could not be asked.
    """
    gone = {(node.cluster_address, own[node.name]) for node in nodes if node.name in own}
    known = {address for address, _ in gone}
    return [item.address for item in listed if item.address not in known or (item.address, item.id) in gone]


def unsettled(listed: Sequence[RayNode], nodes: Sequence[Node], own: Mapping[str, str | None]) -> list[str]:
    """Names of the nodes that are not listed by the raylet that they have now, and by no other."""
    ids: dict[str, list[str | None]] = {}
    for item in listed:
        ids.setdefault(item.address, []).append(item.id)
    return [node.name for node in nodes if ids.get(node.cluster_address) != [own[node.name]]]


def ask(remote: Remote, nodes: Sequence[Node]) -> dict[str, str | None]:
    """Each node's id in Ray by name, None where no raylet runs. NodesError where nodes cannot be asked."""
    answers = remote.everywhere(nodes, Inspect(facts_wanted=False, asks=ASKS), step="asking for Ray")
    return {name: answer.told["ray_node"] for name, answer in answers.items()}


def wait(
    remote: Remote,
    state: RayState,
    nodes: Sequence[Node],
    *,
    listed: Sequence[RayNode] | None = None,
    own: Mapping[str, str | None] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Wait until the nodes are in Ray. `say` gets once the names of those that are waited for.

    `listed` and `own` are what Ray's head and the nodes have just said. LaunchError with the names of those that are
    not there after JOIN_SECONDS.
    """
    end = time.monotonic() + JOIN_SECONDS
    said = False
    while missing := unsettled(
        listed if listed is not None else state.nodes(), nodes, own if own is not None else ask(remote, nodes)
    ):
        names = ", ".join(missing)
        if time.monotonic() > end:
            raise LaunchError(f"{names}: not in Ray after {JOIN_SECONDS:g} s; see '{hint('status')}'")
        if not said:
            said = True
            say(f"waiting until {names} {'is' if len(missing) == 1 else 'are'} in Ray, {JOIN_SECONDS:g} s at most")
        listed = own = None
        time.sleep(POLL_SECONDS)
