"""A new inventory out of a person's words: read by the rules of `inventories`, written whole, never over another."""

import ipaddress
import os
import shlex
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from regatta import files
from regatta.errors import UsageError
from regatta.hosts import inventories, openssh

HOST, USER, KEY, ADDRESS = "ansible_host", "ansible_user", "ansible_ssh_private_key_file", "cluster_address"
_OF_SSH = {"hostname": HOST, "user": USER, "port": "ansible_port", "identityfile": KEY}
_WAYS = {"proxyjump": "-J {}", "proxycommand": "-o {}"}
_HEAD = """\
# Made by 'regatta init'. Edit it as you like; all variables: docs/reference/variables.md.
# ansible_host: where SSH reaches a host; cluster_address: its own IPv4 address in the network of the hosts.
# head: exactly one host, with the services; workers: the hosts that run ranks.
"""
_IGNORED = "secrets/\nssh_config*\n"
"""Files that git must not take: the secrets that provisioning puts next to the hosts, and files that are made."""


@dataclass
class Draft:
    """An inventory that is not there yet: variables of all hosts, and of each by its name."""

    name: str
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    head: str = ""
    head_only: bool = False

    def add(self, name: str, variables: Mapping[str, Any]) -> None:
        """Add a host. UsageError or InventoryError says why it cannot be one, and nothing is added."""
        tried = Draft(self.name, {**self.hosts, self.free(name): dict(variables)}, self.variables)
        tried.check()
        self.hosts = tried.hosts

    def free(self, name: str) -> str:
        """A name that a further host can have. UsageError where it cannot."""
        if name in self.hosts or not inventories.NAME.match(name):
            raise UsageError(
                f"{name} is a host already: give another name"
                if name in self.hosts
                else f"'{name}' cannot name a host: use letters, digits, '-', '_' and '.'"
            )
        return name

    def tried(self, variable: str, value: str) -> str:
        """A value that all hosts can have. InventoryError where it cannot be."""
        Draft(self.name, self.hosts, {**self.variables, variable: value}).check()
        return value

    def lacking(self, variable: str) -> list[str]:
        """The hosts that do not say it themselves."""
        return [name for name, own in self.hosts.items() if variable not in own]

    def check(self) -> None:
        """InventoryError where it contradicts itself, as when it is read."""
        groups = {group: {"hosts": list(hosts)} for group, hosts in self._groups().items()}
        told = {name: {**self.variables, **own} for name, own in self.hosts.items()}
        inventories.build(self.name, Path(), {"_meta": {"hostvars": told}, **groups})

    def text(self) -> str:
        """Its `hosts.yml`; what all hosts have alike is there once."""
        alike = {
            key: value
            for key, value in next(iter(self.hosts.values())).items()
            if all(own.get(key) == value for own in self.hosts.values()) and len(self.hosts) > 1
        }
        hosts = {name: {k: v for k, v in own.items() if k not in alike} for name, own in self.hosts.items()}
        children = {group: {"hosts": dict.fromkeys(names)} for group, names in self._groups().items()}
        variables = {key: value for key, value in {**alike, **self.variables}.items() if value != ""}
        whole = {"all": {"vars": variables, "hosts": hosts, "children": children}}
        return _HEAD + yaml.safe_dump(whole, sort_keys=False, default_flow_style=None, width=200)

    def write(self, parent: Path) -> Path:
        """Write it as a folder of `parent`, in one step; returns the folder. UsageError where one is there by now."""
        self.check()
        files.make_folder(parent)
        with tempfile.TemporaryDirectory(dir=parent, prefix=".", ignore_cleanup_errors=True) as made:
            folder = Path(made) / self.name
            folder.mkdir()
            files.create(folder / "hosts.yml", self.text())
            files.create(folder / ".gitignore", _IGNORED)
            free(parent, self.name)
            files.put(folder, parent / self.name)
        return parent / self.name

    def _groups(self) -> dict[str, list[str]]:
        head = self.head or next(iter(self.hosts), "")
        return {"head": [head], "workers": [name for name in self.hosts if not self.head_only or name != head]}


def free(parent: Path, name: str) -> str:
    """A name that a new inventory of `parent` can have. UsageError where it cannot."""
    if not inventories.NAME.match(name):
        raise UsageError(f"'{name}' cannot name an inventory: use letters, digits, '.', '_' and '-'")
    if os.path.lexists(parent / name):
        raise UsageError(f"{parent / name} is there already, and is left as it is: choose another name")
    return name


def host(words: str) -> tuple[str, dict[str, Any]]:
    """A host's name ('' where none is known) and variables, out of `[NAME=][USER@]ADDRESS[:PORT][,CLUSTER_ADDRESS]`.

    ADDRESS may be an alias in `~/.ssh/config`: ssh is asked what that says of it.
    """
    name, _, rest = words.strip().rpartition("=")
    where, _, own = rest.partition(",")
    user, _, address = where.strip().rpartition("@")
    port = ""
    if address.count(":") == 1:
        address, _, port = address.partition(":")
    known = {HOST: address, **_of_ssh(address)}
    known |= {key: value for key, value in ((USER, user), ("ansible_port", port), (ADDRESS, own.strip())) if value}
    if str(known.get("ansible_port", "")).isdecimal():
        known["ansible_port"] = int(known["ansible_port"])
    return name or ("" if _is_address(address) else address.partition(".")[0]), known


def login(address: str) -> str:
    """As whom ssh logs in where nothing is configured."""
    return openssh.asked(address).get("user", "root")


def network_address(address: str) -> str:
    """The IPv4 address by which a host is known here; '' where it is not."""
    with suppress(OSError, UnicodeError):
        return address if _is_address(address) else socket.gethostbyname(address)
    return ""


def _is_address(text: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(text))
    return False


def _of_ssh(address: str) -> dict[str, Any]:
    """The settings of a person's ssh for an address that it would not have by itself, as variables."""
    own = openssh.of_person(address)
    found = {variable: own[key] for key, variable in _OF_SSH.items() if key in own}
    for key, way in _WAYS.items():
        if key in own:
            value = own[key] if key == "proxyjump" else shlex.quote(f"ProxyCommand={own[key]}")
            found["ansible_ssh_common_args"] = way.format(value)
    return found
