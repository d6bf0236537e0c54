"""A script that a person names: where it is in the tree, and whether it is synced."""

from pathlib import Path

from regatta.errors import LaunchError, UsageError
from regatta.release import tree


def check_script(root: Path, script: str) -> str:
    """A script's path relative to the tree that is synced. UsageError where it is missing or outside."""
    path = Path(script)
    full = (path if path.is_absolute() else Path.cwd() / path).resolve()
    if not full.is_file():
        raise UsageError(f"there is no script {script} in {Path.cwd()}")
    try:
        return str(full.relative_to(root.resolve()))
    except ValueError:
        raise UsageError(f"{full} is outside {root}, the tree that is synced; run from the folder it is in") from None


def check_synced(source: tree.Tree, script: str) -> None:
    """LaunchError where the script is not synced: an ignore rule leaves it out, or it may be a secret."""
    if script in {entry[0] for entry in source.entries}:
        return
    if reason := dict(source.left).get(script):
        raise LaunchError(f"{script} is not synced ({reason}):\n" + "\n".join(source.notes))
    raise LaunchError(f"{script} is ignored by git, so it is not synced: add '!/{script}' to {tree.IGNORE_FILE}")
