"""The definition of a cluster that its head keeps for further controllers, and how a controller's copy differs."""

import difflib
import hashlib
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from regatta import files
from regatta.errors import RegattaError
from regatta.frameworks import registry
from regatta.hosts import hostkeys, limits, openssh
from regatta.hosts.cluster import Cluster
from regatta.hosts.hostkeys import Pin
from regatta.hosts.remote import Remote, ourselves
from regatta.program import hint
from regatta.provisioning import secrets
from regatta_protocol.operations.hosts import Definition, KeepDefinition

OWN = "own.yml"
"""Variables of one person's copy, such as the login: they stay there."""
NOTE = ".cluster.json"
"""Note of a copy: the cluster's name, and sums of the definition that it was last equal to."""
REPLACED = "~"
"""End of the name of a file that a pull has replaced; Ansible does not read it."""
_LEFT_OUT = re.compile(r"\.|ssh_config|known_hosts$|secrets$|own\.yml$|.*~$|.*\.new$")
_PASSWORD = re.compile(r"ansible_(?:become_password|become_pass|sudo_pass)[\"']?\s*[:=]\s*(?![\"']?\{\{|!vault|\s)")
_VARIABLES = ("group_vars", "host_vars")
_MOST_BYTES = 1 << 20
_MOST_LINES = 12


def of(cluster: Cluster, inventory: Path) -> tuple[Definition | None, list[str]]:
    """The definition as this copy has it, and lines about what is left out of it; None where it cannot be kept."""
    texts, notes = _texts(inventory)
    if wrong := [name for name, text in texts.items() if _PASSWORD.search(text)]:
        why = f"{', '.join(wrong)} has sudo's password in the clear"
    elif sum(map(len, texts.values())) > _MOST_BYTES:
        why = f"the inventory has more than {_MOST_BYTES >> 20} MiB"
    elif not any("/" not in name for name in texts):
        why = "a program makes the inventory"
    else:
        name = note(cluster.folder).get("name") or cluster.name
        hosts = tuple(node.name for node in cluster.everybody)
        pins = "".join(f"{pin.text}\n" for pin in pins_of(_text(cluster.folder / "known_hosts")))
        said = (ourselves(), time.time(), metadata.version("regatta"))
        secret = secrets.held(cluster.folder)
        kept = Definition(name, cluster.head.name, hosts, texts, pins, secret, (), *said, for_members(cluster))
        return kept, notes
    return None, [*notes, f"{cluster.name}: its head keeps no definition for further controllers: {why}"]


def for_members(cluster: Cluster) -> str:
    """The inventory that people without sudo get: how hosts are reached, and where things are on them, no more."""
    hosts: dict[str, dict[str, Any]] = {
        node.name: {
            "ansible_host": node.host,
            **({"ansible_port": node.port} if node.port else {}),
            "cluster_address": node.cluster_address,
            "regatta_root": node.root,
            "regatta_state": node.state,
            "regatta_python": node.python,
            **limits.variables(node.limits),
        }
        for node in cluster.everybody
    }
    served = [one.name for one in registry.every() if one.served(cluster) and one.foreign(cluster) is None]
    hosts[cluster.head.name]["regatta_frameworks"] = served
    workers = [node.name for node in cluster.workers]
    groups = {"head": [cluster.head.name], "workers": [name for name in hosts if name in workers]}
    children = {group: {"hosts": dict.fromkeys(names)} for group, names in groups.items()}
    return yaml.safe_dump({"all": {"hosts": hosts, "children": children}}, sort_keys=False, width=200)


def _texts(inventory: Path) -> tuple[dict[str, str], list[str]]:
    """The texts of an inventory by path, and lines about the files that are left out."""
    folder = inventory if inventory.is_dir() else inventory.parent
    whole = [folder] if inventory.is_dir() else [folder / name for name in _VARIABLES]
    found = sorted(file for place in whole for file in place.rglob("*") if file.is_file())
    texts, notes = dict[str, str](), list[str]()
    for file in found if inventory.is_dir() else [inventory, *found]:
        parts = file.relative_to(folder).parts
        if any(_LEFT_OUT.match(part) for part in parts):
            continue
        name = "/".join(parts)
        if file == inventory:  # in a folder Ansible reads no .ini and .cfg
            name = "hosts.yml" if file.suffix in (".yml", ".yaml") else "hosts"
        text = file.read_bytes().decode("utf-8", "replace")
        if os.access(file, os.X_OK) or "\ufffd" in text or "PRIVATE KEY-----" in text:
            notes.append(f"{file}: a program, a private key or no text: its head does not keep it")
        else:
            texts[name] = text
    return texts, notes


def newer(own: Definition, kept: Definition, noted: Mapping[str, Any]) -> list[str]:
    """Files of a copy that differ from what the head keeps, and are not edits of this copy alone."""
    sums = noted.get("files")
    names = sorted(name for name in {*own.files, *kept.files} if own.files.get(name) != kept.files.get(name))
    return [name for name in names if sums is None or sums.get(name) != _sum(kept.files.get(name))]


def differences(own: Definition, kept: Definition, noted: Mapping[str, Any]) -> list[str]:
    """Lines that say how a copy (-) differs from what another controller has brought to the head since (+)."""
    found = []
    for name in newer(own, kept, noted):
        here, there = own.files.get(name), kept.files.get(name)
        lines = [*difflib.unified_diff((here or "").splitlines(), (there or "").splitlines(), lineterm="", n=0)]
        changes = [line for line in lines[2:] if not line.startswith("@@")]
        found.append(f"{name}{': only here' if there is None else ': only on the head' if here is None else ':'}")
        found += [f"  {line}" for line in changes[:_MOST_LINES]]
        found += [f"  and {more} more lines"] if (more := len(changes) - _MOST_LINES) > 0 else []
    for mine, theirs in conflicts(own, kept) if noted.get("pins") != _sum(kept.pins) else ():
        found.append(f"host key of {mine.names}: {mine.shown} here, {theirs.shown} on the head")
    return found


def pins_of(text: str) -> list[Pin]:
    """The keys of a text of known_hosts."""
    return list(dict.fromkeys(pin for line in text.splitlines() if (pin := hostkeys.parse(line))))


def conflicts(own: Definition, kept: Definition) -> list[tuple[Pin, Pin]]:
    """Keys of a copy that are not those which the head keeps for the same host."""
    theirs = _by_name(pins_of(kept.pins))
    pairs = [(mine, theirs.get(known)) for known, mine in _by_name(pins_of(own.pins)).items()]
    return list(dict.fromkeys((mine, other) for mine, other in pairs if other and mine.key != other.key))


def merged(own: str, kept: str) -> str:
    """The text of known_hosts with what the head keeps, and what only this copy has."""
    theirs, text = _by_name(pins_of(kept)), "".join(f"{pin.text}\n" for pin in pins_of(kept))
    for pin in pins_of(own):
        if names := [name for name in pin.names.split(",") if (name, pin.kind) not in theirs]:
            text += f"{Pin(','.join(names), pin.kind, pin.key).text}\n"
    return text


def _by_name(pins: Sequence[Pin]) -> dict[tuple[str, str], Pin]:
    """Keys by each name of a host and their kind."""
    return {(name, pin.kind): pin for pin in pins for name in pin.names.split(",")}


def mark(kept: Definition) -> str:
    """The sum of what two copies must have alike."""
    alike = [kept.files, sorted(kept.pins.splitlines()), kept.secrets, sorted(kept.accounts), kept.member]
    return str(_sum(json.dumps(alike, sort_keys=True)))


def _sum(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


def note(folder: Path) -> Mapping[str, Any]:
    """What is noted of a copy."""
    try:
        return dict(json.loads((folder / NOTE).read_text()))
    except (OSError, ValueError):
        return {}


def put_note(folder: Path, kept: Definition) -> None:
    """Note that a copy is equal to what the head keeps, or differs from it by its own edits."""
    sums = {name: _sum(text) for name, text in kept.files.items()}
    files.write(
        folder / NOTE, json.dumps({"name": kept.name, "mark": mark(kept), "files": sums, "pins": _sum(kept.pins)})
    )


def must_be_current(cluster: Cluster, inventory: Path, kept: Definition) -> None:
    """Raise RegattaError where another controller has changed the definition since this copy was equal to it."""
    noted = note(cluster.folder)
    if noted.get("mark") == mark(kept):
        return
    own, _ = of(cluster, inventory)
    if own is None:
        return
    if found := differences(own, kept, noted):
        raise RegattaError(
            f"{cluster.name}: the copy in {cluster.folder} is older than the cluster ({when(kept)}):\n  "
            + "\n  ".join(found)
            + f"\n'{hint('pull')}' brings it up to date. Nothing was changed"
        )
    accept_pins(cluster.folder, kept)
    put_note(cluster.folder, kept)


def accept_pins(folder: Path, kept: Definition) -> None:
    """Pin what the head keeps."""
    known = folder / "known_hosts"
    if (text := merged(_text(known), kept.pins)) != _text(known):
        files.write(known, text)


def keep(cluster: Cluster, inventory: Path, kept: Definition | None) -> list[str]:
    """Let the head keep the definition of this copy, if it has another; returns lines for the user. RemoteError.

    `kept`: what the head has; accounts of those who have provisioned before stay.
    """
    own, notes = of(cluster, inventory)
    if own is None:
        return notes
    remote = Remote(cluster)
    login = openssh.settings(remote.config, cluster.head).get("user", "root")
    own = own.changed(accounts=tuple(sorted({*(kept.accounts if kept else ()), login})))
    if kept is None or mark(kept) != mark(own):
        remote.call(cluster.head, KeepDefinition(own))
        put_note(cluster.folder, own)
    return notes


def when(kept: Definition) -> str:
    """Who has provisioned last, when, by which version."""
    at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(kept.at))
    here = metadata.version("regatta")
    other = f", by Regatta {kept.regatta}; this is {here}" if kept.regatta != here else ""
    return f"provisioned by {kept.by} at {at}{other}"


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""
