"""The secrets that a cluster's hosts have already, for a checkout that has none or others: none is made twice."""

from collections.abc import Mapping

from regatta.errors import RegattaError
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.provisioning import secrets
from regatta_protocol.operations.hosts import AskHeld

Held = Mapping[str, Mapping[str, str]]


def adopt(cluster: Cluster) -> str:
    """Write the secrets here that the hosts have and this checkout lacks.

    Returns why whether they have some is not known; '' where it is. Raises RegattaError where hosts have different
    ones, or the head has others than this checkout.
    """
    own = secrets.held(cluster.folder)
    lacking = [name for name in secrets.names() if name not in own]
    first = bool(secrets.missing(cluster.folder))  # then it may be the first contact
    remote = Remote(cluster, accept_new=first, alone=first)
    wanted = AskHeld(tuple(secrets.KEYS), secrets.tokens())
    asked = cluster.nodes if lacking else (cluster.head,)
    found, failed = remote.gather(asked, lambda node: remote.call(node, wanted).held)
    same(cluster, own, found.get(cluster.head.name, {}))
    chosen = choose(cluster, lacking, found)
    for name, text in chosen.items():
        secrets.put(cluster.folder, name, text)
    if chosen:
        print(
            f"{cluster.name}: {', '.join(chosen)} taken from the hosts into {secrets.folder(cluster.folder)}",
            flush=True,
        )
    known = not failed or not set(lacking) - set(chosen)
    return "" if known else "; ".join(str(error) for error in failed.values())


def choose(cluster: Cluster, lacking: list[str], found: Held) -> dict[str, str]:
    """Return what the head has; where it has none, what the others agree on."""
    chosen = {}
    for name in lacking:
        having = {node: held[name] for node, held in found.items() if held.get(name)}
        head = having.get(cluster.head.name)
        if not head and len(set(having.values())) > 1:
            raise RegattaError(
                f"{cluster.name}: this checkout has no {name}, the head neither, and those of {', '.join(having)} "
                f"differ: copy secrets/ of the checkout that provisioned them into {cluster.folder}. "
                "Nothing was changed"
            )
        if having:
            chosen[name] = head or next(iter(having.values()))
    return chosen


def same(cluster: Cluster, own: Mapping[str, str], head: Mapping[str, str]) -> None:
    """Raise RegattaError where the head has other secrets than this checkout, unless these were made here last."""
    other = [name for name, text in own.items() if head.get(name) and head[name].strip() != text.strip()]
    if other and not secrets.rotating(cluster.folder):
        paths = " ".join(f"{secrets.folder(cluster.folder)}/{name}*" for name in other)
        raise RegattaError(
            f"{cluster.name}: {cluster.head.name} has another {', '.join(other)} than this checkout, which would bring "
            f"the old one back: another checkout has replaced the secrets. Delete the old ones (rm {paths}), and the "
            "same command takes over those of the hosts. Nothing was changed"
        )
