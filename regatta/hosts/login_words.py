"""The settings by which an inventory says how to log in: names that Regatta reads, and those that it refuses, by name.

Ansible and Regatta read the same inventory. A setting that only one of them would obey, or that would undo the pinned
host keys, is refused before anything connects.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_TAKES_WORD = frozenset("BbcDEeFIiJLlmOoPpQRSWw")
"""Short options of ssh with a value."""
_HOST_KEYS = frozenset(
    {
        "checkhostip",
        "globalknownhostsfile",
        "hostkeyalias",
        "knownhostscommand",
        "nohostauthenticationforlocalhost",
        "stricthostkeychecking",
        "updatehostkeys",
        "userknownhostsfile",
        "verifyhostkeydns",
    }
)
_KEYS_ONLY = "Regatta logs in with keys: leave it out, and name a key (ansible_ssh_private_key_file)"
_PINS = "the host keys of an inventory are pinned in its known_hosts: leave it out"
_VARIABLES = {
    "ansible_ssh_host": "write ansible_host",
    "ansible_ssh_user": "write ansible_user",
    "ansible_ssh_port": "write ansible_port",
    "ansible_private_key_file": "write ansible_ssh_private_key_file",
    "ansible_ssh_args": "write ansible_ssh_common_args: this would replace the configuration with the pinned host keys",
    "ansible_ssh_executable": "Regatta uses the ssh of PATH: leave it out",
    "ansible_password": _KEYS_ONLY,
    "ansible_ssh_pass": _KEYS_ONLY,
    "ansible_ssh_password": _KEYS_ONLY,
    "ansible_host_key_checking": _PINS,
    "ansible_ssh_host_key_checking": _PINS,
}
_FLAGS = frozenset({"-u", "--user", "-k", "--ask-pass", "-c", "--connection", "--private-key", "--key-file"}) | {
    *("--ssh-common-args", "--ssh-extra-args", "--sftp-extra-args", "--scp-extra-args")
}
_OF_INVENTORY = frozenset(
    {"ansible_host", "ansible_user", "ansible_port", "ansible_connection", "ansible_ssh_private_key_file"}
    | {"ansible_ssh_common_args", "ansible_ssh_extra_args"}
)
_ENVIRONMENT = (
    *("ANSIBLE_HOST_KEY_CHECKING", "ANSIBLE_SSH_HOST_KEY_CHECKING", "ANSIBLE_SSH_COMMON_ARGS"),
    *("ANSIBLE_SSH_EXTRA_ARGS", "ANSIBLE_REMOTE_USER", "ANSIBLE_REMOTE_PORT", "ANSIBLE_PRIVATE_KEY_FILE"),
    *("ANSIBLE_SSH_EXECUTABLE", "ANSIBLE_TRANSPORT"),
)
_CONNECTIONS = ("ssh", "smart", "ansible.builtin.ssh", "ansible.builtin.smart")


def refused(values: Mapping[str, Any]) -> str | None:
    """Return which variable of a host is refused, and what to write; None where none is."""
    for name, instead in _VARIABLES.items():
        if name in values:
            return f"{name}: {instead}"
    if (kind := values.get("ansible_connection", "ssh")) not in _CONNECTIONS:
        return f"ansible_connection is {kind}: Regatta reaches hosts by ssh: leave it out"
    return None


def refused_option(words: Sequence[str]) -> str | None:
    """Return which option of ssh is refused, and why; None where none is."""
    for letter, value in _options(words):
        if letter == "F":
            return f"-F {value}: it would replace the pinned host keys; name your configuration in REGATTA_SSH_CONFIG"
        name = value.replace("=", " ").split()[0] if value.strip(" =") else ""
        if letter == "o" and name.lower() in _HOST_KEYS:
            return f"{name}: {_PINS}; '{{forget}}' pins the key of a host that has changed"
    return None


def _options(words: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield the short options with a value in words of ssh, also where letters stand together (`-4qo Name=x`)."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in _TAKES_WORD:
                yield letter, word[at:] or (rest.pop(0) if rest else "")
                break


def given(words: Sequence[str], names: Iterable[str]) -> str | None:
    """Return which word for Ansible, or which of the variables that are given to it, says how to log in."""
    found = [word.partition("=")[0] for word in words if word.partition("=")[0] in _FLAGS]
    found += [name for name in names if name in _OF_INVENTORY or name in _VARIABLES]
    return f"{found[0]}: say in the inventory how to log in, where all commands read it" if found else None


def of_environment() -> str | None:
    """Return which variable of the environment only Ansible would obey."""
    found = next((name for name in _ENVIRONMENT if name in os.environ), None)
    return f"{found} is set, which only Ansible obeys: unset it, and say it in the inventory" if found else None
