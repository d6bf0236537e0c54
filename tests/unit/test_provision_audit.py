"""The audit: versions of the locks against an export of advisories as OSV writes them."""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from regatta.provisioning import audit
from regatta.provisioning.audit import AuditError, Hit, Pin

HASH = "--hash=sha256:" + "0" * 64
TORCH = {
    "id": "GHSA-tttt",
    "aliases": ["CVE-2026-1"],
    "modified": "2026-11-20T10:00:00Z",
    "summary": "Sparse tensors read out of bounds",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "Torch"},
            "ranges": [
                {"type": "GIT", "events": [{"introduced": "0"}, {"fixed": "abcdef"}]},
                {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.14.0"}]},
            ],
        }
    ],
}
SAME = {
    "id": "PYSEC-2026-1",
    "aliases": ["CVE-2026-1"],
    "modified": "2026-11-21T10:00:00Z",
    "affected": [{"package": {"ecosystem": "PyPI", "name": "torch"}, "versions": ["2.12.0", "2.13.0"]}],
}
OTHER = {
    "id": "GHSA-oooo",
    "modified": "2026-01-01T00:00:00Z",
    "affected": [{"package": {"ecosystem": "PyPI", "name": "absent"}, "versions": ["1.0"]}],
}


@pytest.fixture
def pins(tmp_path: Path) -> list[Pin]:
    """The content of two locks."""
    (tmp_path / "a.lock").write_text(f"torch==2.13.0+cpu {HASH}\nsix==1.5 ; python_version < '3' {HASH}\n")
    (tmp_path / "b.lock").write_text(f"torch==2.13.0 {HASH}\nsix==1.6 {HASH}\n")
    return audit.pinned([tmp_path / "a.lock", tmp_path / "b.lock"])


def export(folder: Path, records: Sequence[Any]) -> Path:
    path = folder / "all.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, record in enumerate(records):
            archive.writestr(f"{number}.json", record if isinstance(record, bytes) else json.dumps(record))
    return path


def advisory(events: Sequence[dict[str, str]] = (), versions: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """An advisory about six."""
    affected: dict[str, Any] = {"package": {"ecosystem": "PyPI", "name": "six"}}
    if events:
        affected["ranges"] = [{"type": "ECOSYSTEM", "events": list(events)}]
    if versions:
        affected["versions"] = list(versions)
    return {"id": "X-1", "modified": "2026-01-01T00:00:00Z", "affected": [affected], **more}


def test_all_versions_of_all_locks_are_looked_at(pins: list[Pin]) -> None:
    assert [(pin.name, str(pin.version), pin.locks) for pin in pins] == [
        ("six", "1.5", ("a.lock",)),
        ("six", "1.6", ("b.lock",)),
        ("torch", "2.13.0", ("a.lock", "b.lock")),
    ]


def test_an_export_of_three_advisories(tmp_path: Path, pins: list[Pin]) -> None:
    found = audit.audit(export(tmp_path, [TORCH, SAME, OTHER]), pins)
    ids = frozenset(["GHSA-tttt", "CVE-2026-1", "PYSEC-2026-1"])
    assert found.hits == (Hit(pins[2], ids, frozenset([Version("2.14.0")]), "Sparse tensors read out of bounds"),)
    assert (found.advisories, found.newest) == (3, "2026-11-21")
    said = str(found.hits[0])
    assert "torch 2.13.0" in said and "fixed in 2.14.0" in said and "PYSEC-2026-1" in said


@pytest.mark.parametrize(
    ("record", "affected"),
    [
        (advisory([{"introduced": "0"}]), ["1.5", "1.6"]),
        (advisory([{"introduced": "0"}, {"fixed": "1.6"}]), ["1.5"]),
        (advisory([{"introduced": "1.5.1"}, {"fixed": "1.7"}]), ["1.6"]),
        (advisory([{"introduced": "1.6rc1"}]), ["1.6"]),
        (advisory([{"introduced": "0"}, {"fixed": "1.5.post1"}]), ["1.5"]),
        (advisory([{"introduced": "0"}, {"last_affected": "1.5"}]), ["1.5"]),
        (advisory([{"introduced": "0"}, {"last_affected": "1.4"}]), []),
        (advisory([{"introduced": "1.10"}]), []),
        (advisory([{"fixed": "1.2"}, {"introduced": "0"}, {"introduced": "1.6"}]), ["1.6"]),
        (advisory([{"introduced": "0"}, {"fixed": "1.2"}, {"introduced": "1.3"}, {"fixed": "1.6"}]), ["1.5"]),
        (advisory([{"introduced": "0"}, {"limit": "1.6"}]), ["1.5"]),
        (advisory(versions=["1.6.0"]), ["1.6"]),
        (advisory(versions=["1.60", "nonsense"]), []),
        (advisory([{"introduced": "0"}, {"fixed": "1.0"}], versions=["1.5"]), ["1.5"]),
        (advisory([{"introduced": "0"}], withdrawn="2026-01-02T00:00:00Z"), []),
        (advisory([{"introduced": "0"}], affected=[{"package": {"ecosystem": "npm", "name": "six"}}]), []),
    ],
)
def test_versions_are_compared_as_pythons_own(
    tmp_path: Path, pins: list[Pin], record: dict[str, Any], affected: list[str]
) -> None:
    found = audit.audit(export(tmp_path, [record, OTHER]), pins)
    assert [str(hit.pin.version) for hit in found.hits] == affected


@pytest.mark.parametrize("record", [advisory([{"introduced": "soon"}]), advisory()])
def test_a_range_that_cannot_be_judged_is_shown(tmp_path: Path, pins: list[Pin], record: dict[str, Any]) -> None:
    found = audit.audit(export(tmp_path, [record]), pins)
    assert [hit.pin.name for hit in found.hits] == ["six", "six"] and all(hit.unclear for hit in found.hits)


@pytest.mark.parametrize(
    "harm", ["no zip", "empty", "truncated", "damaged", "no json", "no advisory", "npm", "nothing"]
)
def test_a_file_that_is_no_export_is_refused(tmp_path: Path, pins: list[Pin], harm: str) -> None:
    npm = {"id": "N", "affected": [{"package": {"ecosystem": "npm", "name": "torch"}, "versions": ["2.13.0"]}]}
    records = {"no json": [TORCH, b"{"], "no advisory": [TORCH, [1]], "npm": [npm], "nothing": []}
    path = export(tmp_path, records.get(harm, [TORCH, SAME, OTHER]))
    body = path.read_bytes()
    if harm == "no zip":
        path.write_text("advisories")
    elif harm == "empty":
        path.write_bytes(b"")
    elif harm == "truncated":
        path.write_bytes(body[: len(body) // 2])
    elif harm == "damaged":
        place = body.index(b"0.json") + 40
        path.write_bytes(body[:place] + bytes([body[place] ^ 0xFF]) + body[place + 1 :])
    with pytest.raises(AuditError, match=r"all\.zip"):
        audit.audit(path, pins)


def test_what_is_printed_and_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main([]) == 2
    assert "osv.dev" in capsys.readouterr().err
    assert audit.main([str(tmp_path / "none.zip")]) == 2
    assert "osv.dev" in capsys.readouterr().err
    assert audit.main([str(export(tmp_path, [OTHER]))]) == 0
    assert "no known advisories" in capsys.readouterr().out
    every = {**TORCH, "affected": [{"package": {"ecosystem": "PyPI", "name": "ray"}, "versions": [_ray()]}]}
    assert audit.main([str(export(tmp_path, [every]))]) == 1
    said = capsys.readouterr().out
    assert f"ray {_ray()} (node-test.lock, node.lock): CVE-2026-1, GHSA-tttt" in said


def _ray() -> str:
    lock = (audit.paths.PROJECT / "requirements/node.lock").read_text()
    return lock.partition("\nray==")[2].split()[0]
