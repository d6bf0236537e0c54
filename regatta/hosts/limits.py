"""The limits of a run on a node, and its price, as the inventory says them."""

from collections.abc import Mapping
from typing import Any

from regatta.errors import InventoryError
from regatta_protocol.run import Limits

PRICE = "price_per_hour"
VARIABLES = {"regatta_run_log_mb", "regatta_run_memory_share", "regatta_run_processes", PRICE}


LOG_BYTES, MEMORY_SHARE = 256_000_000, 0.85
DEFAULT = Limits(LOG_BYTES, MEMORY_SHARE)


def read(where: str, values: Mapping[str, Any]) -> Limits:
    """Limits from a host's variables; InventoryError names the one that cannot be, and `where`."""
    processes = values.get("regatta_run_processes")
    return Limits(
        int(1e6 * _number(where, values, "regatta_run_log_mb", LOG_BYTES / 1e6, 1, 1e6)),
        _number(where, values, "regatta_run_memory_share", MEMORY_SHARE, 0.05, 1),
        None if processes is None else int(_number(where, values, "regatta_run_processes", 0, 64, 1 << 22)),
    )


def variables(said: Limits) -> dict[str, float]:
    """Return the variables by which a host has these limits, but for those that it has by default."""
    found = {"regatta_run_log_mb": (said.log_bytes or LOG_BYTES) / 1e6, "regatta_run_memory_share": said.memory_share}
    usual = {"regatta_run_log_mb": LOG_BYTES / 1e6, "regatta_run_memory_share": MEMORY_SHARE}
    more = {} if said.processes is None else {"regatta_run_processes": float(said.processes)}
    return {**{name: value for name, value in found.items() if value != usual[name]}, **more}


def price(where: str, values: Mapping[str, Any]) -> float | None:
    """What a host costs an hour, in any money, by its variables. Raises as `read`."""
    return _number(where, values, PRICE, 0, 0, 1e6) if PRICE in values else None


def _number(where: str, values: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = values.get(name, default)
    try:
        number = float(str(value))  # of a truth value, too, no number
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise InventoryError(f"{where}: {name} is {value!r}; it must be a number from {least:,g} to {most:,g}")
    return number
