"""What differs between two runs: what was asked for, the release, versions, hosts; then their times."""

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
"""A release's files: path -> a word that changes with the file; None where nobody has the release any more."""

_MOST_FILES = 30


def lines(a: Record, b: Record, entries: Entries, repository: Path) -> list[str]:
    """Both runs side by side as lines of text; `repository` is asked where the release's files are not known."""
    return [clean(line) if line else "" for line in _lines(a, b, entries, repository)]


def _lines(a: Record, b: Record, entries: Entries, repository: Path) -> Iterator[str]:
    yield f"A  {a.run_id}  {a.identity.started}  {a.exit.state}"
    yield f"B  {b.run_id}  {b.identity.started}  {b.exit.state}"
    yield from _part("asked for", _asked(a), _asked(b))
    yield from _release(a.identity, b.identity, entries, repository)
    yield from _part("versions", _versions(a), _versions(b))
    yield from _part("hosts", _hosts(a), _hosts(b))
    yield ""
    yield from _times(a, b)
    yield from _answers(a, b)


def _part(title: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    found = differences(a, b, {})
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
        return {"cpu": node.cpu, "cores": node.cores, "ram": node.ram_bytes, "kernel": node.kernel, "os": node.os}

    hosts = {node.name: facts(node) | {"ranks": len(node.ranks)} for node in record.cluster.nodes}
    return {"cluster": record.cluster.name, "nodes": hosts}


def _merged(by_node: Mapping[str, Any]) -> dict[str, Any]:
    """What all nodes have in common stands once, under `all nodes`."""
    values = list(by_node.values())
    return {"all nodes": values[0]} if values and all(value == values[0] for value in values) else dict(by_node)


def _release(a: RunIdentity, b: RunIdentity, entries: Entries, repository: Path) -> Iterator[str]:
    yield ""
    if a.release is not None and a.release == b.release:
        yield f"release: the same ({a.release})"
        return
    yield f"release: {a.release or 'unknown'} -> {b.release or 'unknown'}"
    one, other = (entries(run.release) if run.release else None for run in (a, b))
    if one is not None and other is not None:
        changes = sorted(
            f"{'added' if path not in one else 'removed' if path not in other else 'changed'} {path}"
            for path in one.keys() | other.keys()
            if one.get(path) != other.get(path)
        )
        yield from _listed(changes)
        return
    if a.commit and b.commit:
        yield f"  commit {a.commit[:12]} -> {b.commit[:12]}" + _uncommitted(a, b)
        found = changed_files(repository, a.commit, b.commit)
        if found is not None:
            yield from _listed(found)
            return
    yield "  which files changed is not known: no node has both releases, and git does not know both commits"


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
    for name in PHASES:
        one, other = getattr(a.phases, name), getattr(b.phases, name)
        ratio = f"{other / one:.2f}" if one and other is not None else "-"
        yield f"{name:<10}  {texts.seconds(one):>9}  {texts.seconds(other):>9}  {ratio:>6}"
    for name, record in (("A", a), ("B", b)):
        if record.others:
            yield f"{name} was timed beside other runs on its nodes: {', '.join(record.others)}."
    yield "Two single runs: no statement about whether a difference is real."


def _answers(a: Record, b: Record) -> Iterator[str]:
    if a.identity.workload != b.identity.workload or a.answer is None or b.answer is None:
        return
    tolerance = {name: min(value, b.tolerance[name]) for name, value in a.tolerance.items() if name in b.tolerance}
    found = differences(a.answer, b.answer, tolerance)
    yield "The answers are equal within the workload's tolerance." if not found else "The answers differ:"
    yield from (_difference(difference) for difference in found[:10])
    if len(found) > 10:
        yield f"  and {len(found) - 10} more"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 70 else f"{text[:55]} ... {text[-10:]}"
