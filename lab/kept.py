"""Kept labs: what was done to a lab's hosts, laid aside, so that another lab of that name starts with it in seconds.

A kept lab is a read-only layer a host, between the base image and what a later lab writes. It belongs to the lab's
name, because addresses, keys and secrets of the hosts do. `key` says from what it was made; the caller chooses it.
"""

import contextlib
import json
import os
import re
import shutil
from pathlib import Path

from . import image, nodes
from .model import PROJECT, Lab, Node, all_labs
from .system import LabError, ignore_signals, lock, run, say

MOST = 6
_OF_A_NODE = ("host_key", "host_key.pub", "prepared")
_OF_THE_INVENTORY = ("secrets", "known_hosts", "group_vars", ".cluster.json")
_SAME = ("nodes", "egress", "suite", "image", "subnet", "topology", "cores")


def folder() -> Path:
    """The folder of kept labs."""
    return image.cache_dir() / "lab" / "kept"


def place(name: str, key: str) -> Path:
    """The folder of the kept lab of a name and key, whether it is there or not."""
    if not re.fullmatch(r"[0-9a-f]{8,64}", key):
        raise LabError(f"{key!r} is no key of a kept lab: 8 to 64 hexadecimal digits")
    return folder() / f"{name}-{key}"


def describe(name: str, key: str) -> Lab:
    """The lab that was kept, as it was; LabError where there is none."""
    try:
        described = json.loads((place(name, key) / "lab.json").read_text())
    except OSError as error:
        raise LabError(f"no lab {name} is kept with the key {key}: keep one first (python3 -m lab keep)") from error
    return Lab(name=name, inventory=str(PROJECT / "inventory" / name), **described)


def begin(lab: Lab, key: str) -> None:
    """Give a lab that is being made what was kept: its hosts' layers, their identity, and the inventory's secrets."""
    source = place(lab.name, key)
    os.utime(source)
    target = Path(lab.inventory)
    target.mkdir(parents=True, exist_ok=True)
    run(["cp", "-a", *(source / "inventory").iterdir(), target])
    for node in lab.all_nodes():
        node.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        _lay_below(node, source)


def _lay_below(node: Node, source: Path) -> None:
    for name in _OF_A_NODE:
        run(["cp", "-a", source / node.name / name, node.folder])
    (node.folder / nodes.KEPT).symlink_to(source / node.name / "up")


def keep(lab: Lab, key: str) -> Path:
    """Shut the hosts down in order, and lay aside what was done to them; they boot again on top of it.

    Raises:
        LabError: it was made from a kept lab itself.
    """
    target = place(lab.name, key)
    if any((node.folder / nodes.KEPT).is_symlink() for node in lab.all_nodes()):
        raise LabError(f"the lab {lab.name} was itself made from a kept one: keep one that was made without --kept")
    image.make_folder(folder())
    nodes.stop(lab.all_nodes(), seconds=90)
    new = target.with_name(f".{target.name}.{os.getpid()}")
    new.mkdir(mode=0o700)
    moved: list[Node] = []
    try:
        for node in lab.all_nodes():
            (new / node.name).mkdir()
            for name in _OF_A_NODE:
                run(["cp", "-a", node.folder / name, new / node.name])
            moved.append(node)
            run(["mv", "-T", node.folder / "up", new / node.name / "up"])
        (new / "inventory").mkdir()
        for name in _OF_THE_INVENTORY:
            if (Path(lab.inventory) / name).exists():
                run(["cp", "-a", Path(lab.inventory) / name, new / "inventory"])
        described = {name: getattr(lab, name) for name in _SAME}
        (new / "lab.json").write_text(json.dumps(described, indent=2) + "\n")
        with lock("all"):
            if target.exists():
                _remove_unused(target)
            new.rename(target)
    except BaseException:
        ignore_signals()
        for node in moved:
            with contextlib.suppress(LabError):
                run(["mv", "-T", new / node.name / "up", node.folder / "up"])
        shutil.rmtree(new, ignore_errors=True)
        raise
    for node in lab.all_nodes():
        (node.folder / nodes.KEPT).symlink_to(target / node.name / "up")
        shutil.rmtree(node.folder / "work", ignore_errors=True)
    drop_old()
    return target


def _used() -> set[Path]:
    links = [node.folder / nodes.KEPT for lab in all_labs() for node in lab.all_nodes()]
    return {link.readlink().parents[1] for link in links if link.is_symlink()}


def _remove_unused(target: Path) -> None:
    if target in _used():
        raise LabError(f"{target} is in use by a lab of another session, and stays: end that lab first")
    shutil.rmtree(target)


def drop_old() -> None:
    """Remove all but the few that were used last, and what an interrupted command left."""
    with lock("all"):
        used = _used()
        found = sorted(folder().glob("*-*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in found[MOST:]:
            if path not in used:
                say(f"removing {path.name}: {MOST} newer labs are kept")
                shutil.rmtree(path)
        for path in folder().glob(".*"):
            owner = path.name.rpartition(".")[2]
            if not Path(f"/proc/{owner}").exists():
                shutil.rmtree(path)
