"""Notes about a tree that is synced: what was left out, and how it is taken in."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from regatta.paths import results_dir
from regatta.release import ignore, size, withheld
from regatta.release.withheld import Reason
from regatta.text import shown

MEASURE_SECONDS = 0.05
_MOST_NAMES = 5
_EXPECTED = (".egg-info", ".pyc", ".ansible", ".DS_Store", ".coverage")


def of(root: Path, left: Mapping[str, Reason], ignored: Iterable[str]) -> tuple[str, ...]:
    """A line for what may be taken in, one for what is never synced, one for what an ignore file leaves out."""
    named = {path: reason for path, reason in left.items() if not reason.expected}
    ours = {path: reason.text for path, reason in named.items() if not reason.final}
    never = {path: reason.text for path, reason in named.items() if reason.final}
    lines = []
    if ours:
        lines.append(f"not synced: {_by_reason(ours)}; {_way_in(min(ours))}")
    if never:
        lines.append(f"never synced: {_by_reason(never)}")
    out = [path for path in ignored if not _is_expected(root, path)]
    if out:
        lines.append(f"left out by ignore rules: {_with_sizes(root, out)}; {_way_in(min(out))}")
    return tuple(lines)


def _by_reason(items: Mapping[str, str]) -> str:
    reasons: dict[str, list[str]] = {}
    for path, reason in sorted(items.items()):
        reasons.setdefault(reason, []).append(shown(path))
    return "; ".join(f"{_some(paths)} ({reason})" for reason, paths in reasons.items())


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _way_in(path: str) -> str:
    return f"a line such as '!/{shown(path)}' in {ignore.FILE} takes one in"


def _with_sizes(root: Path, paths: list[str]) -> str:
    from regatta.terminal.meter import size_text

    measured = size.measured(root, paths, MEASURE_SECONDS)

    def text(count: int, whole: bool) -> str:
        return f"{'' if whole else 'more than '}{size_text(count)}"

    largest = sorted(paths, key=lambda path: (-measured[path][0], path))
    names = _some([f"{shown(path)} {text(*measured[path])}" for path in largest])
    if len(paths) == 1:
        return names
    return f"{names}, {text(sum(n for n, _ in measured.values()), all(w for _, w in measured.values()))} in all"


def _is_expected(root: Path, path: str) -> bool:
    """Whether it is not missed on a node: environments, caches, records, inventories and what Regatta keeps in them."""
    full = root / path
    if full.name.endswith(_EXPECTED) or withheld.is_inventory(full.parent):
        return True
    if not path.endswith("/"):
        return False
    if full.resolve() == results_dir().resolve():
        return True
    if full.name == "inventory" and any(withheld.is_inventory(folder) for folder in full.glob("*")):
        return True
    return withheld.of_folder(root, path) is not None or withheld.is_inventory(full)
