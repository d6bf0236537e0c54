"""Host keys: what an inventory has pinned, what a host shows, and the message where they differ."""

import base64
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regatta.errors import HostKeyError, RemoteError, UnknownHostKeyError, UnreachableError, UsageError
from regatta.hosts import openssh
from regatta.hosts.cluster import Node
from regatta.program import about_hosts

if TYPE_CHECKING:
    from regatta.hosts.overssh import Process

_SHOWN = re.compile(r"fingerprint for the (\S+) key sent by the remote host is\s+(SHA256:[A-Za-z0-9+/]+)")
_PINNED = re.compile(r"Offending (?:key for IP|\S+ key) in (\S.*):(\d+)")
_WHOSE = re.compile(r"[Hh]ost key for (\S+) has changed")
_WRONG = re.compile(r":(\d+): invalid line")
_KIND = {"rsa-sha2-256": "ssh-rsa", "rsa-sha2-512": "ssh-rsa"}
"""The key of a signature's algorithm, where that has another name."""
_KINDS = {"ssh-ed25519": "ED25519", "ssh-rsa": "RSA", "ssh-dss": "DSA"}


@dataclass(frozen=True)
class Pin:
    """A line of known_hosts: who (names, or one hashed name), which kind of key, the key as base64."""

    names: str
    kind: str
    key: str

    @property
    def text(self) -> str:
        """The line as it is in the file."""
        return f"{self.names} {self.kind} {self.key}"

    @property
    def shown(self) -> str:
        """The key as `ssh-keygen -l` shows it: `ED25519 SHA256:...`; of one that is none, `ED25519 (unreadable)`."""
        import paramiko  # most commands need no keys, and are over sooner without it

        try:
            key = paramiko.PKey.from_type_string(self.kind, base64.b64decode(self.key))
        except (paramiko.SSHException, paramiko.pkey.UnknownKeyType, ValueError, IndexError):
            return shown(self.kind, "(unreadable)")
        return shown(key.get_name(), str(key.fingerprint))


def _keygen(*words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["ssh-keygen", *words], input=text, capture_output=True, text=True, errors="replace", check=False
    )


def find(known: Path, hosts: Iterable[str]) -> list[Pin]:
    """Return what a file of known_hosts has of hosts (`address` or `[address]:port`), also by hashed names."""
    lines = [line for host in hosts for line in _keygen("-F", host, "-f", str(known)).stdout.splitlines()]
    return list(dict.fromkeys(pin for line in lines if (pin := parse(line))))


def without(known: Path, hosts: Iterable[str]) -> str:
    """The text of known_hosts without the keys of these hosts. UsageError where it has lines that ssh cannot read."""
    with tempfile.TemporaryDirectory() as folder:  # ssh-keygen leaves what was there next to the new file
        copy = Path(folder) / "known_hosts"
        copy.write_text(known.read_text() if known.exists() else "")
        for host in hosts:
            done = _keygen("-R", host, "-f", str(copy))
            if wrong := _WRONG.findall(done.stderr):
                raise UsageError(f"{known}: ssh cannot read line {', '.join(wrong)}: remove it; nothing was changed")
        text = copy.read_text()
    return text if text.endswith("\n") or not text else f"{text}\n"


def shown(kind: str, print_: str) -> str:
    """A fingerprint with the key's kind, in the words of ssh."""
    return f"{_KINDS.get(kind, 'ECDSA' if kind.startswith('ecdsa') else kind)} {print_}"


def parse(line: str) -> Pin | None:
    """A line of known_hosts; None for comments, markers (`@revoked`) and what is no such line."""
    words = line.split()
    if len(words) < 3 or words[0].startswith(("#", "@")):
        return None
    return Pin(*words[:3])


def showing(config: Path, node: Node, pinned: Sequence[Pin], seconds: float) -> Pin:
    """The key that a host shows now, for the same algorithm as a pinned one where it has that.

    There is no login: the key comes before that. Jump hosts on the way are held to their pinned keys. RemoteError.
    """
    import paramiko

    name = openssh.known_as(openssh.settings(config, node), node.host)
    way = None
    transport: paramiko.Transport | None = None
    try:
        way = _way(config, node, seconds)
        transport = paramiko.Transport(way)
        transport.banner_timeout = seconds
        wanted = transport.get_security_options()
        kinds = {pin.kind for pin in pinned}
        wanted.key_types = sorted(wanted.key_types, key=lambda kind: _KIND.get(kind, kind) not in kinds)
        transport.start_client(timeout=seconds)
        key = transport.get_remote_server_key()
        return Pin(name, key.get_name(), key.get_base64())
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise _unseen(node, way, error, seconds) from None
    finally:
        if transport is not None:
            transport.close()
        if way is not None:
            way.close() if isinstance(way, socket.socket) else way.end()


def _way(config: Path, node: Node, seconds: float) -> "socket.socket | Process":
    from regatta.hosts.overssh import Process

    if command := openssh.proxy(config, node):
        return Process(command)
    found = openssh.settings(config, node)
    return socket.create_connection((found["hostname"], int(found["port"])), timeout=seconds)


def _unseen(node: Node, way: "socket.socket | Process | None", error: Exception, seconds: float) -> RemoteError:
    """Why a host shows no key: what ssh says where a jump host refuses, else that it does not answer."""
    said = None
    if way is not None and not isinstance(way, socket.socket):
        way.close()
        said = way.said()
    if said is not None:
        if "Host key verification failed" in said:
            return explain(node.name, node.host, said)
        return UnreachableError(node.name, f"{node.host} cannot be reached through its jump host ({said})")
    return UnreachableError(node.name, f"{node.host} shows no host key: no answer within {seconds:g} s ({error})")


def changed(name: str, host: str, shows: str, pinned: str) -> HostKeyError:
    """The one message about a key that is not the pinned one; `host` is its address, `name` what to forget."""
    return HostKeyError(
        name,
        f"the host key of {host} is not the pinned one: it shows {shows}, pinned is {pinned}. The "
        "host was reinstalled, or another host answers in its place. If you know why it changed: "
        f"'{about_hosts('forget', node=name)}'",
    )


def unknown(name: str, host: str) -> UnknownHostKeyError:
    """The one message about a host that answers and whose key is not pinned yet."""
    return UnknownHostKeyError(
        name,
        f"{host} answers, and its host key is not pinned yet: '{about_hosts('provision')}' pins it at first contact",
    )


def explain(name: str, host: str, stderr: str) -> HostKeyError:
    """Return what ssh means when it refuses a host key. The refused host may be a jump host on the way to the node."""
    if "HAS CHANGED" not in stderr:
        return unknown(name, host)
    shows, whose = _SHOWN.search(stderr), _WHOSE.search(stderr)
    refused = whose[1].rstrip(".,") if whose else host
    bare = refused[1:].partition("]")[0] if refused.startswith("[") else refused
    own = bare == host or bare == openssh.of_person(host).get("hostname")
    found = changed(
        name if own else refused, refused, shown(shows[1], shows[2]) if shows else "another", _pinned(stderr)
    )
    return found if own else HostKeyError(name, found.reason)


def _pinned(stderr: str) -> str:
    place = _PINNED.search(stderr)
    if not place:
        return "another"
    try:
        pin = parse(Path(place[1]).read_text().splitlines()[int(place[2]) - 1])
    except (OSError, IndexError, UnicodeDecodeError):
        return f"in {place[1]}, line {place[2]}"
    return pin.shown if pin else f"in {place[1]}, line {place[2]}"
