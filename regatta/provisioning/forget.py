"""`make forget NODE=x`: drop the host key that is pinned for a node, and pin the one that it shows now."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regatta import files
from regatta.errors import DeclinedError
from regatta.hosts import hostkeys, openssh, sshconfig
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.hostkeys import Pin
from regatta.program import about_hosts
from regatta.provisioning import playbook
from regatta.terminal.confirm import confirmed

_SECONDS = 30


def forget(cluster: Cluster, name: str, *, check: bool = False, yes: bool = False) -> int:
    """Show the pinned keys and the one that the host shows, ask, and replace them. Returns an exit code.

    `check`: neither ask nor change anything; `yes`: do not ask. UsageError for a name that is neither a node
    nor in known_hosts, RemoteError where the host does not answer.
    """
    renew(cluster, name, check=check, yes=yes)
    return 0


def renew(cluster: Cluster, name: str, *, check: bool = False, yes: bool = False) -> bool:
    """As `forget`; whether the key that the host shows is pinned now."""
    with playbook.alone(cluster):
        known = cluster.folder / "known_hosts"
        target = _target(cluster, name, known)
        config = sshconfig.write(cluster.folder, cluster.everybody, accept_new=False)
        names = (openssh.known_as(openssh.settings(config, target), target.host),)
        old = hostkeys.find(known, names)
        now = _shown(config, target, old)
        print(f"{target.name}, pinned:    {', '.join(pin.shown for pin in old) or 'no key'}")
        print(f"{target.name}, shows now: {now.shown}")
        if any((pin.kind, pin.key) == (now.kind, now.key) for pin in old):
            print("The pinned key is the one it shows: nothing to forget.")
            return True
        if check:
            print(f"{target.name}: the key that it shows now would be pinned; nothing was changed")
            return False
        rest = hostkeys.without(known, names)
        if not confirmed(f"trust the key that {target.name} shows now; compare it with what its console says", yes):
            raise DeclinedError("not confirmed; nothing was changed")
        files.write(known, f"{rest}{_pinned(old, now).text}\n")
    print(f"{target.name}: its new key is pinned. '{about_hosts('provision')}' makes it known to the other nodes.")
    return True


def _target(cluster: Cluster, name: str, known: Path) -> Node:
    """A node, or a jump host that known_hosts names."""
    for node in cluster.nodes:
        if name in (node.name, node.host):
            return node
    if hostkeys.find(known, (name,)):
        host, _, port = name[1:].partition("]:") if name.startswith("[") else (name, "", "")
        return replace(
            cluster.head, name=name, host=host, port=int(port or 22), user=None, key_file=None, ssh_args=(), local=False
        )
    return cluster.node(name)


def _shown(config: Path, target: Node, old: Sequence[Pin]) -> Pin:
    return hostkeys.showing(config, target, old, _SECONDS)


def _pinned(old: Sequence[Pin], now: Pin) -> Pin:
    """The new key under all names that the old one had, where these are plain names."""
    names = next((pin.names for pin in old if not set("|*?!") & set(pin.names)), now.names)
    return Pin(names, now.kind, now.key)
