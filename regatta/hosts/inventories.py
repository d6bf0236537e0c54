"""An inventory as values: `load(path)` -> `Cluster`.

Ansible reads the inventory (`ansible-inventory --list`); its answer is cached under the hash of the
inventory's files, because asking takes about a second.
"""

import contextlib
import hashlib
import ipaddress
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from regatta import files, paths
from regatta.errors import InventoryError
from regatta.hosts import inventory_lint, login_words, sudo
from regatta.hosts import limits as run_limits
from regatta.hosts.cluster import Cluster, Node
from regatta.program import about_hosts, hint, in_checkout, setup

DEFAULT_INVENTORY = "inventory/lab"
_NOT_INVENTORY = {"known_hosts", "secrets", ".logs", ".cluster.json"}
_ANSWER = 180.0
"""Seconds for ansible-inventory, which takes one where nothing else runs."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_HOST = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9._:%-]*\Z")
_USER = re.compile(r"[^-\s\"'\x00-\x1f][^\s\"'\x00-\x1f]*\Z")


def choose(inventory: str | None) -> Path:
    """The inventory that a command uses: the argument, `$REGATTA_INVENTORY`, `$INVENTORY` or inventory/lab.

    A relative path is looked for in the current folder, then in Regatta's own; a name also in their `inventory/`.
    """
    wanted = inventory or os.environ.get("REGATTA_INVENTORY") or os.environ.get("INVENTORY") or DEFAULT_INVENTORY
    folders = (Path(), paths.PROJECT)
    named = [folder / "inventory" / wanted for folder in folders if "/" not in wanted]
    for candidate in (*named, *(folder / Path(wanted).expanduser() for folder in folders)):
        if candidate.exists():
            return candidate.resolve()
    raise InventoryError(f"there is no inventory '{wanted}'. {_how_to_make_one()}")


def _how_to_make_one() -> str:
    own = paths.PROJECT / "inventory"
    known = sorted(p.name for p in own.glob("*") if p.is_dir())
    if not in_checkout():
        return (
            f"To run on this machine only, add --inventory inventory/local. For a cluster, '{hint('init')}' asks for "
            f"your hosts and writes inventory/NAME; then '{about_hosts('provision', inventory='inventory/NAME')}'. "
            "REGATTA_INVENTORY=inventory/NAME chooses it for all commands"
        )
    return (
        f"Make one: '{about_hosts('lab', nodes='3')}' for temporary hosts on this machine, or "
        f"'{hint('init')}' asks for hosts of your own; inventory/local is this machine only. "
        f"Choose with INVENTORY=inventory/NAME. Here now: {', '.join(known) or 'none'}."
    )


def load(inventory: str | None = None) -> Cluster:
    """Read an inventory. Raises InventoryError where it is missing, unreadable or contradicts itself."""
    path = choose(inventory)
    folder = path if path.is_dir() else path.parent
    return build(path.name if path.is_dir() else path.stem, folder, _listing(path))


def build(name: str, folder: Path, listing: dict[str, Any]) -> Cluster:
    """`ansible-inventory --list`'s answer -> Cluster."""
    hostvars: dict[str, dict[str, Any]] = listing.get("_meta", {}).get("hostvars", {})
    members = {group: _hosts(listing, group) for group in ("head", "workers")}
    if len(members["head"]) != 1:
        raise InventoryError(f"{name}: group 'head' has {len(members['head'])} hosts: name exactly one host in it")
    if not members["workers"]:
        raise InventoryError(f"{name}: group 'workers' has no host; name the hosts that run ranks there")
    order = dict.fromkeys([*members["head"], *members["workers"]])
    nodes = {host: _node(name, host, folder, hostvars.get(host, {})) for host in order}
    seen: dict[str, str] = {}
    for node in nodes.values():
        if other := seen.get(node.cluster_address):
            raise InventoryError(
                f"{name}: {other} and {node.name} have the same cluster_address {node.cluster_address}: give each "
                "its own"
            )
        seen[node.cluster_address] = node.name
    if any(node.local for node in nodes.values()) and len(nodes) > 1:
        raise InventoryError(
            f"{name}: ansible_connection=local is for a cluster of one host: take it or the others out"
        )
    return Cluster(
        name=name,
        folder=folder,
        nodes=tuple(nodes.values()),
        workers=tuple(nodes[host] for host in members["workers"]),
        head=nodes[members["head"][0]],
        inventory=tuple(nodes.values()),
    )


def _hosts(listing: dict[str, Any], group: str) -> list[str]:
    entry = listing.get(group, {})
    found = list(entry.get("hosts", []))
    for child in entry.get("children", []):
        found += [host for host in _hosts(listing, child) if host not in found]
    return found


def _node(cluster: str, name: str, folder: Path, raw: dict[str, Any]) -> Node:
    if not NAME.match(name):
        raise InventoryError(f"{cluster}: '{name}' is not a host name: use letters, digits, '-', '_' and '.'")
    values = _resolve(cluster, name, folder, raw)
    local = values.get("ansible_connection") in ("local", "ansible.builtin.local")
    if not local and (wrong := login_words.refused(values)):
        raise InventoryError(f"{cluster}: host {name}: {wrong}")
    host = str(values.get("ansible_host", name))
    address = str(values.get("cluster_address", "127.0.0.1" if local else host))
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise InventoryError(
            f"{cluster}: host {name} needs cluster_address, the private IP address that its services bind to "
            f"(it is '{address}' now)"
        ) from None
    if not _HOST.match(host):
        raise InventoryError(
            f"{cluster}: host {name} has ansible_host {host!r}, which is no address: give a name or an IP"
        )
    user = str(values["ansible_user"]) if values.get("ansible_user") else None
    if user and not _USER.match(user):
        raise InventoryError(f"{cluster}: host {name} has ansible_user {user!r}: give the name of a user there")
    key = _path(values["ansible_ssh_private_key_file"]) if values.get("ansible_ssh_private_key_file") else None
    if key and (not key.isprintable() or '"' in key):
        raise InventoryError(
            f"{cluster}: host {name} has ansible_ssh_private_key_file {key!r}, which ssh cannot read: give the file "
            "another name"
        )
    root = _path(values.get("regatta_root", _local_home(cluster) if local else "/opt/regatta"))
    state = _path(values.get("regatta_state", f"{root}/state" if local else "/var/lib/regatta"))
    python = values.get("regatta_python", f"{root}/env/bin/python")
    if local and "regatta_python" not in values:
        python = paths.NODE_PYTHON
    return Node(
        name=name,
        host=host,
        cluster_address=address,
        local=local,
        port=_port(cluster, name, values.get("ansible_port")),
        user=user,
        key_file=key,
        ssh_args=_ssh_args(cluster, name, values),
        root=root,
        state=state,
        python=_path(python),
        limits=run_limits.read(f"{cluster}: host {name}", values),
        price_per_hour=run_limits.price(f"{cluster}: host {name}", values),
        become=_become(cluster, name, folder, raw),
        member=not local and str(values.get("regatta_member", "")).lower() in ("1", "true", "yes", "on"),
        frameworks=tuple(map(str, values.get("regatta_frameworks") or ())),
    )


def _ssh_args(cluster: str, name: str, values: dict[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for key in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
        try:
            found += shlex.split(str(values.get(key, "")))
        except ValueError as error:
            raise InventoryError(f"{cluster}: host {name}: {key}: correct its quotes ({error})") from None
    if wrong := login_words.refused_option(found):
        wrong = wrong.format(forget=about_hosts("forget", node=name))
        raise InventoryError(f"{cluster}: host {name}: SSH option {wrong}")
    return tuple(found)


def _become(cluster: str, name: str, folder: Path, raw: dict[str, Any]) -> str | None:
    """The password of sudo, as Ansible reads it: the last of the variables; an encrypted one stays so."""
    variable = next((one for one in reversed(sudo.VARIABLES) if raw.get(one) is not None), None)
    if variable is None:
        return None
    value = raw[variable]
    if isinstance(value, dict) and "__ansible_vault" in value:
        return str(value["__ansible_vault"])
    return str(_resolve(cluster, name, folder, {**raw, variable: str(value)}, frozenset({variable}))[variable])


def _local_home(cluster: str) -> str:
    base = os.environ.get("REGATTA_HOME") or os.environ.get("XDG_DATA_HOME", "~/.local/share") + "/regatta"
    return f"{base}/{cluster}"


def _port(cluster: str, name: str, value: object) -> int | None:
    if value is None:
        return None
    text = str(value)
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 65535):
        raise InventoryError(f"{cluster}: host {name} has ansible_port {text!r}: give a port from 1 to 65535")
    return int(text)


def _path(value: object) -> str:
    try:
        return str(Path(os.path.expandvars(str(value))).expanduser())
    except RuntimeError as error:
        raise InventoryError(f"{value}: {error}") from None


def _resolve(
    cluster: str,
    host: str,
    folder: Path,
    raw: dict[str, Any],
    names: frozenset[str] = inventory_lint.HOST_VARIABLES,
) -> dict[str, Any]:
    """`ansible-inventory` does not expand `{{ }}`: do so for plain references to variables, and to the environment."""
    ours = [key for key in names & raw.keys() if isinstance(raw[key], str) and "{{" in raw[key]]
    if not ours:
        return raw
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import SandboxedEnvironment

    env = SandboxedEnvironment(undefined=StrictUndefined)
    context = {**raw, "inventory_dir": str(folder), "inventory_hostname": host, "lookup": _lookup}
    resolved = dict(raw)
    for key in ours:
        text = raw[key]
        try:
            for _ in range(5):
                text = env.from_string(text).render(context)
                if "{{" not in text:
                    break
        except TemplateError as error:
            raise InventoryError(f"{cluster}: host {host}: {key}: '{raw[key]}': {error}") from None
        resolved[key] = text
    return resolved


def _lookup(plugin: str, *names: str, **_: object) -> str:
    """`lookup('env', 'NAME')` of Ansible. InventoryError for another plugin."""
    if plugin not in ("env", "ansible.builtin.env"):
        raise InventoryError(f"lookup('{plugin}', ...): Regatta knows only lookup('env', 'NAME') here")
    return ",".join(os.environ.get(name, "") for name in names)


def _has_secret(raw: dict[str, Any]) -> bool:
    """Whether a host's variables have the password of sudo in the clear, so that no copy of them may be kept."""
    found = [raw[name] for name in sudo.VARIABLES if name in raw]
    return any(not isinstance(value, dict) and "{{" not in str(value) for value in found)


def _listing(path: Path) -> dict[str, Any]:
    key = _fingerprint(path)
    cached = paths.cache_dir() / "inventory" / f"{key}.json"
    if key and cached.is_file():
        try:
            return dict(json.loads(cached.read_text()))
        except (OSError, ValueError):
            cached.unlink(missing_ok=True)
    listing = _ask_ansible(path)
    if wrong := inventory_lint.problems(listing):
        raise InventoryError(_misspelt(path, wrong))
    folder = path if path.is_dir() else path.parent
    hostvars = listing.get("_meta", {}).get("hostvars", {})
    for host, raw in hostvars.items():
        hostvars[host] = _resolve(path.stem, host, folder, raw)
    if key and not any(_has_secret(raw) for raw in hostvars.values()):
        cached.parent.mkdir(parents=True, exist_ok=True)
        files.write(cached, json.dumps(listing), 0o600)
    return listing


def _misspelt(path: Path, wrong: list[str]) -> str:
    return f"{path.name}: names in the inventory that cannot be meant (your own variable needs another name):\n  " + (
        "\n  ".join(wrong)
    )


def _fingerprint(path: Path) -> str | None:
    """Hash of everything that Ansible reads; None where a program or plugin decides (then nothing is cached)."""
    digest = hashlib.sha256(f"checked\0{path}\0{paths.PROJECT}\0{os.environ.get('HOME')}".encode())
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    if not path.is_dir():
        files += sorted(p for d in ("group_vars", "host_vars") for p in (path.parent / d).rglob("*") if p.is_file())
    for file in files:
        within = file.relative_to(path if path.is_dir() else path.parent).parts
        if within[-1].startswith("ssh_config") or _NOT_INVENTORY & set(within):
            continue
        content = file.read_bytes()
        if os.access(file, os.X_OK) or re.search(rb"^plugin:", content, re.M):
            return None
        digest.update(f"{file}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:32]


def _whole(command: list[str], env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command; where it is given up, what it has started ends with it. Raises TimeoutExpired."""
    with subprocess.Popen(
        command,
        env=env,
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            said = process.communicate(timeout=_ANSWER)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, *said)


def _ask_ansible(path: Path) -> dict[str, Any]:
    program = Path(sys.executable).parent / "ansible-inventory"
    env = os.environ | {
        "ANSIBLE_CONFIG": str(paths.PROJECT / "ansible/ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "COLUMNS": "2000",
    }
    command = [str(program), "-i", str(path), "--list"]
    try:
        done = _whole(command, env)
    except subprocess.TimeoutExpired:
        raise InventoryError(
            f"{path}: ansible-inventory gave no answer within {_ANSWER:g} s: does something in it wait, or is this "
            "machine very busy? Try again"
        ) from None
    except FileNotFoundError:
        raise InventoryError(
            f"ansible-inventory is not installed next to this Python: run '{setup('ansible-core')}'"
        ) from None
    if done.returncode or "Failed to parse" in done.stderr:
        said = done.stderr.partition("\nTraceback ")[0].strip()
        raise InventoryError(f"{path}: Ansible cannot read this inventory:\n{said}")
    if wrong := inventory_lint.skipped(done.stderr):
        raise InventoryError(_misspelt(path, wrong))
    return dict(json.loads(done.stdout))
