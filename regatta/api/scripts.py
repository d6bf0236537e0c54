"""A script of the tree around a folder, made into a request; what commands and programs share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regatta.cards import project
from regatta.errors import LaunchError, UsageError
from regatta.frameworks import plan, registry
from regatta.options import declaration
from regatta.options.declaration import RunOptions
from regatta.release import tree
from regatta.run.request import Request


def request(
    framework: str, script: str, arguments: Sequence[str], given: Mapping[str, Any], notes: Sequence[str] = ()
) -> Request:
    """A run of a script under a framework. `given`: options by name, before those of the project's `regatta.toml`.

    `script` is relative to the current folder, whose tree is synced. `notes` are kept in the record. Raises UsageError,
    LaunchError, CardError.
    """
    root = tree.find_root(Path.cwd())
    relative = _path(root, script)
    source = tree.read(root)
    _must_be_synced(source, relative)
    options = declaration.said(RunOptions, project.read(root).options, given)
    if options.restarts and not options.elastic and registry.find(framework).driver:
        raise UsageError(f"--restarts needs --elastic: what a script under {framework} starts again is its own affair")
    program = plan.Program.script(relative, arguments)
    return Request(program, framework, root, options, source=source, notes=tuple(notes))


def _path(root: Path, script: str) -> str:
    """A script's path relative to the tree that is synced. UsageError where it is missing or outside."""
    path = Path(script)
    full = (path if path.is_absolute() else Path.cwd() / path).resolve()
    if not full.is_file():
        raise UsageError(f"there is no script {script} in {Path.cwd()}")
    try:
        return str(full.relative_to(root.resolve()))
    except ValueError:
        raise UsageError(f"{full} is outside {root}, the tree that is synced; run from the folder it is in") from None


def _must_be_synced(source: tree.Tree, script: str) -> None:
    """LaunchError where the script is not synced: an ignore rule leaves it out, or it may be a secret."""
    if script in {entry[0] for entry in source.entries}:
        return
    if reason := dict(source.left).get(script):
        raise LaunchError(f"{script} is not synced ({reason}):\n" + "\n".join(source.notes))
    raise LaunchError(f"{script} is ignored by git, so it is not synced: add '!/{script}' to {tree.IGNORE_FILE}")
