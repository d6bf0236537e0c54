"""OpenSSH as the one way to hosts: the words that start it, and what its configuration says (`ssh -G`)."""

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from regatta.errors import RemoteError
from regatta.hosts.cluster import Node

_ANSWER = 10.0
"""Seconds for `ssh -G`."""
_MOST_JUMPS = 16
OF_PERSON = ("hostname", "user", "port", "identityfile", "proxyjump", "proxycommand")
ALONE = ("-o", "ControlMaster=no", "-o", "ControlPath=none")
"""Options for a login of its own, over no connection that is there."""
FORWARDING = ("-o", "ClearAllForwardings=no")
"""Options for an ssh that forwards."""


@dataclass(frozen=True)
class Stop:
    """A host on the way to a node: its settings, and the files of keys that ssh tries there and that exist."""

    settings: Mapping[str, str]
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Jump:
    """The last host on the way to a node, and those `before` it as `-J` takes them ('' where there is none)."""

    before: str
    user: str | None
    host: str
    port: int | None


def words(config: Path, node: Node, options: Sequence[str] = ()) -> list[str]:
    """Return the ssh program with every option for a node, without the destination; `options` come first.

    Forwards that a person's own configuration asks for are left out: they belong to that person's ssh.
    """
    found = ["ssh", "-F", str(config), "-T", *options, "-o", "ClearAllForwardings=yes"]
    if node.port:
        found += ["-p", str(node.port)]
    if node.key_file:
        found += ["-i", node.key_file, "-o", "IdentitiesOnly=yes"]
    return [*found, *node.ssh_args]


def destination(node: Node) -> str:
    """`user@host`: the host as the inventory has it, which a person's configuration may know as an alias."""
    return f"{node.user}@{node.host}" if node.user else node.host


def for_rsync(node: Node) -> str:
    """`user@host` as rsync takes it: an IPv6 address in brackets, which rsync removes before it starts ssh."""
    user, _, host = destination(node).rpartition("@")
    return f"{user}@{host}".lstrip("@") if ":" not in host else f"{user}@[{host}]".lstrip("@")


def asked(address: str, *options: str) -> dict[str, str]:
    """`ssh -G`: the first value of each setting; nothing where it does not answer."""
    done = _ask(address, *options)
    return _first_values(done.stdout) if done else {}


def _first_values(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        found.setdefault(key, value)
    return found


def _stop(address: str, text: str) -> Stop:
    """A host by what `ssh -G` says of it."""
    found = _first_values(text)
    files = re.findall(r"^identityfile (.*)$", text, re.M)
    paths = [Path(os.path.expandvars(_filled(file, found, address))).expanduser() for file in files]
    return Stop(found, tuple(dict.fromkeys(str(path) for path in paths if path.is_file())))


def _filled(text: str, found: Mapping[str, str], address: str) -> str:
    """A setting with the names that ssh fills in."""
    values = {"%h": found.get("hostname", address), "%p": found.get("port", "22"), "%r": found.get("user", "")}
    values |= {"%n": address, "%d": str(Path.home()), "%%": "%"}
    return re.sub("%[hprnd%]", lambda match: values[match[0]], text)


def _ask(address: str, *options: str) -> "subprocess.CompletedProcess[str] | None":
    command = ["ssh", *options, "-G", "--", address]
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_ANSWER, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def file_of_person() -> str:
    """The person's own configuration: `$REGATTA_SSH_CONFIG`, else that of ssh."""
    return os.environ.get("REGATTA_SSH_CONFIG") or "~/.ssh/config"


def of_person(address: str) -> dict[str, str]:
    """The settings among `OF_PERSON` of a person's configuration for an address that ssh would not have by itself."""
    chosen = os.environ.get("REGATTA_SSH_CONFIG")
    plain, mine = asked(address, "-F", "none"), asked(address, *(("-F", chosen) if chosen else ()))
    return {key: mine[key] for key in OF_PERSON if key in mine and mine[key] not in (plain.get(key), "none")}


def settings(config: Path, node: Node) -> dict[str, str]:
    """The settings with which ssh reaches a node, by the lower-case names of its settings."""
    return asked(destination(node), *words(config, node)[1:])


def known_as(found: dict[str, str], host: str) -> str:
    """The name under which known_hosts has a host with these settings."""
    if alias := found.get("hostkeyalias"):
        return alias
    port = found.get("port", "22")
    name = found.get("hostname", host)
    return name if port == "22" else f"[{name}]:{port}"


def checked(config: Path, node: Node) -> None:
    """As `way`, only where inventory or person can have made a circle."""
    own = any("proxy" in word.lower() or word.startswith("-J") for word in node.ssh_args)
    if own or Path(file_of_person()).expanduser().exists():
        way(config, node)


@cache
def way(config: Path, node: Node) -> tuple[Stop, ...]:
    """The node and its jump hosts, each behind the next one; asked once for this program.

    RemoteError where ssh finds no way, or jump hosts lead in a circle: ssh would start without end.
    """
    said = _ask(destination(node), *words(config, node)[1:])
    if said is None or said.returncode:
        why = said.stderr.strip() if said else f"no answer within {_ANSWER:g} s"
        raise RemoteError(node.name, f"ssh finds no way to {node.host}: {why}: correct your ssh configuration")
    stops = [_stop(node.host, said.stdout)]
    seen, jumps = [node.host], stops[0].settings.get("proxyjump", "none")
    passed = {(node.host, jumps)}
    while jumps != "none":
        name, *others = [jump(one).host for one in jumps.split(",")]
        for one in (*reversed(others), name):
            done = _ask(one, "-F", str(config))
            stops.append(_stop(one, done.stdout if done else ""))
        seen, jumps = [*seen, name], stops[-1].settings.get("proxyjump", "none")
        if (name, jumps) in passed or len(seen) > _MOST_JUMPS:
            raise RemoteError(
                node.name,
                f"its jump hosts lead in a circle ({' -> '.join(seen)}): correct ProxyJump of {name} in your ssh "
                "configuration",
            )
        passed.add((name, jumps))
    return tuple(stops)


def jump(hosts: str) -> Jump:
    """The last of the hosts that `-J` and ProxyJump take: `[user@]host[:port]` or `ssh://...`, with commas between."""
    before, _, last = hosts.rpartition(",")
    user, _, host = last.strip().removeprefix("ssh://").rstrip("/").rpartition("@")
    port = ""
    if host.startswith("["):
        host, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    return Jump(before, user or None, host, int(port) if port.isdigit() else None)


def proxy(config: Path, node: Node) -> str | None:
    """The command that leads to a node's sshd through its jump hosts or its ProxyCommand; None where it is straight."""
    found = settings(config, node)
    if (command := found.get("proxycommand", "none")) != "none":
        return _filled(command, found, node.host)
    if (jumps := found.get("proxyjump", "none")) == "none":
        return None
    last = jump(jumps)
    words = ["ssh", "-F", str(config), *(["-J", last.before] if last.before else [])]
    words += ["-p", str(last.port)] if last.port else []
    words += ["-W", f"[{found['hostname']}]:{found['port']}", "--"]
    return shlex.join([*words, f"{last.user}@{last.host}" if last.user else last.host])
