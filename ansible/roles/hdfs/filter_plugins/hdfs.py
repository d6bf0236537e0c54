"""The parts of an HDFS on the hosts, and whether a NameNode may begin on it: formatting never loses data."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Held = Mapping[str, Any]


def refusal(held: Mapping[str, Held], head: str, folder: str, inventory: str = "", restore: bool = False) -> str:
    """Why HDFS must not be formatted or started, naming each host's part and what to do; empty where it may.

    `held[host]` has `name` (block pool of the metadata there, or empty), `pools` (blocks by block pool) and
    `checkpoint` (the newest copy of the metadata with its `pool`, or empty).
    """
    own = str(held[head].get("name") or "")
    if restore:
        return _restore_refusal(held, head, own, folder)
    if own:
        foreign = [host for host, part in held.items() if part.get("pools") and own not in part["pools"]]
        if not foreign:
            return ""
        return (
            f"{', '.join(foreign)} hold(s) blocks of another file system than that of {head} ({own}):\n"
            f"{_listed(held, folder)}\nNothing was changed. Put back the disks that belong together, or, if these "
            f"blocks are of no use any more, delete {folder}/data there and provision again."
        )
    elsewhere = [host for host, part in held.items() if host != head and part.get("name")]
    if not elsewhere and not any(part.get("pools") for part in held.values()):
        return ""
    return (
        f"{head} has no metadata of HDFS ({folder}/name), and formatting would lose what is there:\n"
        f"{_listed(held, folder)}\nNothing was changed. {_advice(held, elsewhere, folder, Path(inventory).name)}"
    )


def _restore_refusal(held: Mapping[str, Held], head: str, own: str, folder: str) -> str:
    if own:
        return (
            f"{head} has metadata ({own}) in {folder}/name. If that is damaged, move the folder away first: "
            f"systemctl stop regatta-hdfs-namenode; mv {folder}/name {folder}/name.damaged"
        )
    if not newest_checkpoint(held):
        return f"no host has a copy of the metadata in {folder}/checkpoint:\n{_listed(held, folder)}"
    copy = held[newest_checkpoint(held)]["checkpoint"].get("pool")
    foreign = [host for host, part in held.items() if any(part["pools"].values()) and copy not in part["pools"]]
    if copy and foreign:
        return (
            f"the newest copy of the metadata is of {copy}, but {', '.join(foreign)} hold(s) blocks of another file "
            f"system:\n{_listed(held, folder)}\nNothing was changed. Put back the disks that belong together, or "
            f"delete {folder}/checkpoint where it is of no use any more."
        )
    return ""


def newest_checkpoint(held: Mapping[str, Held]) -> str:
    """The host with the newest copy of the metadata; empty where there is none."""
    found = {host: part["checkpoint"]["transaction"] for host, part in held.items() if part.get("checkpoint")}
    return max(found, key=lambda host: found[host]) if found else ""


def unmoved(part: Held, moved: str, host: str, folder: str, enabled: bool) -> str:
    """Why a host must not leave: it holds blocks of other pools than `moved`. Empty where it may."""
    left = {pool: count for pool, count in part["pools"].items() if count and pool != moved}
    if not left:
        return ""
    if not enabled:
        why = "HDFS is disabled (hdfs_enabled: false), so that nothing could move them. Enable it and "
        why += "'regatta provision'"
    elif moved:
        why = f"they are not of this cluster's HDFS ({moved}), which cannot move them. Bring them to where they belong"
    else:
        way = "Start it ('regatta up', 'regatta hdfs-status')"
        why = f"HDFS has not moved them, as the DataNode of {host} is not live. {way}"
    return (
        f"{host} holds blocks in {folder}/data, perhaps the only copies:\n{_listed({host: {'pools': left}}, folder)}\n"
        f"Nothing of them was removed: {why}, then try again. Or, if no one needs these blocks any more, delete "
        f"{folder}/data there first."
    )


def _advice(held: Mapping[str, Held], elsewhere: list[str], folder: str, inventory: str) -> str:
    where = f"inventory/{inventory or 'NAME'}"
    if elsewhere:
        first = f"Make {elsewhere[0]}, which has the metadata, the head again"
    elif copy := newest_checkpoint(held):
        first = f"Bring the metadata back from its copy on {copy}: regatta hdfs-restore-metadata --inventory {where}"
    else:
        first = f"There is no copy of the metadata: put back the disk that had {folder}/name"
    away = f"regatta teardown --inventory {where} --data destroy"
    return f"{first}. Or give all data up: {away}, then provision again."


def _listed(held: Mapping[str, Held], folder: str) -> str:
    lines = []
    for host, part in held.items():
        texts = [f"metadata of {part['name']}"] if part.get("name") else []
        texts += [f"{count} block(s) of {pool}" for pool, count in part.get("pools", {}).items()]
        if copy := part.get("checkpoint"):
            texts.append(f"a copy of the metadata up to change {copy['transaction']}")
        lines += [f"  {host}: {'; '.join(texts)}"] if texts else []
    return "\n".join(lines)


class FilterModule:
    """`held | hdfs_refusal(head, folder, inventory, restore)` -> why not, or empty; `held | hdfs_newest_checkpoint`;
    `held[host] | hdfs_unmoved(moved, host, folder, enabled)` -> why it must not leave, or empty."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Return what Ansible finds here."""
        return {"hdfs_refusal": refusal, "hdfs_newest_checkpoint": newest_checkpoint, "hdfs_unmoved": unmoved}
