"""Frameworks as a person names them: `--framework torch,ray`."""

import difflib
from collections.abc import Collection, Iterable, Sequence

from regatta.errors import UsageError
from regatta.frameworks import registry
from regatta.frameworks.table import ALL, BOTH, OF_BOTH
from regatta.hosts.cluster import Cluster


def chosen(text: str, allowed: Sequence[str], cluster: Cluster) -> tuple[str, ...]:
    """The frameworks of `torch`, `torch,ray,single`, `both` (torch and ray) or `all`, in the order given.

    `allowed`: those that the workload runs under; `all` are those of them that the cluster has, without those that
    bring their own packages, unless all do. UsageError says what there is, and what is wrong with the others.
    """
    if text == ALL:
        there = [registry.find(name) for name in allowed if name in registry.names()]
        usable = [one for one in there if one.available(cluster) is None]
        return tuple(one.name for one in [one for one in usable if not one.requirements] or usable)
    wanted = OF_BOTH if text == BOTH else tuple(word.strip() for word in text.split(","))
    for number, name in enumerate(wanted):
        if name not in registry.names():
            raise UsageError(_unknown(name, allowed, f"; or several with commas, {BOTH}, {ALL}"))
        if name not in allowed:
            raise UsageError(f"--framework: it does not run under {name}: choose from {_listed(allowed)}")
        if name in wanted[:number]:
            raise UsageError(f"--framework: '{text}' names {name} twice: name it once")
        if why := registry.find(name).available(cluster):
            raise UsageError(f"--framework: {name} cannot be used on {cluster.name}: {why}")
    return wanted


def check_launcher(launcher: str | None, frameworks: Sequence[str]) -> None:
    """UsageError where none of the frameworks has that launcher, of those that have any: before any of them runs."""
    known = [name for framework in frameworks for name in registry.find(framework).launchers]
    if launcher is not None and known and launcher not in known:
        raise UsageError(f"--launcher must be one of {', '.join(known)}, not '{launcher}'")


def recorded(name: str, seen: Iterable[str]) -> str:
    """A framework to choose runs by: one that there is, or that one of the runs was `seen` under. UsageError."""
    known = sorted({*registry.names(), *seen})
    if name not in known:
        raise UsageError(_unknown(name, known))
    return name


def _unknown(name: str, known: Collection[str], more: str = "") -> str:
    near = difflib.get_close_matches(name, known, 1)
    meant = f". Did you mean {near[0]}?" if near else ""
    return f"--framework: there is no framework '{name}', there are {_listed(known)}{more}{meant}"


def _listed(names: Collection[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
