"""The differences between two runs: what was asked for, the release, versions, hosts; then their times."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from regatta.records.answers import Difference, differences
from regatta.records.clocks import PHASES
from regatta.records.plain import plain
from regatta.records.record import NodeFacts, Record, RunIdentity
from regatta.release.tree import changed_files
from regatta.report import texts
from regatta.text import clean

Entries = Callable[[str], Mapping[str, str] | None]
"""A release's files: path -> a word that changes with the file; None where the release is nowhere any more."""

_MOST_FILES = 30


def lines(a: Record, b: Record, entries: Entries, repository: Path) -> list[str]:
    """Both runs side by side as lines of text; `repository` is asked where the release's files are not known."""
    return [clean(line) if line else "" for line in _lines(a, b, entries, repository)]


def _lines(a: Record, b: Record, entries: Entries, repository: Path) -> Iterator[str]:
    yield f"A  {a.run_id}  {a.identity.started}  {a.exit.state}"
    yield f"B  {b.run_id}  {b.identity.started}  {b.exit.state}"
    found = parts(a, b)
    yield from _part("asked for", found["asked"])
    yield from _release(a.identity, b.identity, entries, repository)
    yield from _part("versions", found["versions"])
    yield from _part("hosts", found["hosts"])
    yield ""
    yield from _times(a, b)
    yield from _answers(a, b)


def parts(a: Record, b: Record) -> dict[str, list[Difference]]:
    """Return what differs in what was asked for, in versions and in hosts."""
    made = {"asked": _asked, "versions": _versions, "hosts": _hosts}
    return {name: differences(part(a), part(b), {}) for name, part in made.items()}


def phases(a: Record, b: Record) -> dict[str, tuple[float | None, float | None]]:
    """Seconds of each phase in both."""
    return {name: (getattr(a.phases, name), getattr(b.phases, name)) for name in PHASES}


def _part(title: str, found: list[Difference]) -> Iterator[str]:
    yield ""
    yield f"{title}: {'the same' if not found else ''}".rstrip()
    yield from (_difference(difference) for difference in found)


def _difference(found: Difference) -> str:
    return f"  {found.path}: {_short(found.a)} -> {_short(found.b)}"


def _asked(record: Record) -> dict[str, Any]:
    identity = record.identity
    fixed = {"workload": identity.workload, "framework": identity.framework, "seed": identity.seed}
    speed = plain(record.speed)
    return fixed | {"parameters": plain(identity.parameters)} | {"speed": speed}


def _versions(record: Record) -> dict[str, Any]:
    return _merged({node.name: plain(node.versions) for node in record.cluster.nodes})


def _hosts(record: Record) -> dict[str, Any]:
    def facts(node: NodeFacts) -> dict[str, Any]:
        gpus = {"gpus": [gpu.name for gpu in node.gpus], "driver": node.gpu_driver} if node.gpus else {}
        own = {"cpu": node.cpu, "cores": node.cores, "ram": node.ram_bytes, "kernel": node.kernel, "os": node.os}
        return own | gpus

    hosts = {node.name: facts(node) | {"ranks": len(node.ranks)} for node in record.cluster.nodes}
    return {"cluster": record.cluster.name, "nodes": hosts}


def _merged(by_node: Mapping[str, Any]) -> dict[str, Any]:
    """Return what all nodes have in common is shown once, under `all nodes`."""
    values = list(by_node.values())
    return {"all nodes": values[0]} if values and all(value == values[0] for value in values) else dict(by_node)


def _release(a: RunIdentity, b: RunIdentity, entries: Entries, repository: Path) -> Iterator[str]:
    yield ""
    if a.release is not None and a.release == b.release:
        yield f"release: the same ({a.release})"
        return
    yield f"release: {a.release or 'unknown'} -> {b.release or 'unknown'}"
    changes = _between(a, b, entries)
    if changes is None and a.commit and b.commit:
        yield f"  commit {a.commit[:12]} -> {b.commit[:12]}" + _uncommitted(a, b)
        changes = changed_files(repository, a.commit, b.commit)
        if changes == [] and (a.dirty or b.dirty):
            yield "  no committed file differs; --inventory names the cluster that knows the others"
            return
    if changes is not None:
        yield from _listed(changes)
        return
    yield "  which files changed is not known: no node has both releases, and git does not know both commits"


def files(a: RunIdentity, b: RunIdentity, entries: Entries, repository: Path) -> list[str] | None:
    """`changed train.py`, ...: by the releases of both, or else by their commits; None where neither is known."""
    if a.release is not None and a.release == b.release:
        return []
    changes = _between(a, b, entries)
    return changed_files(repository, a.commit, b.commit) if changes is None and a.commit and b.commit else changes


def _between(a: RunIdentity, b: RunIdentity, entries: Entries) -> list[str] | None:
    one, other = (entries(run.release) if run.release else None for run in (a, b))
    if one is None or other is None:
        return None
    return sorted(
        f"{'added' if path not in one else 'removed' if path not in other else 'changed'} {path}"
        for path in one.keys() | other.keys()
        if one.get(path) != other.get(path)
    )


def _uncommitted(a: RunIdentity, b: RunIdentity) -> str:
    dirty = [name for name, run in (("A", a), ("B", b)) if run.dirty]
    return f" ({' and '.join(dirty)} with changes that were not committed, which are not listed)" if dirty else ""


def _listed(changes: list[str]) -> Iterator[str]:
    if not changes:
        yield "  no file differs"
    yield from (f"  {change}" for change in changes[:_MOST_FILES])
    if len(changes) > _MOST_FILES:
        yield f"  and {len(changes) - _MOST_FILES} more"


def _times(a: Record, b: Record) -> Iterator[str]:
    yield f"{'phase':<10}  {'A':>9}  {'B':>9}  {'B / A':>6}"
    for name, (one, other) in phases(a, b).items():
        ratio = f"{other / one:.2f}" if one and other is not None else "-"
        yield f"{name:<10}  {texts.seconds(one):>9}  {texts.seconds(other):>9}  {ratio:>6}"
    for name, record in (("A", a), ("B", b)):
        if record.others:
            yield f"{name} was timed while others ran on its nodes: {', '.join(record.others)}."
    yield "B / A above 1: B took longer. Two single runs: no statement about whether a difference is real."


def answers(a: Record, b: Record) -> list[Difference] | None:
    """The differences of the answers beyond the workload's tolerance; None where they cannot be compared."""
    if a.identity.workload != b.identity.workload or a.answer is None or b.answer is None:
        return None
    tolerance = {name: min(value, b.tolerance[name]) for name, value in a.tolerance.items() if name in b.tolerance}
    return differences(a.answer, b.answer, tolerance)


def _answers(a: Record, b: Record) -> Iterator[str]:
    found = answers(a, b)
    if found is None:
        return
    yield "The answers are equal within the workload's tolerance." if not found else "The answers differ:"
    yield from (_difference(difference) for difference in found[:10])
    if len(found) > 10:
        yield f"  and {len(found) - 10} more"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 70 else f"{text[:55]} ... {text[-10:]}"
