"""What a run may take of a node, as the inventory says it, so that a run cannot fill one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regatta.errors import InventoryError

VARIABLES = {"regatta_run_log_mb", "regatta_run_memory_share", "regatta_run_processes"}


@dataclass(frozen=True)
class Limits:
    """Of one run on one node: bytes of its log, share of the memory, processes and threads (None: so many a core)."""

    log_bytes: int = 256_000_000
    memory_share: float = 0.85
    processes: int | None = None

    def spec(self) -> dict[str, Any]:
        """The limits as the node's operation `run.start` takes them."""
        return {"log_bytes": self.log_bytes, "memory_share": self.memory_share, "processes": self.processes}


def read(where: str, values: Mapping[str, Any]) -> Limits:
    """Limits from a host's variables; InventoryError names the one that cannot be, and `where`."""
    processes = values.get("regatta_run_processes")
    return Limits(
        int(1e6 * _number(where, values, "regatta_run_log_mb", Limits.log_bytes / 1e6, 1, 1e6)),
        _number(where, values, "regatta_run_memory_share", Limits.memory_share, 0.05, 1),
        None if processes is None else int(_number(where, values, "regatta_run_processes", 0, 64, 1 << 22)),
    )


def _number(where: str, values: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = values.get(name, default)
    try:
        number = float(str(value))  # of a truth value, too, no number
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise InventoryError(f"{where}: {name} is {value!r}; it must be a number from {least:,g} to {most:,g}")
    return number
