"""Names in an inventory that nothing reads, because they are misspelt: hosts, groups, keys of YAML, variables."""

import difflib
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import yaml

from regatta import paths
from regatta.hosts import limits

HOST_VARIABLES = frozenset(
    {
        "ansible_connection",
        "ansible_host",
        "ansible_port",
        "ansible_user",
        "ansible_ssh_private_key_file",
        "ansible_ssh_common_args",
        "ansible_ssh_extra_args",
        "cluster_address",
        "regatta_cluster",
        "regatta_frameworks",
        "regatta_member",
        "regatta_root",
        "regatta_state",
        "regatta_python",
        *limits.VARIABLES,
    }
)
_MONITORING = "monitoring_enabled"
# Variables of Ansible's own that look like one of the above.
_ANSIBLES = {
    "ansible_collections", "ansible_connection_user", "ansible_hostname", "ansible_private_key_file",
    "ansible_scp_extra_args", "ansible_sftp_extra_args", "ansible_ssh_host", "ansible_ssh_port",
    "ansible_ssh_args", "ansible_ssh_private_key", "ansible_ssh_user", "ansible_su_user",
}  # fmt: skip
_NOT_GROUPS = ("_meta", "all", "ungrouped")
_CLOSE = 0.85
_LIKE = 0.7
_SKIPPED = re.compile(
    r"Skipping (?:unexpected key \((?P<key>.*?)\) in group \((?P<group>.*?)\)|'(?P<bare>.*?)' as)", re.S
)


@cache
def known_variables() -> frozenset[str]:
    """Variables that Regatta reads: those of hosts, and those that the roles' argument specs name."""
    found = {*HOST_VARIABLES, _MONITORING}
    for file in sorted((paths.PROJECT / "ansible/roles").glob("*/meta/argument_specs.yml")):
        found |= set(yaml.safe_load(file.read_text())["argument_specs"]["main"]["options"])
    return frozenset(found)


def variables(names: Iterable[str]) -> dict[str, str]:
    """{misspelt: the known name that is meant}. Names that are like no known one are a person's own."""
    known = known_variables()
    unknown = {name for name in names if name not in known | _ANSIBLES}
    return {name: near for name in sorted(unknown) if (near := _nearest(name, known, _CLOSE))}


def problems(listing: Mapping[str, Any]) -> list[str]:
    """Return what `ansible-inventory --list` answers, looked through: a sentence for each name that cannot be meant."""
    hostvars: Mapping[str, Mapping[str, Any]] = listing.get("_meta", {}).get("hostvars", {})
    found = _groups(listing) + _hosts(listing, hostvars)
    hosts_of: dict[str, list[str]] = {}
    for host, values in hostvars.items():
        for name in values:
            hosts_of.setdefault(name, []).append(host)
    for name, near in variables(hosts_of).items():
        found.append(f"{', '.join(hosts_of[name])}: nothing reads the variable {name}; did you mean {near}?")
    return found


def skipped(stderr: str) -> list[str]:
    """Return what Ansible left out of a YAML inventory with no more than a warning: a misspelt `hosts`, `vars`,
    `children`.
    """
    text = re.sub(r"\s*\n\s*", " ", stderr)
    found = []
    for match in _SKIPPED.finditer(text):
        if name := match["bare"]:
            found.append(f"'{name}' is no group: a group is a mapping with hosts, vars or children")
        else:
            near = _nearest(match["key"], ("hosts", "vars", "children"), 0.5)
            meant = f"; did you mean {near}?" if near else ": only hosts, vars and children may be there"
            found.append(f"group {match['group']} has the key '{match['key']}', which nothing reads{meant}")
    return found


def arguments(words: Sequence[str]) -> dict[str, str]:
    """As `variables`, of those that are given to Ansible as `-e name=value` or as JSON."""
    return variables(given_names(words))


def given_names(words: Sequence[str]) -> list[str]:
    """The variables that are given to Ansible."""
    given: list[str] = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word in ("-e", "--extra-vars"):
            text = following
        elif word.startswith("--extra-vars="):
            text = word.partition("=")[2]
        elif word.startswith("-e"):
            text = word[2:]
        else:
            continue
        given += _names(text)
    return given


def _names(text: str) -> list[str]:
    if text.lstrip().startswith("@"):
        return []
    try:
        if text.lstrip().startswith("{"):
            return [str(name) for name in json.loads(text)]
        return [word.partition("=")[0] for word in shlex.split(text) if "=" in word]
    except ValueError:
        return []


def _groups(listing: Mapping[str, Any]) -> list[str]:
    others = [name for name in listing if name not in (*_NOT_GROUPS, "head", "workers")]
    return [
        f"there is no group '{wanted}', but a group '{near}'; did you mean {wanted}?"
        for wanted in ("head", "workers")
        if wanted not in listing and (near := _nearest(wanted, others, _LIKE))
    ]


def _hosts(listing: Mapping[str, Any], hostvars: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Members that only a group names, next to a host of almost that name that has its own variables.

    Where that other one is a member, too, ours may be meant as it is if it has an address.
    """
    idle = listing.get("ungrouped", {}).get("hosts", [])
    described = [host for host in hostvars if _own(host, hostvars)]
    found = []
    for group in ("head", "workers"):
        for host in listing.get(group, {}).get("hosts", []):
            near = _nearest(host, described, _LIKE)
            if host in described or not near or (near not in idle and _has_address(hostvars.get(host, {}))):
                continue
            found.append(f"{host} is in {group}, but not below hosts; did you mean {near}?")
    return found


def _has_address(values: Mapping[str, Any]) -> bool:
    return "cluster_address" in values or "ansible_host" in values or values.get("ansible_connection") == "local"


def _own(host: str, hostvars: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Names of the variables of a host that not all hosts have with the same value."""
    mine = hostvars.get(host, {})
    others = [values for name, values in hostvars.items() if name != host]
    return {name for name, value in mine.items() if not all(name in o and o[name] == value for o in others)}


def _nearest(name: str, among: Iterable[str], cutoff: float) -> str:
    found = difflib.get_close_matches(name, [other for other in among if other != name], 1, cutoff)
    return found[0] if found else ""
