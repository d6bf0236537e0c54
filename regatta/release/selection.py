"""Of the listed files those that are synced, and why the others are not."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from regatta.release import withheld
from regatta.release.listing import Listing
from regatta.release.withheld import Reason


@dataclass(frozen=True)
class Selection:
    """`files` are synced, `left` are not; a folder that is left out as a whole ends with `/`."""

    files: dict[str, os.stat_result]
    left: dict[str, Reason]


def select(root: Path, listing: Listing) -> Selection:
    """Look at every listed file, not into it: name, folder, mode, link. Raises OSError."""
    folders = _Folders(root)
    files: dict[str, os.stat_result] = {}
    left = dict(listing.left)
    for path, tracked in listing.files.items():
        kept, within, reason = folders.of(path.rpartition("/")[0])
        if within and reason:
            known = left.get(within)
            if known is None or (tracked and known.expected):
                left[within] = Reason(reason.text, reason.final, reason.expected and not tracked)
        if not kept or within:
            continue
        try:
            info = os.lstat(os.path.join(root, path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        found = withheld.GIT if path.rpartition("/")[2] == ".git" else None
        if found is None and path not in listing.taken:
            found = withheld.of_link(root, path) if stat.S_ISLNK(info.st_mode) else None
            found = found or withheld.by_name(path)
        if found:
            left[path] = found
        elif stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
            files[path] = info
    for path in withheld.owners(files):
        if path not in listing.taken:
            left[path] = withheld.OWNERS
            del files[path]
    return Selection(files, left)


class _Folders:
    """Folders of a tree, each looked at once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, tuple[bool, str, Reason | None]] = {"": (True, "", None)}

    def of(self, folder: str) -> tuple[bool, str, Reason | None]:
        """Whether it is a real folder, and the one (with `/`) that is left out with all in it, if any, and why."""
        if folder not in self._known:
            above = self.of(folder.rpartition("/")[0])
            self._known[folder] = above if not above[0] or above[1] else self._look(folder)
        return self._known[folder]

    def _look(self, folder: str) -> tuple[bool, str, Reason | None]:
        try:
            if not stat.S_ISDIR((self._root / folder).lstat().st_mode):
                return False, "", None
        except OSError:
            return False, "", None
        reason = withheld.of_folder(self._root, folder)
        return True, f"{folder}/" if reason else "", reason
