"""`make forget NODE=x`: drop the host key that is pinned for a node, and pin the one that it shows now."""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from regatta import files
from regatta.errors import DeclinedError
from regatta.hosts import hostkeys
from regatta.hosts.cluster import Cluster
from regatta.hosts.hostkeys import Pin
from regatta.hosts.remote import Remote, explain
from regatta.program import about_hosts
from regatta.provisioning import playbook
from regatta.terminal.confirm import confirmed

_SECONDS = 30


@dataclass(frozen=True)
class Target:
    """Whose key: a node, or a jump host that known_hosts names; `names` are those it may have there."""

    name: str
    names: tuple[str, ...]
    ssh: tuple[str, ...]
    destination: str


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
        old = hostkeys.find(known, target.names)
        now = _shown(cluster, target)
        print(f"{target.name}, pinned:    {', '.join(pin.shown for pin in old) or 'no key'}")
        print(f"{target.name}, shows now: {now.shown}")
        if any((pin.kind, pin.key) == (now.kind, now.key) for pin in old):
            print("The pinned key is the one it shows: nothing to forget.")
            return True
        if check:
            print(f"{target.name}: the key that it shows now would be pinned; nothing was changed")
            return False
        rest = hostkeys.without(known, target.names)
        if not confirmed(f"trust the key that {target.name} shows now; compare it with what its console says", yes):
            raise DeclinedError("not confirmed; nothing was changed")
        files.write(known, f"{rest}{_pinned(target, old, now).text}\n")
    print(f"{target.name}: its new key is pinned. '{about_hosts('provision')}' makes it known to the other nodes.")
    return True


def _target(cluster: Cluster, name: str, known: Path) -> Target:
    remote = Remote(cluster)
    for node in cluster.nodes:
        if name in (node.name, node.host):
            return Target(
                node.name, hostkeys.names_of(node.host, node.port), tuple(remote.ssh(node)), remote.destination(node)
            )
    if hostkeys.find(known, (name,)):
        host, _, port = name[1:].partition("]:") if name.startswith("[") else (name, "", "")
        way = ["ssh", "-F", str(cluster.folder / "ssh_config"), "-T", *(["-p", port] if port else [])]
        return Target(name, (name,), tuple(way), host)
    cluster.node(name)
    raise AssertionError


def _shown(cluster: Cluster, target: Target) -> Pin:
    """The key that the host shows now, by its own connection, which trusts it and does nothing; jump hosts on the
    way are held to the pinned keys. Login may fail: the key comes before it."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "known_hosts"
        trusting = ["-o", f"UserKnownHostsFile={fresh}", "-o", "StrictHostKeyChecking=accept-new"]
        alone = ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
        program, *rest = target.ssh
        command = [program, *trusting, *alone, *rest, "--", target.destination, "true"]
        code, said = _ran(command)
        for line in fresh.read_text().splitlines() if fresh.exists() else []:
            if pin := hostkeys.parse(line):
                return pin
    node = next((node for node in cluster.nodes if node.name == target.name), cluster.head)
    raise explain(node, code, said)


def _ran(command: list[str]) -> tuple[int, str]:
    """(exit code, standard error); one that does not end is ended, as 255 with a reason."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 255, f"no answer within {_SECONDS} s"
    return done.returncode, done.stderr


def _pinned(target: Target, old: list[Pin], now: Pin) -> Pin:
    """The new key under all names that the old one had, where these are plain names."""
    names = next((pin.names for pin in old if not set("|*?!") & set(pin.names)), target.names[0])
    return Pin(names, now.kind, now.key)
