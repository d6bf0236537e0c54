"""The command rotate-secrets: new secrets of all services and new keys between the nodes, on every node and here."""

from collections.abc import Sequence
from pathlib import Path

from regatta.errors import NodesError
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.program import about_hosts
from regatta.provisioning import interruption, playbook
from regatta.run import catalogue, services
from regatta_protocol.states import State


def rotate(inventory: Path, cluster: Cluster, extra: Sequence[str], *, check: bool, force: bool) -> int:
    """Replace the secrets once every node is known to be well, and start Ray with them. Returns an exit code.

    If interrupted, run this or `make provision` again: every node gets what the controller has by then. Raises
    RunError while runs are in progress, unless `force`, which cancels them; NodesError where a node cannot be asked.
    """
    nothing_runs(Remote(cluster), "rotate-secrets", force and not check)
    code = playbook.play("provision", inventory, cluster, ["-e", "ssh_mesh_rotate=true", *extra])
    if code == 0 and not check:
        print(f"{cluster.name}: the secrets are new on every node and in {cluster.folder}/secrets")
    return code


def nothing_runs(remote: Remote, command: str, force: bool, *, units: Sequence[str] = ()) -> None:
    """Raise RunError while runs (those that need these units, or any) are active; `force` cancels them."""
    found, failed = catalogue.listing(remote)
    if failed:
        raise NodesError("asking for runs in progress (nothing was changed)", failed)
    hit = [info for info in found if not units or set(info.adapter.units) & set(units)]
    going = [info for info in hit if info.state is State.RUNNING]
    names = ", ".join(info.run for info in going)
    restarts = " and ".join(one.service for one in services.served(remote.cluster)) or "what runs need"
    why = f"still running: {names}; {restarts} would restart"
    interruption.refuse_or_cancel(remote, going, why, about_hosts(command), force=force)
