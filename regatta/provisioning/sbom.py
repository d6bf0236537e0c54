"""What a bundle is made of, as a CycloneDX list (SBOM): name, version, package URL and sums of every part."""

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from packaging.utils import parse_wheel_filename

SPEC = "1.6"
"""Version of CycloneDX."""
_HADOOP = re.compile(r"hadoop-(\d+(?:\.\d+)+)")


@dataclass(frozen=True)
class Component:
    """One file of the bundle: `path` in it, `sums` by CycloneDX's names of algorithms, `notes` for a reader."""

    name: str
    version: str
    purl: str
    path: str
    sums: Mapping[str, str]
    kind: str = "library"
    notes: Mapping[str, str] = field(default_factory=dict)


def wheel(path: str, sha256: str, made_from: str | None = None) -> Component:
    """A wheel, whose file name says what it is; `made_from`: SHA-256 of the source that it was made from."""
    name, version, _, _ = parse_wheel_filename(PurePosixPath(path).name)
    notes = {"regatta:source-sha256": made_from} if made_from else {}
    return package(path, sha256, name, str(version), notes)


def package(path: str, sha256: str, name: str, version: str, notes: Mapping[str, str] | None = None) -> Component:
    """A package of Python, or what a file of the bundle has of it."""
    return Component(name, version, f"pkg:pypi/{name}@{_word(version)}", path, {"SHA-256": sha256}, notes=notes or {})


def debian(path: str, sha256: str, name: str, version: str, architecture: str, suite: str) -> Component:
    """A Debian or Ubuntu package."""
    vendor = "ubuntu" if suite in ("jammy", "noble") else "debian"
    purl = f"pkg:deb/{vendor}/{_word(name)}@{_word(version)}?arch={architecture}&distro={suite}"
    return Component(name, version, purl, path, {"SHA-256": sha256})


def hadoop(path: str, sha256: str, sha512: str) -> Component:
    """The Hadoop tarball."""
    found = _HADOOP.search(PurePosixPath(path).name)
    version = found[1] if found else ""
    purl = f"pkg:generic/hadoop{f'@{version}' if version else ''}"
    return Component("hadoop", version, purl, path, {"SHA-256": sha256, "SHA-512": sha512}, "application")


def spark(path: str, sha256: str, lock: str) -> Component:
    """Spark's archive, made of the package that its lock names."""
    found = re.search(r"^pyspark==([\w.]+)", lock, re.M)
    version = found[1] if found else ""
    return Component("pyspark", version, f"pkg:pypi/pyspark@{version}", path, {"SHA-256": sha256}, "application")


def document(subject: str, sha256: str, parts: Iterable[Component]) -> str:
    """The list as JSON. `subject` is the archive's file name; a file that is there twice is one part of two places."""
    places: dict[tuple[str, str], list[Component]] = {}
    for part in parts:
        places.setdefault((part.purl, part.sums["SHA-256"]), []).append(part)
    made = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "tools": {"components": [{"type": "application", "name": "regatta"}]},
            "component": {"type": "file", "name": subject, "hashes": [{"alg": "SHA-256", "content": sha256}]},
        },
        "components": [_component(found) for _, found in sorted(places.items())],
    }
    return json.dumps(made, indent=1) + "\n"


def _component(found: list[Component]) -> dict[str, Any]:
    part = found[0]
    notes = [("regatta:path", one.path) for one in found] + sorted(part.notes.items())
    return {
        "type": part.kind,
        "bom-ref": f"{part.purl}#{part.sums['SHA-256']}",
        "name": part.name,
        **({"version": part.version} if part.version else {}),
        "purl": part.purl,
        "hashes": [{"alg": name, "content": value} for name, value in sorted(part.sums.items())],
        "properties": [{"name": name, "value": value} for name, value in notes],
    }


def _word(text: str) -> str:
    return quote(text, safe=":~.-_")
