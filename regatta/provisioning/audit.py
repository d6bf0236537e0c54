"""`make audit DB=all.zip`: known advisories for the versions in the locks, from OSV's export; asks no network.

A range holds from `introduced` to before `fixed`, or up to `last_affected`, in the order of PEP 440; what `versions`
lists counts too (https://ossf.github.io/osv-schema/). Withdrawn advisories do not count.
"""

import json
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from regatta import paths
from regatta.errors import RegattaError
from regatta.program import checkout_only
from regatta.provisioning.lockfile import LockError, entries
from regatta.terminal import screen

_ECOSYSTEM = "PyPI"
_LARGEST = 64 << 20
_BEFORE_ALL = Version("0.dev0")
_WHERE = (
    "The file is all.zip of the ecosystem PyPI in OSV's data dumps (https://google.github.io/osv.dev/data/ says where "
    "these are). Fetch it on a machine with a network and bring it here"
)


class AuditError(RegattaError):
    """The advisories cannot be read, or they are not those of PyPI."""

    exit_code = 2


@dataclass(frozen=True)
class Pin:
    """A version of a package in the locks."""

    name: str
    version: Version
    locks: tuple[str, ...]


@dataclass(frozen=True)
class Hit:
    """An advisory that holds for a pin: `ids` with aliases, `fixed` the versions above it that fix it."""

    pin: Pin
    ids: frozenset[str]
    fixed: frozenset[Version]
    summary: str
    unclear: str = ""

    def __str__(self) -> str:
        fixed = ", ".join(str(version) for version in sorted(self.fixed))
        said = f"fixed in {fixed}" if fixed else "no fixed version is known"
        where = ", ".join(self.pin.locks)
        doubt = f"; look yourself whether this version is meant: {self.unclear}" if self.unclear else ""
        text = f"{self.pin.name} {self.pin.version} ({where}): {', '.join(sorted(self.ids))}: {said}{doubt}"
        return f"{text}\n    {self.summary}" if self.summary else text


@dataclass(frozen=True)
class Database:
    """The advisories of an export about the pins, and how large and new it is."""

    hits: tuple[Hit, ...]
    advisories: int
    newest: str


def pinned(locks: Iterable[Path]) -> list[Pin]:
    """Every version that some lock has for some Python or machine; a local label (`+cpu`) does not count."""
    found: dict[tuple[str, Version], list[str]] = {}
    for path in locks:
        try:
            listed = entries(path.read_text())
        except (OSError, UnicodeDecodeError, LockError) as error:
            raise LockError(f"{path}: {error}") from None
        for entry in listed:
            names = found.setdefault((entry.name, Version(Version(entry.version).public)), [])
            if path.name not in names:
                names.append(path.name)
    return [Pin(name, version, tuple(names)) for (name, version), names in sorted(found.items())]


def audit(database: Path, pins: Sequence[Pin]) -> Database:
    """Compare; advisories that name each other as aliases are one hit. Raises AuditError."""
    by_name: dict[str, list[Pin]] = {}
    for pin in pins:
        by_name.setdefault(pin.name, []).append(pin)
    hits: list[Hit] = []
    count, newest, others = 0, "", set()
    for member, record in _records(database):
        try:
            found = [item for item in record.get("affected", ()) if "package" in item]
            ecosystems = {item["package"]["ecosystem"].partition(":")[0] for item in found}
            if not record.get("withdrawn"):
                hits += _hits(record, found, by_name)
            stamp = str(record.get("modified", ""))
        except (AttributeError, TypeError, KeyError) as error:
            raise AuditError(
                f"{database}: {member} is no advisory as OSV writes them: fetch it again ({error!r})"
            ) from None
        count += _ECOSYSTEM in ecosystems
        others |= ecosystems
        newest = max(newest, stamp)
    if not count:
        has = f"only advisories of {', '.join(sorted(others))}" if others else "no advisory"
        raise AuditError(f"{database} has {has}, and none of {_ECOSYSTEM}. {_WHERE}")
    return Database(tuple(_merged(hits)), count, newest[:10])


def _records(database: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The advisories, one at a time."""
    try:
        with zipfile.ZipFile(database) as archive:
            for info in archive.infolist():
                if not info.filename.endswith(".json"):
                    continue
                if info.file_size > _LARGEST:
                    raise AuditError(
                        f"{database}: {info.filename} has {info.file_size} bytes, too many for an advisory: fetch it "
                        "again"
                    )
                record = json.loads(archive.read(info))
                if not isinstance(record, dict):
                    raise AuditError(f"{database}: {info.filename} is no advisory as OSV writes them: fetch it again")
                yield info.filename, record
    except FileNotFoundError:
        raise AuditError(f"there is no file {database}. {_WHERE}") from None
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        raise AuditError(f"{database} cannot be read as a zip of advisories: {error}. Fetch it again") from None


def _hits(
    record: Mapping[str, Any], found: Sequence[Mapping[str, Any]], by_name: Mapping[str, list[Pin]]
) -> Iterator[Hit]:
    for item in found:
        package = item["package"]
        if package["ecosystem"].partition(":")[0] != _ECOSYSTEM:
            continue
        for pin in by_name.get(canonicalize_name(package["name"]), ()):
            ranges = [one for one in item.get("ranges", ()) if one["type"] != "GIT"]
            listed = item.get("versions", ())
            unclear = ""
            try:
                holds = any(_among(pin.version, one["events"]) for one in ranges)
            except InvalidVersion as error:
                holds, unclear = True, str(error)
            if not ranges and not listed:
                holds, unclear = True, "it has no range of versions"
            if _listed(pin.version, listed):
                holds, unclear = True, ""
            if holds:
                ids = frozenset([record["id"], *record.get("aliases", ())])
                yield Hit(pin, ids, _fixes(pin.version, ranges), str(record.get("summary", "")).strip(), unclear)


def _among(version: Version, events: Sequence[Mapping[str, str]]) -> bool:
    """Whether a version is in a range of events."""
    points, limits = [], []
    for event in events:
        for kind, text in event.items():
            if kind == "limit":
                limits.append(text)
            elif kind in ("introduced", "fixed", "last_affected"):
                points.append((_version(text), kind != "introduced", kind))
    among = False
    for at, _, kind in sorted(points):
        if kind == "introduced":
            among = among or version >= at
        elif kind == "fixed":
            among = among and version < at
        else:
            among = among and version <= at
    return among and (not limits or any(text == "*" or version < _version(text) for text in limits))


def _listed(version: Version, listed: Iterable[str]) -> bool:
    for text in listed:
        try:
            if Version(text) == version:
                return True
        except InvalidVersion:
            continue
    return False


def _fixes(version: Version, ranges: Iterable[Mapping[str, Any]]) -> frozenset[Version]:
    found = set()
    for event in (event for one in ranges for event in one["events"] if "fixed" in event):
        try:
            found.add(_version(event["fixed"]))
        except InvalidVersion:
            continue
    return frozenset(one for one in found if one > version)


def _version(text: str) -> Version:
    return _BEFORE_ALL if text == "0" else Version(text)


def _merged(hits: Iterable[Hit]) -> list[Hit]:
    merged: list[Hit] = []
    for hit in hits:
        same = [one for one in merged if one.pin == hit.pin and one.ids & hit.ids]
        merged = [one for one in merged if one not in same]
        every = [*same, hit]
        merged.append(
            Hit(
                hit.pin,
                frozenset().union(*(one.ids for one in every)),
                frozenset().union(*(one.fixed for one in every)),
                next((one.summary for one in every if one.summary), ""),
                hit.unclear if all(one.unclear for one in every) else "",
            )
        )
    return sorted(merged, key=lambda hit: (hit.pin.name, hit.pin.version, sorted(hit.ids)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is known of the locks' versions; 1 where there is anything, 2 where the advisories cannot be read."""
    screen.install()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if len(words) != 1:
            raise AuditError(f"say which file has the advisories: {checkout_only('audit DB=all.zip')}. {_WHERE}")
        pins = pinned(sorted((paths.PROJECT / "requirements").glob("*.lock")))
        found = audit(Path(words[0]).expanduser(), pins)
    except RegattaError as error:
        print(error, file=sys.stderr)
        return 2
    for hit in found.hits:
        print(hit)
    packages = len({hit.pin.name for hit in found.hits})
    print(
        f"{len(found.hits) or 'no'} known advisories for {packages or 'any'} of {len(pins)} versions in the locks "
        f"({found.advisories:,} advisories of PyPI, the newest of {found.newest})"
    )
    return 1 if found.hits else 0


if __name__ == "__main__":
    raise SystemExit(main())
