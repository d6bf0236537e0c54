"""Bringing labs up and down."""

import dataclasses
import shutil
import socket
import subprocess
import time
from pathlib import Path

from . import cgroups, hadoop, image, inventory, kept, network, nodes, parts, ssh
from .model import STATE, Lab, Node, all_labs, check_name, check_subnet, default_subnet, load
from .system import LabError, ignore_signals, lock, say, unmount_below


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The request to `up`; None means what the lab has, or else the default."""

    name: str
    nodes: int | None = None
    egress: bool | None = None
    suite: str | None = None
    mirror: str | None = None
    subnet: str | None = None
    topology: str | None = None
    cores: float | None = None
    kept: str | None = None
    """Key of a kept lab of this name to start from: it then says all the rest."""


def plan(wanted: Wanted, old: Lab | None, base: Path) -> Lab:
    """The lab that `wanted` asks for; an existing one can only grow, and change its parts of cores."""
    place = str(inventory.folder(wanted.name))
    if old is None:
        return Lab(
            name=check_name(wanted.name),
            nodes=wanted.nodes or 3,
            egress=wanted.egress is not False,
            suite=wanted.suite or image.default_suite(),
            image=str(base),
            subnet=check_subnet(wanted.subnet or default_subnet(wanted.name)),
            inventory=place,
            topology=wanted.topology or "flat",
            cores=wanted.cores,
        )
    changed = dataclasses.replace(old, nodes=max(old.nodes, wanted.nodes or 0), cores=wanted.cores or old.cores)
    asked = {
        "topology": wanted.topology,
        "cores": None if old.part and changed.part else wanted.cores,
        "egress": wanted.egress,
        "suite": wanted.suite,
        "subnet": wanted.subnet and check_subnet(wanted.subnet),
    }
    has = dataclasses.asdict(old)
    for name, value in asked.items():
        if value not in (None, has[name]):
            raise LabError(
                f"the lab {old.name} has {name} {has[name]}, which cannot be changed to {value}: "
                f"remove it first (python3 -m lab down --name {old.name}), or give another --name"
            )
    if old.inventory != place:
        raise LabError(f"the lab {old.name} belongs to another checkout ({old.inventory}): give another --name")
    return changed


def up(wanted: Wanted) -> Lab:
    """Make the lab, let it grow, or start again what does not run. Failed steps are undone."""
    started = time.monotonic()
    check_name(wanted.name)
    inventory.refuse_foreign(wanted.name)
    old = load(wanted.name)
    begun = kept.describe(wanted.name, wanted.kept) if wanted.kept and not old else None
    made = old or begun
    base = Path(made.image) if made else image.ensure(wanted.suite or image.default_suite(), wanted.mirror)
    hadoop.ensure()
    with lock(f"lab-{wanted.name}"):
        old = load(wanted.name)
        lab = begun if begun and not old else plan(wanted, old, base)
        if old and wanted.nodes and wanted.nodes < old.nodes:
            say(f"the lab has {old.nodes} nodes and keeps them")
        try:
            with lock("all"):
                others = [other for other in all_labs() if other.name != lab.name]
                network.refuse_clash(lab, others)
                lab.save()
                network.up(lab, others)
                if wanted.kept and not old:
                    kept.begin(lab, wanted.kept)
            public = inventory.begin(lab)
            for node in lab.all_nodes():
                nodes.mount(node)
                nodes.prepare(node, public)
                nodes.boot(node)
            inventory.finish(lab)
            wait(lab.all_nodes())
            if lab.part:
                say(f"  cores        {parts.told(lab, ssh_command)}")
        except BaseException as error:
            ignore_signals()
            if old is None or lab.nodes > old.nodes:
                undone = "the lab" if old is None else "the new nodes"
                say(f"{str(error).splitlines()[0] or type(error).__name__}: removing {undone}")
            _undo(lab, old)
            raise
    _report(lab, time.monotonic() - started)
    return lab


def _undo(lab: Lab, old: Lab | None) -> None:
    if old is None:
        _remove(lab)
        return
    nodes.erase([node for node in lab.all_nodes() if node.number > old.nodes])
    old.save()
    for node in old.all_nodes():
        nodes.ration(node)
    inventory.begin(old)
    inventory.finish(old)


def _report(lab: Lab, seconds: float) -> None:
    first, last = lab.node(1), lab.node(lab.nodes)
    span = f"{first.name} {first.address}"
    if lab.nodes > 1:
        span += f" to {last.name} {last.address}"
    internet = "no"
    if lab.egress:
        internet = "only node1, through this machine" if lab.private else "yes, through this machine"
    if lab.cores is not None and not lab.part:
        say(f"  cores        {cores_text(lab)}")
    path = Path(lab.inventory)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    say(f"lab {lab.name}: {lab.nodes} nodes up in {seconds:.1f} s")
    say(f"  addresses    {span}")
    if lab.private:
        say("  reached      node1 from here, all others only through it (ProxyJump)")
    say(f"  internet     {internet}")
    say(f"  inventory    {shown}")
    say(f"  next         make provision INVENTORY={shown} (make demo does it by itself)")


def cores_text(lab: Lab) -> str:
    """Which cores of the machine each node has, for a person, and whether some have the same."""
    everyone = lab.all_nodes()
    if lab.part:
        whole = len(everyone[0].cpus)
        shared = f"; SHARED, as there are {whole}: times of several nodes say nothing about scaling"
        return f"{lab.part:g} of one for each node{shared if lab.part * lab.nodes > whole else ''}"
    said = ", ".join(f"{node.name}: {', '.join(map(str, node.cpus))}" for node in everyone)
    whose = [core for node in everyone for core in node.cpus]
    if len(whose) == len(set(whose)):
        return said
    return f"{said}; SHARED, as there are {len(set(whose))}: times of several nodes say nothing about scaling"


def down(name: str) -> bool:
    """Remove the lab and all that is left of it; False where nothing was."""
    check_name(name)
    with lock(f"lab-{name}"):
        try:
            lab = load(name)
        except LabError:
            lab = None
        lab = lab or Lab(name, 0, False, "", "", default_subnet(name), str(inventory.folder(name)))
        there = lab.folder.exists() or inventory.is_generated(name)
        ignore_signals()
        _remove(lab)
    return there


def _remove(lab: Lab) -> None:
    folders = [entry.name for entry in lab.folder.glob("node*")]
    numbers = {int(name[4:]) for name in folders if name[4:].isdigit()} | cgroups.node_numbers(lab)
    hosts = [lab.node(number) for number in sorted(numbers)]
    nodes.power_off(hosts)
    if hosts:
        say(f"  power        cut of {', '.join(host.name for host in hosts)}")
    cgroups.remove_lab(lab)
    unmount_below(lab.folder)
    with lock("all"):
        network.down(lab, [other for other in all_labs() if other.name != lab.name])
        if lab.inventory == str(inventory.folder(lab.name)):
            inventory.remove(lab.name)
        if lab.folder.exists():
            say(f"  network      removed: {', '.join(lab.bridges)}, with its rules and the inventory")
            shutil.rmtree(lab.folder)
            say(f"  disks        removed: {lab.folder}")
        if STATE.is_dir() and not any(STATE.iterdir()):
            STATE.rmdir()


def existing(name: str) -> Lab:
    """The lab of this name; LabError where there is none."""
    if lab := load(check_name(name)):
        return lab
    raise LabError(f"there is no lab {name}: make one with `python3 -m lab up --name {name}`")


def pick(lab: Lab, names: list[str]) -> list[Node]:
    """The named nodes of the lab."""
    known = {node.name: node for node in lab.all_nodes()}
    if unknown := [name for name in names if name not in known]:
        raise LabError(f"the lab {lab.name} has no {unknown[0]}: it has node1 to node{lab.nodes}")
    return [known[name] for name in names]


def on(chosen: list[Node]) -> None:
    """Boot nodes with the state they have, and wait for them."""
    lab = chosen[0].lab
    public = inventory.begin(lab)
    for node in chosen:
        nodes.mount(node)
        nodes.prepare(node, public)
        nodes.boot(node)
    wait(chosen)


def rebuild(chosen: list[Node], *, keep_known_hosts: bool) -> None:
    """Replace nodes by fresh ones of the same name and address, with other host keys."""
    nodes.erase(chosen)
    on_fresh = inventory.begin(chosen[0].lab)
    for node in chosen:
        nodes.mount(node)
        nodes.prepare(node, on_fresh)
        nodes.boot(node)
    kept = None
    file = Path(chosen[0].lab.inventory) / "known_hosts"
    if keep_known_hosts and file.exists():
        kept = file.read_text()
    inventory.finish(chosen[0].lab)
    wait(chosen)
    if kept is not None:
        file.write_text(kept)


def keep(lab: Lab, key: str) -> Path:
    """Lay aside what the lab's hosts are now, for `up` with this key; they boot again and continue."""
    try:
        return kept.keep(lab, key)
    finally:
        on(lab.all_nodes())


def ssh_command(node: Node, *words: str) -> list[str]:
    """A command on the node, as its user, under strict host key checking."""
    jump = node.lab.node(1).address if node.hidden else None
    return ssh.command(Path(node.lab.inventory), f"{image.USER}@{node.address}", *words, user=image.USER, jump=jump)


def wait(chosen: list[Node]) -> None:
    """Return when an SSH login on every node has succeeded."""
    started = time.monotonic()
    end = started + 60 + len(chosen)
    trying: dict[Node, subprocess.Popen[str] | None] = dict.fromkeys(chosen)
    reason = dict.fromkeys(chosen, "its port 22 does not answer")
    try:
        while trying:
            for node, login in list(trying.items()):
                if login is None:
                    busy = sum(other is not None for other in trying.values())
                    if busy < 16 and _may_answer(node, list(trying)):
                        trying[node] = subprocess.Popen(
                            ssh_command(node, "true"),
                            stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE,
                            text=True,
                        )
                elif login.poll() is not None:
                    said = login.communicate()[1].strip()
                    if login.returncode == 0:
                        del trying[node]
                        say(f"  {node.name} {node.address} answers after {time.monotonic() - started:.1f} s")
                    else:
                        reason[node] = said
                        trying[node] = None
            _still_alive(list(trying), time.monotonic() - started)
            if trying and time.monotonic() > end:
                node = next(iter(trying))
                raise LabError(
                    f"{node.name} does not answer: remove the lab and make it again; it said: {reason[node]}\n"
                    f"  {nodes.console_tail(node)}"
                )
            time.sleep(0.05)
    finally:
        for login in trying.values():
            if login:
                login.kill()
                login.communicate()


def _may_answer(node: Node, waiting: list[Node]) -> bool:
    """Whether trying to log in is worth it: its port is open, or the node on the way to it has answered."""
    if node.hidden:
        return node.lab.node(1) not in waiting
    try:
        socket.create_connection((node.address, 22), timeout=0.05).close()
    except OSError:
        return False
    return True


def _still_alive(waiting: list[Node], seconds: float) -> None:
    """A node whose systemd-nspawn has ended will never answer."""
    if seconds < 1:
        return
    for node in waiting:
        if not cgroups.processes(node):
            raise LabError(
                f"{node.name} ended while booting: remove the lab and make it again; it said:\n"
                f"  {nodes.console_tail(node)}"
            )
