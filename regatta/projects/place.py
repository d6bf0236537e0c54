"""Where a run comes from: the tree that is synced, the project in it, the current directory."""

import os
from dataclasses import dataclass
from pathlib import Path

from regatta import paths
from regatta.errors import UsageError
from regatta.release import tree


@dataclass(frozen=True)
class Place:
    """`tree` is synced. The `project` in it says what runs need and take. Relative paths begin in `start`.

    All are absolute, without links; `project` and `start` are in the tree, or the tree.
    """

    tree: Path
    project: Path
    start: Path

    @property
    def below(self) -> str:
        """Return the folder of the tree in which a run begins; empty: the tree itself."""
        return inside(self.tree, self.start)

    def named(self, path: str, start: Path) -> str:
        """Return a path, or a pattern, that someone named in the folder `start`, from the tree. UsageError outside."""
        found = os.path.normpath(os.path.join(inside(self.tree, start), path))
        if found.split("/", 1)[0] == "..":
            raise UsageError(f"{path} is outside of {self.tree}, the tree that is synced: name a path in it")
        return found + ("/" if path.endswith("/") and found != "." else "")


def of(start: Path, project: Path | None = None) -> Place:
    """Return where a run begins that is started in a folder; its project is looked for unless known. SyncError."""
    root = tree.find_root(start).resolve()
    found = (project or paths.project_dir(start)).resolve()
    return Place(root, found if found.is_relative_to(root) else root, start.resolve())


def inside(tree: Path, folder: Path) -> str:
    """Return a folder of a tree, relative to it; empty for the tree itself."""
    return str(folder.resolve().relative_to(tree.resolve())).removeprefix(".")
