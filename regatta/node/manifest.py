"""Lists what a tree consists of: the same code on the controller and on the nodes, so that both compute the same hash.

An entry is `[path, kind, content]`: kind `f` (file), `x` (executable file) or `l` (symbolic link); content is the
SHA-256 of a file's bytes, or a link's target. Paths are relative, with `/`; bytes that are no UTF-8 are surrogate
escapes.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import List

Entry = List[str]


def entry(root: str | os.PathLike[str], path: str) -> Entry | None:
    """The manifest entry of `root/path`; None where it is neither a file nor a link."""
    full = os.path.join(root, path)
    info = os.lstat(full)
    if stat.S_ISLNK(info.st_mode):
        return [path, "l", os.readlink(full)]
    if not stat.S_ISREG(info.st_mode):
        return None
    return [path, "x" if info.st_mode & 0o111 else "f", file_hash(full)]


def file_hash(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def release_id(entries: list[Entry]) -> str:
    """The id of a tree: 16 hexadecimal digits over its sorted entries."""
    digest = hashlib.sha256()
    for item in sorted(entries):
        digest.update(json.dumps(item, ensure_ascii=True).encode() + b"\n")
    return digest.hexdigest()[:16]


def walk(root: str) -> list[str]:
    """Sorted relative paths of all files and links below `root`."""
    found = []
    for folder, folders, files in os.walk(root):
        base = os.path.relpath(folder, root)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in files + links:
            found.append(name if base == "." else os.path.join(base, name))
    return sorted(found)


def first_difference(expected: list[Entry], actual: list[Entry]) -> tuple[str, str] | None:
    """`(path, what)` of the first entry in which two manifests differ; None where they are equal."""
    want, have = ({item[0]: item[1:] for item in side} for side in (expected, actual))
    for path in sorted(want.keys() | have.keys()):
        if path not in have:
            return path, "is missing"
        if path not in want:
            return path, "is not part of the release"
        if want[path] != have[path]:
            return path, "has another mode" if want[path][1] == have[path][1] else "has other content"
    return None
