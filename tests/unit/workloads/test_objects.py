"""Object stores, against our own servers: data, their identity, and their messages."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fsspec.registry import _registry

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import buckets
import locked

from regatta.release import objects as addresses
from workloads.common import storage
from workloads.common.events import BadInput
from workloads.common.storage import errors, objects, places, prepared
from workloads.images import camelyon, generate
from workloads.images.rows import GENERATED, Room
from workloads.ppr import edgelist

pytestmark = pytest.mark.frameworks

LINES = b"".join(b"%d %d\n" % (number, number + 1) for number in range(200_000))


@pytest.fixture(scope="module")
def served() -> Iterator[buckets.Store]:
    sys.path.insert(0, str(locked.packages(buckets.LOCK)))
    with buckets.serve() as store:
        store.put("graphs/lines.txt", LINES)
        yield store
    sys.path.remove(str(locked.packages(buckets.LOCK)))


@pytest.fixture(scope="module")
def google(served: buckets.Store) -> Iterator[buckets.Store]:
    with buckets.serve(kind="gs") as store:
        store.put("graphs/lines.txt", LINES)
        yield store


@pytest.fixture(params=["s3", "gs"])
def either(request: pytest.FixtureRequest, store: buckets.Store, monkeypatch: pytest.MonkeyPatch) -> str:
    """The beginnings of a store's addresses, one kind after the other."""
    if request.param == "gs":
        for name, value in request.getfixturevalue("google").variables.items():
            monkeypatch.setenv(name, value)
    return str(request.param)


@pytest.fixture
def store(served: buckets.Store, monkeypatch: pytest.MonkeyPatch) -> buckets.Store:
    """The store, as the variables of a run say."""
    for name, value in served.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(objects, "_CONNECTED", {})
    return served


def test_addresses() -> None:
    assert places.OBJECT_STORES == addresses.PACKAGES
    place = places.locate("S3://bucket/a//b/../c.gz")
    assert (place.path, place.store, place.remote) == ("bucket/a//b/../c.gz", "s3", True)
    assert places.locate("gs://bucket").store == "gs" and places.locate("hdfs://head/x").store is None
    assert storage.is_remote("s3://b/x") and not storage.is_remote("/s3:/x") and not storage.is_remote("s3")
    for url in ("s3:///x", "s3://", "s3:x", "gs:/x"):
        with pytest.raises(BadInput, match="a bucket is missing"):
            places.locate(url)
    assert addresses.packages(["--graph=s3://b/x", "gs://b", "--checkpoint=/x", "s3"]) == ("gcsfs", "s3fs")


def test_data_are_read_as_files_are(either: str) -> None:
    bucket = f"{either}://data"
    url = f"{bucket}/graphs/lines.txt"
    with storage.open(url) as file:
        assert file.read() == LINES
        file.seek(-7, 2)
        assert file.read() == LINES[-7:]
    assert storage.size(url) == len(LINES)
    assert storage.read_ranges(url, [(3, 9), (len(LINES) - 2, 50)]) == [LINES[3:12], LINES[-2:]]
    parts = [b"".join(storage.share(url, part, 3)) for part in range(3)]
    assert b"".join(parts) == LINES and all(part.endswith(b"\n") for part in parts)
    assert storage.listing(f"{bucket}/graphs/") == [url] and storage.listing(bucket) == [f"{bucket}/graphs"]
    assert storage.exists(url) and storage.exists(f"{bucket}/graphs") and not storage.exists(f"{bucket}/gone")
    assert sum(map(len, edgelist.read(url).blocks)) == 400_000


def test_a_prepared_form_is_that_of_the_objects_content(
    store: buckets.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGATTA_PREPARED", str(tmp_path))
    url, makers = "s3://data/state.txt", (errors,)

    def once() -> tuple[str, bool]:
        def make(folder: Path) -> None:
            (folder / "x").write_bytes(storage.open(url).read())

        return prepared.once(url, None, makers, make, lambda folder: (folder / "x").read_text())

    storage.replace(url, b"one")
    monkeypatch.setenv("REGATTA_RUN_ID", "first")
    assert once() == ("one", False)
    monkeypatch.setenv("REGATTA_RUN_ID", "second")
    assert once() == ("one", True)
    storage.replace(url, b"two")
    assert once() == ("two", False)
    assert store.get("state.txt") == b"two"


def test_an_object_that_changes_while_it_is_read(either: str) -> None:
    url = f"{either}://data/changing"
    storage.replace(url, LINES)
    with storage.open(url) as file, pytest.raises(BadInput, match="has changed while it was read"):
        file.read(10)
        storage.replace(url, bytes(reversed(LINES)))
        file.read()


def test_what_is_not_there(either: str) -> None:
    for call in (storage.open, storage.size, storage.identity, storage.listing):
        with pytest.raises(BadInput, match=rf"^{either}://data/gone: the bucket has no such object"):
            call(f"{either}://data/gone")
        with pytest.raises(BadInput, match="there is no bucket 'nowhere'"):
            call(f"{either}://nowhere/x")
    with pytest.raises(BadInput, match="there is no bucket 'nowhere'"):
        storage.exists(f"{either}://nowhere/x")
    with pytest.raises(BadInput, match="no bucket 'nowhere'"):
        storage.replace(f"{either}://nowhere/x", b"")
    with pytest.raises(BadInput, match="is a folder"):
        storage.open(f"{either}://data/graphs")
    with pytest.raises(BadInput, match="is a file: give a folder"):
        storage.listing(f"{either}://data/graphs/lines.txt")


@pytest.mark.parametrize(
    "wrong",
    [
        {"AWS_ACCESS_KEY_ID": "AKIANOBODYNOBODYNOBO"},
        {"AWS_SECRET_ACCESS_KEY": "not-the-secret"},
        {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true"},
    ],
    ids=["unknown", "wrong", "none"],
)
def test_wrong_credentials(store: buckets.Store, wrong: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in wrong.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    for call in (storage.open, storage.listing):
        with pytest.raises(BadInput, match=r"refuses .*AWS_ACCESS_KEY_ID .* --env-file") as raised:
            call("s3://data/graphs/lines.txt")
        assert not any(value and value in str(raised.value) for value in wrong.values() if value != "true")


def test_a_store_that_does_not_answer(store: buckets.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses connections, one that takes them and is silent."""
    monkeypatch.setattr(objects, "CALL_SECONDS", 3.0)
    monkeypatch.setattr(objects, "RETRY_SECONDS", 4.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (1, silent.getsockname()[1]):
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            monkeypatch.setattr(objects, "_CONNECTED", {})
            began = time.monotonic()
            with pytest.raises(BadInput, match=r"no answer from the store .*AWS_ENDPOINT_URL"):
                storage.open("s3://data/x")
            assert time.monotonic() - began < 30


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    monkeypatch.delitem(_registry, "gs", raising=False)  # fsspec keeps classes
    monkeypatch.setattr(objects, "_CONNECTED", {})
    with pytest.raises(BadInput, match=r"gcsfs is missing .*--with gcsfs"):
        storage.open("gs://data/x")


def test_pictures_in_hdf5_are_read_where_they_lie(store: buckets.Store, tmp_path: Path) -> None:
    generate.write(tmp_path, 40, 1)
    for path in tmp_path.iterdir():
        store.put(f"pictures/{path.name}", path.read_bytes())
    room = Room()
    camelyon.fill(room, "s3://data/pictures", 0, 0, 9)
    made = Room()
    camelyon.fill(made, GENERATED, 40, 1, 0)
    assert room.synthetic
    np.testing.assert_array_equal(room.kept["inputs"], made.kept["inputs"][:9])
    np.testing.assert_array_equal(room.kept["test_labels"], made.kept["test_labels"])
