"""Host keys: what an inventory has pinned, what a host shows, and the message where they differ."""

import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regatta.errors import HostKeyError, UnknownHostKeyError, UsageError
from regatta.program import about_hosts

_SHOWN = re.compile(r"fingerprint for the (\S+) key sent by the remote host is\s+(SHA256:[A-Za-z0-9+/]+)")
_PINNED = re.compile(r"Offending (?:key for IP|\S+ key) in (\S.*):(\d+)")
_WHOSE = re.compile(r"[Hh]ost key for (\S+) has changed")
_PRINTED = re.compile(r"\d+ (SHA256:\S+) .*\((\S+)\)$")
_WRONG = re.compile(r":(\d+): invalid line")
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
        said = _PRINTED.match(_keygen("-l", "-f", "-", text=f"{self.kind} {self.key}\n").stdout.strip())
        return f"{said[2]} {said[1]}" if said else shown(self.kind, "(unreadable)")


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


def names_of(host: str, port: int | None) -> tuple[str, ...]:
    """Return what known_hosts may call a host."""
    return (host,) if port in (None, 22) else (f"[{host}]:{port}",)


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
