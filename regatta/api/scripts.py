"""A script of the tree around a folder, made into a request; what commands and programs share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regatta.cards import project
from regatta.errors import UsageError
from regatta.frameworks import plan, registry
from regatta.options import declaration
from regatta.options.declaration import RunOptions
from regatta.release import tree
from regatta.run.request import Request
from regatta.run.scripts import check_script, check_synced


def request(
    framework: str, script: str, arguments: Sequence[str], given: Mapping[str, Any], notes: Sequence[str] = ()
) -> Request:
    """A run of a script under a framework. `given`: options by name, before those of the project's `regatta.toml`.

    `script` is relative to the current folder, whose tree is synced. `notes` are kept in the record. Raises UsageError,
    LaunchError, CardError.
    """
    root = tree.find_root(Path.cwd())
    relative = check_script(root, script)
    source = tree.read(root)
    check_synced(source, relative)
    options = declaration.said(RunOptions, project.read(root).options, given)
    if options.restarts and not options.elastic and registry.find(framework).driver:
        raise UsageError(f"--restarts needs --elastic: what a script under {framework} starts again is its own affair")
    program = plan.Program.script(relative, arguments)
    return Request(program, framework, root, options, source=source, notes=tuple(notes))
