"""Files that are never synced, or only when a person asks for it: secrets, environments, caches, links."""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HEAD_BYTES = 1 << 16
_CACHES = {
    "__pycache__",
    "node_modules",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    ".ipynb_checkpoints",
    ".tox",
    ".nox",
}
_INVENTORY = ("hosts.yml", "hosts.yaml", "hosts.ini", "known_hosts")
_NAMES = re.compile(r"(\.env(\.(?!example$|sample$|template$).*)?|\.ssh|.*\.pem|id_.*(?<!\.py))\Z", re.DOTALL)
_HEADER = rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_KEY = re.compile(
    rb"\A\s*" + _HEADER + rb"|^[ \t]*" + _HEADER + rb"[ \t]*\r?\n[ \t]*(?:[A-Za-z0-9+/=]{16}|[A-Z][A-Za-z-]+: )|"
    rb"" + _HEADER + rb"(?:\\r)?\\n[A-Za-z0-9+/=]{16}",
    re.MULTILINE,
)
"""At the beginning of a file; on its own line, with a key below; within a string of JSON or of a program."""
_PUTTY = b"PuTTY-User-Key-File-"
_MOST_LINKS = 40


@dataclass(frozen=True)
class Reason:
    """Why something is not synced. `final`: nothing takes it in; `expected`: it is not missed, no need to name it."""

    text: str
    final: bool = False
    expected: bool = False


GIT = Reason("git's own", final=True, expected=True)
CACHE = Reason("a cache", final=True, expected=True)
MARKED_CACHE = Reason("a cache, says its CACHEDIR.TAG", final=True)
OWN_ENVIRONMENT = Reason("a Python environment", final=True, expected=True)
ENVIRONMENT = Reason("a Python environment", final=True)
INVENTORY = Reason("an inventory's secrets", final=True)
KEY = Reason("a private key", final=True)
NAMED = Reason("may be a secret, by its name")
OWNERS = Reason("only its owner may read it")
ABSOLUTE = Reason("a link with an absolute path, which means something else on a node")
OUTSIDE = Reason("a link that leads out of the tree")


def of_folder(root: Path, path: str) -> Reason | None:
    """Why nothing of a folder is synced; None where it may be. It is looked at, not into its files."""
    full = root / path
    name = full.name
    if name == ".git":
        return GIT
    if name == "secrets" and (full.parent.parent.name == "inventory" or is_inventory(full.parent)):
        return INVENTORY
    if name in _CACHES:
        return CACHE
    if name == ".venv":
        return OWN_ENVIRONMENT
    if (full / "pyvenv.cfg").is_file() or (full / "conda-meta").is_dir():
        return ENVIRONMENT
    if (full / "CACHEDIR.TAG").is_file():
        return MARKED_CACHE
    return None


def is_inventory(folder: Path) -> bool:
    """Whether a folder holds an inventory of Regatta's."""
    return any((folder / name).is_file() for name in _INVENTORY)


def by_name(path: str) -> Reason | None:
    """Whether a file's name, or that of a folder on its path, is one that secrets have."""
    if _NAMES.match(path[path.rfind("/") + 1 :]) or any(f"{folder}/" in f"/{path}" for folder in ("/.ssh", "/.env")):
        return NAMED
    return None


def owners(files: Mapping[str, os.stat_result]) -> list[str]:
    """Files that only their owner may read among files that others may; none where no one else may read any."""
    modes = {path: info.st_mode for path, info in files.items() if stat.S_ISREG(info.st_mode)}
    closed = [path for path, mode in modes.items() if not mode & 0o044]
    return closed if len(closed) < len(modes) else []


def is_key(file: str) -> bool:
    """Whether a regular file is a private key, by the content of its beginning. Raises OSError."""
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        head = os.read(opened, HEAD_BYTES)
    finally:
        os.close(opened)
    return head.startswith(_PUTTY) or (b"PRIVATE KEY" in head and _KEY.search(head) is not None)


def of_link(root: Path, path: str) -> Reason | None:
    """Why a symbolic link is not synced: one that would be followed out of a release on a node, step by step.

    A link that leads nowhere, or in circles, within the tree does no harm.
    """
    *here, name = path.split("/")
    ahead, links = [name], 0
    while ahead:
        word = ahead.pop(0)
        if word in ("", "."):
            continue
        if word == "..":
            if not here:
                return OUTSIDE
            here.pop()
            continue
        here.append(word)
        full = root.joinpath(*here)
        if full.is_symlink():
            links += 1
            target = os.readlink(full)  # noqa: PTH115 (a Path would drop what `..` and `.` mean)
            if target.startswith("/"):
                return ABSOLUTE
            if links > _MOST_LINKS:
                return None
            here.pop()
            ahead = target.split("/") + ahead
    return None
