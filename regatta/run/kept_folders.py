"""The folders that a project keeps from run to run: those of the working directory that are in the shared folder."""

import contextlib
import getpass
import hashlib
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

from regatta import files, paths
from regatta.errors import UsageError
from regatta.frameworks.plan import Plan
from regatta.program import hint
from regatta.release.tree import Tree
from regatta.run.catalogue import RunInfo

_NOTHING = hashlib.sha256().hexdigest()


def check(tree: Tree, kept: Sequence[str]) -> None:
    """UsageError where files of the tree are in a folder that is kept: the run would see those that are kept instead.

    Empty ones are placeholders, such as .gitkeep.
    """
    for path, kind, content in tree.entries:
        inside = next((one for one in kept if path == one or path.startswith(f"{one}/")), None)
        if inside and (path == inside or kind == "l" or content != _NOTHING):
            raise UsageError(
                f"{inside} is kept for all runs of the project, and {path} would come there with the code: let "
                f".regattaignore leave it out ('/{inside}'), or keep another folder"
            )


def project(root: Path) -> str:
    """The key of the project whose tree is `root`: name of its folder, and a hash of its path and of whose it is.

    Raises UsageError where the person's identity can be neither read nor made.
    """
    return _key(root, f"{_identity(paths.identity_file())}:{root.resolve()}", 16)


def former(root: Path) -> str:
    """The key that the project had before keys told persons with the same name and path apart."""
    return _key(root, f"{getpass.getuser()}:{root.resolve()}", 8)


def _key(root: Path, whose: str, digits: int) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", root.resolve().name.lower())[:40].strip("-") or "project"
    return f"{name}-{hashlib.sha256(os.fsencode(whose)).hexdigest()[:digits]}"


def _identity(path: Path) -> str:
    """Return what is in the file of the person's identity, which is made at random where there is none."""
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError), files.beside(path) as new:
                files.create(new, f"{secrets.token_hex(16)}\n", 0o600)
                os.link(new, path)
        found = path.read_text(errors="replace").strip()
    except OSError as error:
        raise UsageError(
            f"--keep: {path}, which tells your projects from others', cannot be used ({error.strerror}): "
            "REGATTA_IDENTITY may name another file"
        ) from None
    if not re.fullmatch(r"[0-9a-f]{32}", found):
        raise UsageError(f"--keep: {path} has no identity of Regatta's in it: remove it, and a new one is made")
    return found


def clashes(made: Plan, going: Iterable[RunInfo]) -> list[str]:
    """A line for each run in progress that keeps a folder that `made` keeps, too."""
    found = []
    for info in going:
        both = set(made.options.keep) & set(info.plan.keep)
        if both and info.plan.project in (made.project, made.former):
            names = ", ".join(f"{path}/" for path in sorted(both))
            found.append(
                f"{info.run} is running and keeps {names} of this project, too: both write there. Wait for its end, "
                f"'{hint('cancel', info.run)}', or keep another folder"
            )
    return found
