"""The secrets that a cluster's hosts have already, for a checkout that has none or others: none is made twice."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regatta.errors import RegattaError
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.program import about_hosts, hint
from regatta.provisioning import definition, secrets
from regatta_protocol.operations.hosts import AskMember, Definition, Member

Held = Mapping[str, Mapping[str, str]]
Found = Mapping[str, Member]


@dataclass(frozen=True)
class Adopted:
    """Why whether hosts have further secrets is not known, '' where it is; the definition that the head keeps.

    `bare`: no host is in a cluster.
    """

    unknown: str = ""
    kept: Definition | None = None
    bare: bool = False


def wanted() -> AskMember:
    """The request that a host answers with its cluster and its secrets."""
    return AskMember(tuple(secrets.KEYS), secrets.tokens())


def adopt(cluster: Cluster, inventory: Path) -> Adopted:
    """Write the secrets here that the hosts have and this checkout lacks.

    Raises RegattaError where hosts are another cluster's or have different secrets, the head has others than this
    checkout, or this copy is older than its.
    """
    own = secrets.held(cluster.folder)
    lacking = [name for name in secrets.names() if name not in own]
    remote = Remote(cluster, accept_new=True, alone=True)  # this may be the first contact
    found, failed = remote.gather(cluster.nodes, lambda node: remote.call(node, wanted()))
    refuse_foreign(cluster, own, found)
    head = found.get(cluster.head.name)
    if head and head.kept:
        definition.must_be_current(cluster, inventory, head.kept)
    same(cluster, own, head.held if head else {})
    chosen = choose(cluster, lacking, {name: member.held for name, member in found.items()})
    for name, text in chosen.items():
        secrets.put(cluster.folder, name, text)
    if chosen:
        print(
            f"{cluster.name}: {', '.join(chosen)} taken from the hosts into {secrets.folder(cluster.folder)}",
            flush=True,
        )
    known = not failed or not set(lacking) - set(chosen)
    unknown = "" if known else "; ".join(str(error) for error in failed.values())
    return Adopted(unknown, head.kept if head else None, not any(member.head for member in found.values()))


def refuse_foreign(cluster: Cluster, own: Mapping[str, str], found: Found) -> None:
    """Raise RegattaError where a host is a member of another cluster: its head is another, and so is root's key."""
    head = found.get(cluster.head.name)
    keys = {own.get(secrets.MESH_KEY, "").strip()}
    if head and head.head == cluster.head.cluster_address:
        keys.add(head.held.get(secrets.MESH_KEY, "").strip())
    others = {
        name: member
        for name, member in found.items()
        if member.head not in ("", cluster.head.cluster_address)
        and member.held.get(secrets.MESH_KEY, "").strip() not in keys
    }
    if others:
        whose = "; ".join(f"{name} of {one.cluster} (head {one.head})" for name, one in others.items())
        name, one = next(iter(others.items()))
        raise RegattaError(
            f"{cluster.name}: hosts of another cluster: {whose}. To work with that cluster: "
            f"'{hint('join', f'USER@{one.head}')}'. To take a host from it, remove it there first "
            f"({about_hosts('remove-node', node=name)}, {about_hosts('teardown')}). Nothing was changed"
        )


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


def other(own: Mapping[str, str], head: Mapping[str, str]) -> list[str]:
    """Names of the secrets of which the head has others."""
    return [name for name, text in own.items() if head.get(name) and head[name].strip() != text.strip()]


def same(cluster: Cluster, own: Mapping[str, str], head: Mapping[str, str]) -> None:
    """Raise RegattaError where the head has other secrets than this checkout, unless these were made here last."""
    if (others := other(own, head)) and not secrets.rotating(cluster.folder):
        raise RegattaError(
            f"{cluster.name}: {cluster.head.name} has another {', '.join(others)} than this checkout, which would "
            f"bring the old one back: another checkout has replaced the secrets. '{hint('pull')}' takes over those of "
            "the hosts. Nothing was changed"
        )
