"""`make rollback`: back to the Python environment that was there before, on every node."""

from regatta.errors import RegattaError
from regatta.frameworks import registry
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.program import about_hosts
from regatta.provisioning import playbook, rotate
from regatta.run import services
from regatta_protocol.operations.layers import LookAtEnvironments, SwitchEnvironment
from regatta_protocol.operations.services import Act


def rollback(cluster: Cluster, force: bool = False) -> int:
    """Switch the link on every node, the head last, and restart Ray. Returns an exit code.

    torch's runs in progress keep the environment they began with; Ray's would end, so that they are waited for, or
    cancelled with `force`. Raises RegattaError where no earlier environment is on every node.
    """
    remote = Remote(cluster)
    with playbook.alone(cluster):
        look = LookAtEnvironments(registry.packages())
        found = remote.everywhere(cluster.nodes, look, step="looking for environments")
        now = found[cluster.head.name].current
        everywhere = set.intersection(*({item.hash for item in one.there} for one in found.values()))
        earlier = [item for item in found[cluster.head.name].there if item.hash in everywhere - {now}]
        if not earlier:
            raise RegattaError(
                f"{cluster.name}: no environment but {now}, the current one, is on every node; "
                "python_env_keep says how many stay. Nothing was changed"
            )
        rotate.nothing_runs(remote, "rollback", force, units=services.framework_units(cluster))
        target = earlier[0]
        versions = ", ".join(f"{name} {version}" for name, version in target.packages.items())
        print(f"{cluster.name}: from environment {now} back to {target.hash} ({versions})", flush=True)
        made = tuple(unit for one in services.served(cluster) if one.fixed for unit in one.units)
        others = [node for node in cluster.nodes if node != cluster.head]
        for group in (others, [cluster.head]):
            remote.everywhere(group, SwitchEnvironment(target.hash, made), step="rollback")
        again = Act("restart", services.framework_units(cluster))
        remote.everywhere(cluster.nodes, again, timeout=90, step="restarting services")
        up = [
            f"{one.service} is up on {services.wait_until_joined(remote, one)} node(s)"
            for one in services.served(cluster)
        ]
    print(f"{cluster.name}: {', '.join(up)}. '{about_hosts('provision')}' goes forward again to what the lock says")
    return 0
