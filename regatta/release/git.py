"""Git's answers about a folder. A git that fails differs from a folder without git."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from regatta.errors import SyncError
from regatta.paths import INSTALLED, PROJECT

SECONDS = 60.0


@dataclass(frozen=True)
class Status:
    """`commit` is None before the first one; `ignored` are paths, a folder's with `/` at its end."""

    commit: str | None
    dirty: bool
    ignored: tuple[str, ...]


def repository(folder: Path) -> Path | None:
    """The `.git` that git finds for a folder, whatever its state; None where there is none. Needs no git."""
    if chosen := os.environ.get("GIT_DIR"):
        return Path(chosen)
    here = folder.resolve()
    if INSTALLED and here == PROJECT:  # of no repository, though its environment may be in one
        return None
    device = here.stat().st_dev
    ceilings = {Path(item) for item in os.environ.get("GIT_CEILING_DIRECTORIES", "").split(":") if item}
    across = bool(os.environ.get("GIT_DISCOVERY_ACROSS_FILESYSTEM"))
    for parent in (here, *here.parents):
        if parent != here and (parent in ceilings or (parent.stat().st_dev != device and not across)):
            return None
        if os.path.lexists(parent / ".git"):
            return parent / ".git"
    return None


def ask(folder: Path, *args: str) -> str:
    """Output of git in a folder. Raises SyncError with git's own words where it fails."""
    try:
        done = _run(folder, *args)
    except FileNotFoundError:
        raise SyncError(
            f"{folder} belongs to {repository(folder)}, and there is no program git here to say which of its files "
            "are to be synced: install git"
        ) from None
    except OSError as error:
        raise SyncError(
            f"git cannot be started for {folder}: see what 'git -C {folder} status' says ({error.strerror})"
        ) from None
    except subprocess.TimeoutExpired:
        raise SyncError(
            f"git did not answer within {SECONDS:g} s in {folder}, so nothing was synced: "
            f"see what 'git -C {folder} {args[0]}' does"
        ) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
        raise SyncError(
            f"git cannot say which files of {folder} are to be synced, so nothing was. It says:\n{said}\n"
            f"Fix that, or sync a copy of the folder without {repository(folder)}"
        )
    return os.fsdecode(done.stdout)


def separate(folder: Path) -> None:
    """Make a folder of a work tree one of its own, with all its files: it is then synced, and not what is around it.

    Does nothing outside of git. Raises SyncError.
    """
    if repository(folder) is not None:
        ask(folder, "init", "--quiet", "--template=")
        ask(folder, "add", "--force", ".")


def answer(folder: Path, *args: str) -> str | None:
    """Output of git in a folder; None where it fails."""
    try:
        done = _run(folder, *args)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None


def files(folder: Path) -> dict[str, bool]:
    """Paths that git tracks (True) or does not ignore (False); folders of other repositories among them."""
    listed = split(ask(folder, "ls-files", "-t", "--cached", "--others", "--exclude-standard", "-z"))
    return {item[2:]: item[0] != "?" for item in listed}


def ignored(folder: Path) -> list[str]:
    """Every single file that git ignores."""
    return split(ask(folder, "ls-files", "--others", "--ignored", "--exclude-standard", "-z"))


def status(folder: Path) -> Status:
    """Commit, changes and what is ignored of a folder, which may be below the repository's; a whole folder as one."""
    options = ("--porcelain=v2", "--branch", "--untracked-files=normal", "--ignored=matching", "-z", "--", ".")
    below = "" if (folder / ".git").exists() else ask(folder, "rev-parse", "--show-prefix").removesuffix("\n")
    items = iter(split(ask(folder, "status", *options)))
    commit, dirty, found = None, False, []
    for item in items:
        if item.startswith("# branch.oid "):
            commit = item.split(" ", 2)[2]
        elif item.startswith("! "):
            found.append(item[2:].removeprefix(below))
        elif not item.startswith("# "):
            dirty = True
            if item.startswith("2 "):
                next(items, None)  # the name before
    known = commit if commit and commit != "(initial)" else None
    return Status(known, dirty, tuple(found))


def split(listing: str) -> list[str]:
    """The items of an answer to `-z`."""
    return [item for item in listing.split("\0") if item]


def _run(folder: Path, *args: str) -> "subprocess.CompletedProcess[bytes]":
    command = ["git", "-C", str(folder), *args]
    return subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=SECONDS)
