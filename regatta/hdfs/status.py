"""A NameNode's metrics (JMX) -> the state of HDFS for a person."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regatta.program import hint
from regatta.terminal.meter import size_text


@dataclass(frozen=True)
class DataNode:
    """One DataNode; `last_contact` in seconds, sizes in bytes."""

    name: str
    state: str
    address: str
    capacity: int
    used: int
    free: int
    blocks: int
    last_contact: int


@dataclass(frozen=True)
class Status:
    """HDFS as a whole; sizes in bytes. `safe_mode` is the NameNode's own explanation, or empty."""

    version: str
    safe_mode: str
    capacity: int
    used: int
    free: int
    blocks: int
    under_replicated: int
    missing: int
    corrupt: int
    live: int
    dead: int
    decommissioning: int
    nodes: tuple[DataNode, ...]

    def lines(self) -> list[str]:
        """The state, a line for each thing."""
        percent = f" ({100 * self.used / self.capacity:.1f} %)" if self.capacity else ""
        return [
            f"capacity:    {size_text(self.capacity)}, used by HDFS {size_text(self.used)}{percent}, "
            f"free {size_text(self.free)}",
            f"DataNodes:   {self.live} live, {self.dead} dead"
            + (f", {self.decommissioning} leaving" if self.decommissioning else ""),
            f"blocks:      {self.blocks}, {self.under_replicated} with too few copies, {self.corrupt} with a damaged "
            f"copy, {self.missing} lost",
            f"safe mode:   {self.safe_mode or 'off'}",
        ]

    def table(self) -> list[tuple[str, ...]]:
        """The DataNodes, with headings."""
        headings = ("DataNode", "state", "address", "capacity", "used", "free", "blocks", "last heard")
        rows: list[tuple[str, ...]] = [headings]
        for node in self.nodes:
            heard = f"{node.last_contact} s ago"
            sizes = (size_text(node.capacity), size_text(node.used), size_text(node.free), str(node.blocks))
            shown = ("-",) * 4 if node.state == "DEAD" else sizes
            rows.append((node.name, node.state, node.address, *shown, heard))
        return rows

    def problems(self) -> list[str]:
        """Return what a person should look at."""
        found = []
        if not self.live:
            found.append(f"no DataNode is live: nothing can be read or written; '{hint('up')}' starts them")
        if self.missing:
            found.append(f"{self.missing} block(s) have no copy on any live DataNode: bring the dead ones back")
        if self.corrupt:
            found.append(f"{self.corrupt} block(s) have a damaged copy: '{hint('hdfs-repair')}' replaces it")
        return found


def read(beans: Mapping[str, Mapping[str, Any]]) -> Status:
    """The NameNode's beans as a Status."""
    info, system, state = (beans.get(name, {}) for name in ("NameNodeInfo", "FSNamesystem", "FSNamesystemState"))
    nodes = []
    for label, key in (("live", "LiveNodes"), ("DEAD", "DeadNodes")):
        for name, node in sorted(json.loads(info.get(key) or "{}").items()):
            decommissioned = node.get("decommissioned") is True
            admin = str(node.get("adminState", "In Service"))
            leaving = "leaving" if "Decommission In" in admin else "left" if decommissioned else label
            nodes.append(
                DataNode(
                    name.partition(":")[0],
                    leaving if label == "live" else label,
                    str(node.get("xferaddr", "-")),
                    int(node.get("capacity", 0)),
                    int(node.get("usedSpace", 0)),
                    int(node.get("remaining", 0)),
                    int(node.get("numBlocks", 0)),
                    int(node.get("lastContact", 0)),
                )
            )
    return Status(
        version=str(info.get("SoftwareVersion", "unknown")),
        safe_mode=" ".join(str(info.get("Safemode", "")).split()),
        capacity=int(info.get("Total", 0)),
        used=int(info.get("Used", 0)),
        free=int(info.get("Free", 0)),
        blocks=int(info.get("TotalBlocks", 0)),
        under_replicated=int(system.get("UnderReplicatedBlocks", state.get("UnderReplicatedBlocks", 0))),
        missing=int(info.get("NumberOfMissingBlocks", 0)),
        corrupt=int(system.get("CorruptBlocks", 0)),
        live=int(state.get("NumLiveDataNodes", 0)),
        dead=int(state.get("NumDeadDataNodes", 0)),
        decommissioning=int(state.get("NumDecommissioningDataNodes", 0)),
        nodes=tuple(nodes),
    )
