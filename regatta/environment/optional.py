"""The requirements of a project's extras and dependency groups that a run asks for."""

from collections.abc import Sequence
from pathlib import Path

from packaging.dependency_groups import resolve_dependency_groups
from packaging.utils import canonicalize_name as canonical

from regatta.environment import own, pyproject
from regatta.errors import EnvironmentFault


def lines(root: Path, tree: Path, extras: Sequence[str], groups: Sequence[str]) -> list[str]:
    """Return requirements for extras and groups of the project in a folder. EnvironmentFault for one that it lacks."""
    return [*_of_extras(root, tree, extras), *_of_groups(root / "pyproject.toml", groups)]


def _of_extras(root: Path, tree: Path, extras: Sequence[str]) -> list[str]:
    package = own.read(root, tree) if extras else None
    known = {canonical(one) for one in package.extras} if package else set()
    if lacking := [one for one in extras if canonical(one) not in known]:
        has = f"it has {', '.join(sorted(known))}" if known else "it has none"
        raise EnvironmentFault(f"--extra {lacking[0]}: the project in {root} has no such extra; {has}")
    return [f"{package.name}[{','.join(extras)}]"] if package else []


def _of_groups(file: Path, groups: Sequence[str]) -> list[str]:
    if not groups:
        return []
    tables = pyproject.document(file) if file.is_file() else {}
    known = pyproject.at(tables, "dependency-groups", otherwise={})
    try:
        return [*resolve_dependency_groups(known, *groups)]
    except Exception as error:  # one, or a group of them, whose class depends on the Python
        why = next(iter(getattr(error, "exceptions", [error])))
        has = f"it has {', '.join(known)}" if known else "it has none"
        raise EnvironmentFault(f"--group {','.join(groups)}: {file}: {why}; {has}") from None
