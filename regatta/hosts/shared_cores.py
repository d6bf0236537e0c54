"""Which hosts have the same cores of one machine, as containers do: found out by what each tells, not declared.

Hosts that may each use a part of these cores only, so that there are enough for all, do not share them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SAME_SECONDS = 0.002
"""So far two looks at the start of one kernel may be apart: clocks are set a little faster or slower meanwhile."""
Facts = Mapping[str, Any]


def sharing(facts: Mapping[str, Facts], among: Iterable[str] | None = None) -> dict[str, tuple[str, ...]]:
    """For each host the others that have some of its cores, by name; `among`: of only these hosts."""
    chosen = {*(facts if among is None else among)}
    names = [name for name in facts if name in chosen]
    found = {
        name: tuple(other for other in names if other != name and _meet(facts[name], facts[other])) for name in names
    }
    return {name: () if _enough([facts[one] for one in (name, *others)]) else others for name, others in found.items()}


def _meet(one: Facts, other: Facts) -> bool:
    return one_machine(one, other) and bool(set(one.get("cpus") or ()) & set(other.get("cpus") or ()))


def _enough(hosts: Sequence[Facts]) -> bool:
    """Whether the cores of hosts that have the same ones are enough for the part of them that each may use."""
    parts = [one.get("cpu_limit") for one in hosts]
    return None not in parts and sum(filter(None, parts)) <= len({cpu for one in hosts for cpu in one["cpus"]})


def one_machine(one: Facts, other: Facts) -> bool:
    """Whether two hosts have the same kernel: it began at the same moment, on the same hardware.

    Virtual machines of one machine have their own kernels: what they share is not seen from inside.
    """
    began, also = one.get("kernel_began"), other.get("kernel_began")
    if began is None or also is None or abs(began - also) > SAME_SECONDS:
        return False
    return all(one.get(name) == other.get(name) for name in ("hardware", "ram_bytes", "kernel"))
