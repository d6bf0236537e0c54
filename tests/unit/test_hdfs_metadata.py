"""Root unpacks a copy of HDFS's metadata: only what belongs in one, and nowhere else."""

import io
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import modules
import pytest

from ansible import module_utils


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in ("systemd", "hdfs_web", "disk"):
        if (modules.ANSIBLE / f"module_utils/{name}.py").exists():
            found = modules.load(f"ansible.module_utils.{name}", f"module_utils/{name}.py")
            monkeypatch.setitem(sys.modules, f"ansible.module_utils.{name}", found)
            monkeypatch.setattr(module_utils, name, found, raising=False)
    return modules.load("hdfs_metadata", "roles/hdfs/library/hdfs_metadata.py")


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, target, 0o6777
    made.size = 2 if kind == tarfile.REGTYPE else 0
    return made


def packed(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as archive:
        for one in members:
            archive.addfile(one, io.BytesIO(b"ok") if one.isreg() else None)
    return path


def test_a_copy_is_unpacked(metadata: ModuleType, tmp_path: Path) -> None:
    names = ("VERSION", "fsimage_0000000000000000042", "fsimage_0000000000000000042.md5")
    metadata.unpack(packed(tmp_path / "copy.tar", *map(member, names)), tmp_path / "current")
    assert {path.name: path.read_bytes() for path in (tmp_path / "current").iterdir()} == dict.fromkeys(names, b"ok")
    assert not any(path.stat().st_mode & 0o6000 for path in (tmp_path / "current").iterdir())


@pytest.mark.parametrize(
    "one",
    [
        member("../evil"),
        member("/tmp/evil"),
        member("a/VERSION"),
        member("evil"),
        member("VERSION", tarfile.SYMTYPE, "/etc/shadow"),
        member("VERSION", tarfile.LNKTYPE, "/etc/shadow"),
        member("VERSION", tarfile.CHRTYPE),
        member("fsimage_1", tarfile.FIFOTYPE),
    ],
    ids=lambda one: f"{one.name} {one.type!r}",
)
def test_what_does_not_belong_there_is_refused(metadata: ModuleType, tmp_path: Path, one: tarfile.TarInfo) -> None:
    with pytest.raises(metadata.MetadataError, match="does not belong"):
        metadata.unpack(packed(tmp_path / "copy.tar", one), tmp_path / "current")
    assert list((tmp_path / "current").iterdir()) == [] and not (tmp_path / "evil").exists()
