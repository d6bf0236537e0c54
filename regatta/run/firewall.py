"""Frameworks whose ranks believe whoever reaches them are for clusters with a firewall that keeps others out."""

from regatta.errors import UsageError
from regatta.frameworks.api import Framework
from regatta.hosts.remote import Remote
from regatta.program import about_hosts
from regatta_protocol.operations.services import Act

UNIT = "regatta-firewall.service"


def check(remote: Remote, framework: Framework) -> None:
    """Raise UsageError where nodes of a cluster have no Regatta firewall, and name them. NodesError: no answer."""
    cluster = remote.cluster
    nodes = tuple(dict.fromkeys((cluster.head, *cluster.workers)))
    answers = remote.everywhere(nodes, Act("status", (UNIT,)), step="asking for the firewall")
    bare = [node for node, said in answers.items() if UNIT not in said.units or said.units[UNIT].state != "active"]
    if bare:
        raise UsageError(
            f"{framework.name} cannot be used on {cluster.name}: its ranks listen on all addresses of a host and "
            f"believe whoever reaches them, and {', '.join(bare)} has no firewall of Regatta: set firewall_enabled: "
            f"true in the inventory's group_vars/all.yml and '{about_hosts('provision')}'; where it was stopped, "
            f"'systemctl start {UNIT}' there"
        )
