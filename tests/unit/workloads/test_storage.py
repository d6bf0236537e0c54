"""Stored data, as far as it needs no HDFS: addresses, plain files, shares of lines, errors, the prepared forms."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.common import storage
from workloads.common.events import BadInput
from workloads.common.storage import calls, errors, hdfs, places, prepared, webhdfs
from workloads.common.storage.errors import StorageError

CORE = "<configuration><property><name>fs.defaultFS</name><value>hdfs://head:8020/</value></property></configuration>"
SITE = CORE.replace("fs.defaultFS", "dfs.namenode.http-address").replace("hdfs://head:8020/", "head:9871")


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hadoop's settings of a host."""
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "core-site.xml").write_text(CORE)
    (folder / "hdfs-site.xml").write_text(SITE)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
    return folder


def test_addresses(conf: Path) -> None:
    assert places.locate("hdfs:///a//b/../c.gz") == places.Place("hdfs:///a//b/../c.gz", "/a/c.gz", "hdfs://head:8020")
    assert places.locate("hdfs://other:9000/x").address == ("other", 9000)
    assert places.locate("HDFS://other/x").address == ("other", 8020)
    assert places.locate("file:///a/b").path == "/a/b"
    assert places.locate("a b#c").path == "a b#c"
    assert places.web_address(places.locate("hdfs:///x")) == "http://head:9871"
    assert places.web_address(places.locate("hdfs://other/x")) == "http://other:9870"
    for url, part in {
        "ftp://host/x": "unknown kind",
        "hdfs:/x": "hdfs:///path",
        "hdfs://host": "path is missing",
        "hdfs://host:no/x": "host:port",
        "file://host/x": "another host",
    }.items():
        with pytest.raises(StorageError, match=part):
            places.locate(url)


def test_without_hdfs_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    for call in (storage.open, storage.size, storage.exists, storage.identity, storage.listing):
        with pytest.raises(BadInput, match="regatta provision"):
            call("hdfs:///x")


def test_a_namenode_that_is_not_there_is_said_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "NAMENODE_RESTART_SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(StorageError, match="no host 'no-such-host"):
        storage.open("hdfs://no-such-host.invalid:8020/x")
    with pytest.raises(StorageError, match="no NameNode answers"):
        storage.open("hdfs://127.0.0.1:1/x")
    with pytest.raises(StorageError, match="no NameNode answers"):
        webhdfs.state(places.Place("hdfs:///", "/", "hdfs://127.0.0.1:1"))
    assert time.monotonic() - began < 20


def test_plain_files(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"0123456789")
    for url in (path, str(path), f"file://{path}"):
        with storage.open(url) as file:
            assert file.read() == b"0123456789"
        assert storage.size(url) == 10
        assert storage.exists(url)
        assert storage.read_range(url, 8, 5) == b"89"
        assert storage.read_ranges(url, [(0, 2), (5, 1)]) == [b"01", b"5"]
    assert storage.listing(tmp_path) == [str(path)]
    before = storage.identity(path)
    path.write_bytes(b"012345678X")
    os.utime(path, ns=(1, 1))
    assert storage.identity(path) != before
    for call in (storage.open, storage.size, storage.identity, storage.listing):
        with pytest.raises(StorageError, match=r"gone: No such file"):
            call(tmp_path / "gone")
    with pytest.raises(StorageError, match=r"[Ii]s a (folder|directory)"):
        storage.open(tmp_path)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(max_size=9).filter(lambda line: b"\n" not in line)),
    st.integers(1, 7),
    st.integers(1, 12),
    st.booleans(),
)
def test_every_line_is_whole_and_in_one_share(
    tmp_path_factory: pytest.TempPathFactory, rows: list[bytes], parts: int, block_bytes: int, ended: bool
) -> None:
    path = tmp_path_factory.mktemp("share") / "x"
    path.write_bytes(b"\n".join(rows) + (b"\n" if ended else b""))
    blocks = [block for part in range(parts) for block in storage.share(path, part, parts, block_bytes)]
    assert b"".join(blocks) == path.read_bytes()
    assert all(block.endswith(b"\n") for block in blocks[:-1])


@pytest.mark.parametrize(
    ("said", "part", "passing"),
    [
        (
            'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=x\\n\\tat")',
            "may not",
            False,
        ),
        ('RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot create\\n")', "safe mode", True),
        ('RPCError("java.io.IOException", "File /x could only be written to 0 of the 1 nodes\\n")', "space", False),
        ('DataTransferError("All DataNodes failed: [..]")', "reading failed", True),
        (
            'RPCError("org.apache.hadoop.fs.ParentNotDirectoryException", "/d (is not a directory)")',
            "not a folder",
            False,
        ),
        ('InvalidArgument("No fs.defaultFS setting found")', "regatta provision", False),
        ("something else", "reading failed: something else", False),
    ],
)
def test_what_a_client_says_becomes_one_sentence(said: str, part: str, passing: bool) -> None:
    error = errors.translate(RuntimeError(said), "hdfs:///x", "reading")
    assert str(error).startswith("hdfs:///x: ")
    assert part in str(error)
    assert "\n" not in str(error)
    assert error.passing is passing


def test_what_may_pass_is_tried_again_within_limits() -> None:
    tries: list[float] = []

    def fails() -> None:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise TimeoutError("no answer")

    calls.again(fails, "hdfs:///x", "reading", 10)
    assert len(tries) == 3

    def missing() -> None:
        tries.append(time.monotonic())
        raise FileNotFoundError("/x")

    with pytest.raises(StorageError, match="no such file"):
        calls.again(missing, "hdfs:///x", "reading", 10)
    assert len(tries) == 4
    began = time.monotonic()
    with pytest.raises(StorageError, match="no answer within"):
        calls.again(lambda: calls.within(0.1, threading.Event().wait), "hdfs:///x", "reading", 1)
    assert time.monotonic() - began < 3


def test_a_prepared_form_is_made_once_for_a_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGATTA_PREPARED", str(tmp_path / "prepared"))
    source = tmp_path / "source"
    source.write_text("one")
    made: list[str] = []
    makers: tuple[ModuleType, ...] = (errors,)

    def make(folder: Path) -> None:
        made.append(source.read_text())
        (folder / "x").write_text(source.read_text())

    def use(parameters: object = None) -> tuple[str, bool]:
        return prepared.once(str(source), parameters, makers, make, lambda folder: (folder / "x").read_text())

    monkeypatch.setenv("REGATTA_RUN_ID", "first")
    assert use() == ("one", False)
    assert use() == ("one", False), "another rank of the run that made it"
    monkeypatch.setenv("REGATTA_RUN_ID", "second")
    assert use() == ("one", True)
    assert use("other") == ("one", False)
    source.write_text("two")
    assert use() == ("two", False)
    assert made == ["one", "one", "two"]


def test_a_source_that_changes_while_it_is_read_is_never_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGATTA_PREPARED", str(tmp_path / "prepared"))
    source = tmp_path / "source"
    source.write_text("0")

    def make(folder: Path) -> None:
        (folder / "x").write_text(source.read_text())
        source.write_text(source.read_text() + "0")

    with pytest.raises(StorageError, match="changes while it is read"):
        prepared.once(str(source), None, (errors,), make, Path.exists)
    assert not [path for path in (tmp_path / "prepared").iterdir() if path.is_dir()]


def test_the_cache_is_bounded_and_drops_what_was_not_used(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "old", "oldest")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "old.half").mkdir()
    prepared.prune(tmp_path, keep="oldest", limit=150)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"new", "oldest"}
