"""Which hosts have the same cores of one machine, as containers do: found out by what each tells, not declared."""

from collections.abc import Iterable, Mapping
from typing import Any

SAME_SECONDS = 0.002
"""So far two looks at the start of one kernel may be apart: clocks are set a little faster or slower meanwhile."""
Facts = Mapping[str, Any]


def sharing(facts: Mapping[str, Facts], among: Iterable[str] | None = None) -> dict[str, tuple[str, ...]]:
    """For each host the others that have some of its cores, by name; `among`: of only these hosts."""
    chosen = {*(facts if among is None else among)}
    names = [name for name in facts if name in chosen]
    return {
        name: tuple(other for other in names if other != name and _share(facts[name], facts[other])) for name in names
    }


def _share(one: Facts, other: Facts) -> bool:
    return one_machine(one, other) and bool(set(one.get("cpus") or ()) & set(other.get("cpus") or ()))


def one_machine(one: Facts, other: Facts) -> bool:
    """Whether two hosts have the same kernel: it began at the same moment, on the same hardware.

    Virtual machines of one machine have their own kernels: what they share is not seen from inside.
    """
    began, also = one.get("kernel_began"), other.get("kernel_began")
    if began is None or also is None or abs(began - also) > SAME_SECONDS:
        return False
    return all(one.get(name) == other.get(name) for name in ("hardware", "ram_bytes", "kernel"))
