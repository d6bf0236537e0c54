"""A lock as text -> its entries: one version of a package each, with the SHA-256 of every file that may be it.

The form is that of pip's requirements files, of which a lock has only `name==version ; marker --hash=sha256:...`.
"""

import re
from dataclasses import dataclass

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from regatta.errors import RegattaError
from regatta.program import checkout_only

_HASH = re.compile(r"--hash[= ]\s*sha256:([0-9a-f]{64})(?=\s|$)")
_COMMENT = re.compile(r"(^|\s)#.*$")


class LockError(RegattaError):
    """The lock cannot be read, or it does not say exactly one version of a package and its files."""


@dataclass(frozen=True)
class Entry:
    """One version of a package: `hashes` are the SHA-256 of its files, `line` is where the lock has it."""

    name: str
    version: str
    marker: Marker | None
    hashes: tuple[str, ...]
    line: int

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"

    @property
    def requirement(self) -> str:
        """The line for pip's `--require-hashes`, without the marker."""
        return " ".join((str(self), *(f"--hash=sha256:{value}" for value in self.hashes)))


def entries(text: str) -> list[Entry]:
    """All entries of a lock, whatever their markers. LockError names the line that is none."""
    return [_entry(number, line) for number, line in _logical(text)]


def _logical(text: str) -> list[tuple[int, str]]:
    """Lines as they continue behind a backslash, each with the number of its first one; no comments."""
    found: list[tuple[int, str]] = []
    begun: tuple[int, str] | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        goes_on = raw.rstrip().endswith("\\") and not raw.lstrip().startswith("#")
        line = _COMMENT.sub("", raw.rstrip().removesuffix("\\")).strip()
        if begun and not line:
            raise LockError(
                f"line {number} of the lock: the entry of line {begun[0]} ends here, in the middle: "
                f"{checkout_only('locks')} writes it again"
            )
        begun = (begun[0], f"{begun[1]} {line}") if begun else (number, line)
        if not goes_on:
            if begun[1]:
                found.append(begun)
            begun = None
    if begun:
        raise LockError(
            f"line {begun[0]} of the lock: its last entry is cut off: {checkout_only('locks')} writes it again"
        )
    return found


def _entry(number: int, line: str) -> Entry:
    said = f"line {number} of the lock: '{line if len(line) < 80 else line[:77] + '...'}'"
    words, _, options = line.partition("--")
    if not words.strip():
        orphan = "belongs to no package: what it belonged to is gone" if _HASH.match(line) else "is an option of pip"
        raise LockError(
            f"{said} {orphan}. A lock has only packages and their hashes: {checkout_only('locks')} writes it again"
        )
    try:
        requirement = Requirement(words.strip())
    except InvalidRequirement as error:
        raise LockError(f"{said}: {error}") from None
    exact = [item for item in requirement.specifier if item.operator == "=="]
    if len(exact) != 1 or len(requirement.specifier) != 1 or exact[0].version.endswith(".*"):
        raise LockError(f"{said} is not pinned to one version (name==version)")
    hashes = tuple(_HASH.findall(f"--{options}")) if options else ()
    if rest := _HASH.sub("", f"--{options}").strip() if options else "":
        raise LockError(f"{said}: '{rest[:40]}' is no --hash=sha256: and 64 digits")
    if not hashes:
        raise LockError(
            f"{said} has no SHA-256 of its files (--hash=sha256:...), so that nothing proves what is downloaded: "
            f"{checkout_only('locks')} writes the lock with them"
        )
    version = str(Version(exact[0].version))
    return Entry(canonicalize_name(requirement.name), version, requirement.marker, hashes, number)
