"""Nodes that join and leave a cluster."""

from collections.abc import Sequence
from pathlib import Path

from regatta.errors import UsageError
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.program import about_hosts, option
from regatta.provisioning import interruption, playbook
from regatta_protocol.operations.hdfs import AskHdfs, Decommission, Forget

STALL_SECONDS = 120.0


def must_be_known(cluster: Cluster, name: str) -> None:
    """The inventory says who is a member: a node to add must be in it."""
    if name not in [node.name for node in cluster.nodes]:
        raise UsageError(
            f"{cluster.name} has no host '{name}': add it to {cluster.folder}/hosts.yml, under hosts and under "
            "workers, then run this again"
        )


def remove(inventory: Path, cluster: Cluster, name: str, extra: Sequence[str], *, check: bool, force: bool) -> int:
    """Move the node's blocks away, with progress; then remove its services. Returns an exit code.

    RunError names runs that the node takes part in, unless `force`, which cancels them.
    """
    node = cluster.node(name)
    if node == cluster.head:
        raise UsageError(
            f"{name} is the head, which holds HDFS's metadata and Ray's: it cannot be removed; "
            "make a new cluster without it instead"
        )
    if [worker.name for worker in cluster.workers] == [name]:
        raise UsageError(f"{name} is the only worker, and a cluster needs one: add another first")
    remote = Remote(cluster)
    hit = [info for info in interruption.going(remote) if name in [one.name for one in info.nodes]]
    ends = f"{name} takes part in {interruption.named(hit)}" if hit else ""
    if check:
        print(f"{name}: its blocks would be moved to the other DataNodes, its services removed")
        if hit:
            print(f"{ends}: remove-node refuses to end that without {option(force=True)}")
        return 0
    interruption.refuse_or_cancel(remote, hit, ends, about_hosts("remove-node", node=name), force=force)
    moved, installed = "", remote.call(cluster.head, AskHdfs()).installed
    if installed:
        with playbook.alone(cluster):
            moved = leave(remote, name, node.cluster_address)
    words = ["-e", f"regatta_leaves={name}", *extra, "-e", f"hdfs_moved={moved}"]
    code = playbook.play("remove_node", inventory, cluster, words)
    if code == 0:
        if installed:
            remote.call(cluster.head, Forget(node.cluster_address))
        print(
            f"{name} has left. Take it out of {cluster.folder}/hosts.yml, then '{about_hosts('provision')}': "
            "the others forget it"
        )
    elif moved:
        print(
            f"{name}: HDFS puts nothing there any more. Try again, or '{about_hosts('provision')}' makes it a "
            "full member again"
        )
    return code


def leave(remote: Remote, name: str, address: str) -> str:
    """Move the node's blocks to the other DataNodes. Raises RemoteError where that cannot be.

    Returns the block pool of which no block needs the node any more; empty where its DataNode is not live.
    """
    print(f"{name}: moving its blocks to the other DataNodes (Ctrl-C only stops watching; run it again to continue)")
    with remote.stream(remote.cluster.head, Decommission(address, name, STALL_SECONDS)) as lines:
        for line in lines:
            print(f"{name}: {line.progress}", flush=True)
        moved = lines.answer.pool
    said = "no block needs it any more" if moved else "its DataNode is not live: it leaves only if it holds no block"
    print(f"{name}: {said}", flush=True)
    return moved
