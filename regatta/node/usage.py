"""The resources that a run has used on a node: CPU, memory and disk of its processes, and the node's network
meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import resource
from typing import Any

if __package__:
    from regatta.node import cgroup
else:  # next to the supervisor, in the run's folder
    import cgroup  # type: ignore[import-not-found, no-redef, unused-ignore]

BLOCK_BYTES = 512


def oom_kills() -> int:
    """Return how many processes the kernel of this host has killed for want of memory; -1 where it does not say."""
    with contextlib.suppress(OSError), open("/proc/vmstat") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return -1


def of_children() -> dict[str, Any]:
    """Return what all processes of the run have used, as the kernel has told the one that reaped them.

    {"cpu_seconds": user and system, "largest_bytes": peak resident memory of the largest process, "read_bytes" and
    "written_bytes": of disks, without what the cache spared}.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu_seconds": round(ended.ru_utime + ended.ru_stime, 3),
        "largest_bytes": ended.ru_maxrss * 1024,
        "read_bytes": ended.ru_inblock * BLOCK_BYTES,
        "written_bytes": ended.ru_oublock * BLOCK_BYTES,
    }


def of_unit(folder: str) -> dict[str, Any]:
    """Return what this process's cgroup has used, where it is the run's own and the kernel counts that.

    {"cpu_seconds", "peak_bytes": memory of all processes at once, with the pages of files that they brought into it}.
    """
    found: dict[str, Any] = {}
    for at in cgroup.folders(unit=f"regatta-run-{os.path.basename(folder)}.service"):
        _take(found, "peak_bytes", f"{at}/memory.peak", 1)
        _take(found, "peak_bytes", f"{at}/memory.max_usage_in_bytes", 1)
        _take(found, "cpu_seconds", f"{at}/cpuacct.usage", 1e-9)
        _take(found, "cpu_seconds", f"{at}/cpu.stat", 1e-6)
    return found


def _take(found: dict[str, Any], name: str, file: str, unit: float) -> None:
    with contextlib.suppress(OSError, ValueError), open(file) as handle:
        found[name] = int(handle.readline().split()[-1]) * unit


def network(interface: str | None) -> list[int] | None:
    """Bytes that an interface of this node has received and sent since it is there."""
    with contextlib.suppress(OSError), open("/proc/net/dev") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name.strip() == interface:
                return [int(rest.split()[0]), int(rest.split()[8])]
    return None


def over_network(before: Any) -> dict[str, Any]:
    """Return what the node, whoever on it, has received and sent since `before`, as `run.start` has noted it."""
    try:
        received, sent = network(before["interface"]) or (0, 0)
        since = (max(0, received - before["at_start"][0]), max(0, sent - before["at_start"][1]))
    except (TypeError, KeyError, IndexError, AttributeError, OverflowError):
        return {}
    return {"interface": str(before["interface"]), "received_bytes": since[0], "sent_bytes": since[1]}
