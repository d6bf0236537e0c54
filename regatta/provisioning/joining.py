"""`regatta join` and `regatta pull`: an inventory made from what a cluster's head keeps, and brought up to date."""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import yaml

from regatta import files
from regatta.errors import DeclinedError, HostKeyError, PrivilegeError, RegattaError, UsageError
from regatta.hosts import drafts, hostkeys, inventories, openssh, sshconfig
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.hostkeys import Pin
from regatta.hosts.remote import Remote
from regatta.program import about_hosts, hint
from regatta.provisioning import adopting, definition, secrets
from regatta.provisioning.definition import OWN, REPLACED
from regatta.terminal.confirm import confirmed
from regatta_protocol.operations.hosts import Definition, Member

KEPT = "/etc/regatta/cluster.json"
"""Where a head keeps the definition."""
MEMBER = "regatta_member"
"""The variable of a login that has no sudo but for the gate."""
_SECONDS = 30.0
_HEAD = """\
# Your own variables of this cluster, such as your login: they win over hosts.yml, and stay in this copy.
"""
_IGNORED = f"secrets/\nssh_config*\n{OWN}\n{definition.NOTE}\n*{REPLACED}\n"


@dataclass(frozen=True)
class Joined:
    """The inventory that a join has made, the login, and whether that is a member's, without sudo."""

    folder: Path
    kept: Definition
    user: str
    member: bool


def join(where: str, name: str | None, key: str | None, fingerprint: str | None, parent: Path) -> Joined:
    """Make an inventory of the cluster with this head, over the person's own login.

    Raises UsageError, HostKeyError where the host shows another key than a known one, RemoteError.
    """
    if name:
        _free(parent, name)
    _, variables = drafts.host(where)
    user = variables.get(drafts.USER) or drafts.login(variables[drafts.HOST])
    way: Mapping[str, Any] = {**variables, drafts.USER: user, drafts.KEY: key or variables.get(drafts.KEY, "")}
    files.make_folder(parent)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".join-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        cluster = _alone(way, folder)
        pin = _trusted(cluster, fingerprint)
        files.write(folder / "known_hosts", f"{pin.text}\n")
        member, way = _ask(cluster, way)
        kept = _kept(cluster, member, hint("join", "USER@HEAD"))
        if not any((pin.kind, pin.key) == (one.kind, one.key) for one in definition.pins_of(kept.pins)):
            raise HostKeyError(
                cluster.head.name,
                f"its key {pin.shown} is not among those that the cluster {kept.name} has pinned: whoever has the "
                f"inventory looks at the host, and runs '{about_hosts('forget', node=kept.head)}', then "
                f"'{about_hosts('provision')}'",
            )
        own = name or kept.name
        _free(parent, own)
        new = folder / own
        new.mkdir()
        _write(new, member, kept, way, pin)
        files.put(new, parent / own)
    return Joined(parent / own, kept, user, MEMBER in way)


def _free(parent: Path, name: str) -> None:
    """Raise UsageError where an inventory of that name cannot be made."""
    if (parent / name / "hosts.yml").exists():
        raise UsageError(
            f"{parent / name} is there already, and is left as it is: "
            f"'{hint('pull', f'--inventory {parent / name}')}' brings it up to date, or give another name"
        )
    drafts.free(parent, name)


def _alone(variables: Mapping[str, Any], folder: Path) -> Cluster:
    """The head as a cluster of its own, which is asked for all else."""
    host = str(variables[drafts.HOST])
    told = {"cluster_address": "127.0.0.1", **variables}
    groups = {group: {"hosts": [host]} for group in ("head", "workers")}
    return inventories.build(host, folder, {"_meta": {"hostvars": {host: told}}, **groups})


def _trusted(cluster: Cluster, fingerprint: str | None) -> Pin:
    """The key that the head shows, once a person, or this person's ssh, trusts it."""
    node = cluster.head
    config = sshconfig.write(cluster.folder, cluster.nodes, accept_new=False)
    found = openssh.settings(config, node)
    known = _known(node)
    pin = hostkeys.showing(config, node, known, _SECONDS)
    known = [one for one in known if one.kind == pin.kind]
    print(f"{node.host} shows the key {pin.shown}", flush=True)
    if any(one.key == pin.key for one in known):
        print("Your ssh knows it.", flush=True)
    elif known:
        raise HostKeyError(
            node.name,
            f"it shows {pin.shown}, and your ssh knows {known[0].shown}: the host was installed again, or another one "
            f"answers. If you know why: ssh-keygen -R '{known[0].names}'",
        )
    elif fingerprint:
        if fingerprint.split()[-1] != pin.shown.split()[-1]:
            raise HostKeyError(node.name, f"it shows {pin.shown}, and not {fingerprint}: another host may answer")
    elif not sys.stdin.isatty():
        raise UsageError(
            f"there is no terminal to ask on whether that is right: compare it with what 'ssh-keygen -lf' says of the "
            f"key in /etc/ssh there, and add --fingerprint {pin.shown.split()[-1]}"
        )
    elif not confirmed(f"trust that key of {node.host}; compare it with what its console says", False):
        raise DeclinedError("not confirmed; nothing was written")
    return replace(pin, names=openssh.known_as(found, node.host))


def _known(node: Node) -> list[Pin]:
    """The keys of a host that this person's own ssh knows."""
    own = ["-F", openssh.file_of_person()] if os.environ.get("REGATTA_SSH_CONFIG") else []
    found = openssh.asked(node.host, *own, *(["-p", str(node.port)] if node.port else []))
    name = openssh.known_as(found, node.host)
    known = [Path(word).expanduser() for word in found.get("userknownhostsfile", "").split()]
    return [pin for file in known if file.is_file() for pin in hostkeys.find(file, (name,))]


def _ask(cluster: Cluster, way: Mapping[str, Any]) -> tuple[Member, Mapping[str, Any]]:
    """What the head says, and the variables of the login: a member's, where it has only the gate."""
    try:
        return _answer(cluster), way
    except PrivilegeError as refused:
        way = {**way, MEMBER: True}
        try:
            return _answer(_alone(way, cluster.folder)), way
        except PrivilegeError:
            raise refused from None


def _answer(cluster: Cluster) -> Member:
    remote = Remote(cluster, alone=True)
    try:
        return remote.call(cluster.head, adopting.wanted())
    finally:
        remote.close()


def _kept(cluster: Cluster, member: Member, again: str) -> Definition:
    """The definition that a head keeps. UsageError where it keeps none."""
    host = cluster.head.name
    if member.kept:
        return member.kept
    if not member.cluster:
        raise UsageError(f"{host} is no head: it was not provisioned. Name the head of the cluster: '{again}'")
    if "head" not in member.roles:
        raise UsageError(
            f"{host} is a member of {member.cluster}, and not its head, which is {member.head}: "
            f"'{hint('join', f'USER@{member.head}')}'"
        )
    raise UsageError(
        f"{host} keeps no definition of {member.cluster}: whoever has its inventory runs "
        f"'{about_hosts('provision')}' once"
    )


def _write(folder: Path, member: Member, kept: Definition, way: Mapping[str, Any], pin: Pin) -> None:
    """Write a copy whole; `way` is how this person reaches the head."""
    for name, text in kept.files.items():
        _put(folder, name, text)
    files.write(folder / "known_hosts", definition.merged(f"{pin.text}\n", kept.pins))
    files.write(folder / ".gitignore", _IGNORED)
    more = {} if folder.name == kept.name else {"vars": {"regatta_cluster": kept.name}}
    login = {name: way[name] for name in (drafts.USER, drafts.KEY, MEMBER) if name in way}
    _own(folder, {**more, "hosts": {host: {**(way if host == kept.head else login)} for host in kept.hosts}})
    for name, text in member.held.items():
        secrets.put(folder, name, text, kept.name)
    definition.put_note(folder, kept)


def _own(folder: Path, all_: Mapping[str, Any]) -> None:
    text = yaml.safe_dump({"all": dict(all_)}, sort_keys=False, default_flow_style=False, width=200)
    files.write(folder / OWN, _HEAD + text, 0o600)


def _put(folder: Path, name: str, text: str) -> None:
    """Write one file of an inventory below its folder, and nowhere else."""
    path = folder / name
    if ".." in path.parts or not path.is_relative_to(folder):
        raise RegattaError(f"the head names a file '{name}', which is in no inventory: look at {KEPT} there")
    files.make_folder(path.parent)
    files.write(path, text)


def pull(inventory: Path, cluster: Cluster, *, yes: bool, told: TextIO) -> Sequence[str]:
    """Bring a copy up to date with its head; what differs is `told`, and what was replaced returned.

    Raises RegattaError, DeclinedError.
    """
    remote = Remote(cluster)
    member = remote.call(cluster.head, adopting.wanted())
    kept, folder = _kept(cluster, member, hint("pull", "--inventory INVENTORY")), cluster.folder
    mine = secrets.held(folder)
    others = adopting.other(mine, member.held)
    lacking = [name for name in member.held if name not in mine]
    own, _ = definition.of(cluster, inventory)
    noted = definition.note(folder)
    found = definition.differences(own, kept, noted) if own else []
    lines = [*found, *(f"{name}: another one on the head" for name in others)]
    if lines:
        head = f"{cluster.name}, {definition.when(kept)}; here (-) and on the head (+):"
        print(head, *lines, sep="\n  ", file=told, flush=True)
        if not confirmed(f"replace these in {folder}; replaced files stay beside them as FILE{REPLACED}", yes):
            raise DeclinedError("not confirmed; nothing was changed")
    for name in [*others, *lacking]:
        secrets.put(folder, name, member.held[name])
    if found and own:
        _replace(inventory, definition.newer(own, kept, noted), kept)
    definition.accept_pins(folder, kept)
    definition.put_note(folder, kept)
    return [*lines, *(f"{name}: was missing" for name in lacking)]


def _replace(inventory: Path, names: Sequence[str], kept: Definition) -> None:
    if not inventory.is_dir():
        raise UsageError(
            f"{inventory} is a single file, which pull does not replace: '{hint('join', 'USER@HEAD NAME')}' makes a "
            "folder of what the head keeps"
        )
    for name in names:
        path = inventory / name
        if path.exists():
            path.replace(path.with_name(f"{path.name}{REPLACED}"))
        if name in kept.files:
            _put(inventory, name, kept.files[name])
    mine = inventory / OWN
    if mine.is_file():
        _follow(inventory, kept)


def _follow(inventory: Path, kept: Definition) -> None:
    """Give hosts that are new the login of the others, and forget those that have left."""
    said = yaml.safe_load((inventory / OWN).read_text()) or {}
    all_ = dict(said.get("all") or {})
    hosts = dict(all_.get("hosts") or {})
    usual = next((dict(one) for one in hosts.values() if one), {})
    _own(inventory, {**all_, "hosts": {host: hosts.get(host, usual) for host in kept.hosts}})
