"""Host keys: what an inventory has pinned, what a host shows, and what a person is told where they differ."""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass
from pathlib import Path

from regatta.errors import HostKeyError, UnknownHostKeyError

_SHOWN = re.compile(r"fingerprint for the (\S+) key sent by the remote host is\s+(SHA256:[A-Za-z0-9+/]+)")
_PINNED = re.compile(r"Offending (?:key for IP|\S+ key) in (\S.*):(\d+)")
_WHOSE = re.compile(r"[Hh]ost key for (\S+) has changed")
_KINDS = {"ssh-ed25519": "ED25519", "ssh-rsa": "RSA", "ssh-dss": "DSA"}


@dataclass(frozen=True)
class Pin:
    """A line of known_hosts: who (names, or one hashed name), which kind of key, the key as base64."""

    names: str
    kind: str
    key: str

    @property
    def text(self) -> str:
        """The line as it stands in the file."""
        return f"{self.names} {self.kind} {self.key}"

    @property
    def shown(self) -> str:
        """The key as `ssh-keygen -l` shows it: `ED25519 SHA256:...`."""
        return shown(self.kind, fingerprint(self.key))

    def names_one_of(self, hosts: tuple[str, ...]) -> bool:
        """Whether the line is about one of these hosts (`address` or `[address]:port`)."""
        if self.names.startswith("|1|"):
            return any(_hashed(self.names, host) for host in hosts)
        return bool(set(self.names.split(",")) & set(hosts))


def _hashed(names: str, host: str) -> bool:
    """Whether `|1|salt|digest` is a host's name, as ssh writes it with HashKnownHosts."""
    try:
        salt, digest = (base64.b64decode(part) for part in names[3:].split("|"))
    except ValueError:
        return False
    return hmac.compare_digest(hmac.digest(salt, host.encode(), "sha1"), digest)


def fingerprint(key: str) -> str:
    """`SHA256:...` of a public key given as base64; of one that is none, `(unreadable)`."""
    try:
        digest = hashlib.sha256(base64.b64decode(key, validate=True)).digest()
    except ValueError:
        return "(unreadable)"
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def shown(kind: str, print_: str) -> str:
    """A fingerprint with the key's kind, in the words of ssh."""
    return f"{_KINDS.get(kind, 'ECDSA' if kind.startswith('ecdsa') else kind)} {print_}"


def parse(line: str) -> Pin | None:
    """A line of known_hosts; None for comments, markers (`@revoked`) and what is no such line."""
    words = line.split()
    if len(words) < 3 or words[0].startswith(("#", "@")):
        return None
    return Pin(*words[:3])


def names_of(host: str, port: int | None) -> tuple[str, ...]:
    """What known_hosts may call a host."""
    return (host,) if port in (None, 22) else (f"[{host}]:{port}",)


def changed(name: str, host: str, shows: str, pinned: str) -> HostKeyError:
    """The one message about a key that is not the pinned one; `host` is its address, `name` what to forget."""
    return HostKeyError(
        name,
        f"the host key of {host} is not the pinned one: it shows {shows}, pinned is {pinned}. Somebody may be in "
        f"between, or the host was made anew. If you know why it changed: 'make forget NODE={name}'",
    )


def unknown(name: str, host: str) -> UnknownHostKeyError:
    """The one message about a host that answers and whose key is not pinned yet."""
    return UnknownHostKeyError(
        name, f"{host} answers, and its host key is not pinned yet: 'make provision' pins it at first contact"
    )


def explain(name: str, host: str, stderr: str) -> HostKeyError:
    """What ssh means when it refuses a host key. The refused host may be a jump host on the way to the node."""
    if "HAS CHANGED" not in stderr:
        return unknown(name, host)
    shows, whose = _SHOWN.search(stderr), _WHOSE.search(stderr)
    refused = whose[1].rstrip(".,") if whose else host
    bare = refused[1:].partition("]")[0] if refused.startswith("[") else refused
    found = changed(
        name if bare == host else refused, refused, shown(shows[1], shows[2]) if shows else "another", _pinned(stderr)
    )
    return found if bare == host else HostKeyError(name, found.reason)


def _pinned(stderr: str) -> str:
    place = _PINNED.search(stderr)
    if not place:
        return "another"
    try:
        pin = parse(Path(place[1]).read_text().splitlines()[int(place[2]) - 1])
    except (OSError, IndexError, UnicodeDecodeError):
        return f"in {place[1]}, line {place[2]}"
    return pin.shown if pin else f"in {place[1]}, line {place[2]}"
