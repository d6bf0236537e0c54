"""The store: written once and whole, found by prefix, and one broken file hides nothing."""

import errno
import os
import stat
import threading
from pathlib import Path

import pytest
from msgspec import structs

from regatta.errors import RecordError
from regatta.files import write
from regatta.records.clocks import Phases
from regatta.records.document import load, to_json
from regatta.records.record import ClusterFacts, ExitInfo, NodeFacts, Record, RunIdentity, Speed
from regatta.records.store import Store


def made(run_id: str, started: str = "2026-01-31T10:00:00Z") -> Record:
    return Record(
        RunIdentity(run_id, "ppr", "torch", started),
        ClusterFacts("lab", (NodeFacts("node1", "10.0.0.1", (0,)),)),
        Speed(),
        Phases(total=1.0),
        (),
        ExitInfo("succeeded", 0),
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "deep" / "results")


def names(store: Store) -> list[str]:
    return sorted(path.name for path in store.root.iterdir())


def test_saved_whole_and_readable_by_all(store: Store) -> None:
    before = os.umask(0o077)
    try:
        path = store.save(made("ppr-1"))
    finally:
        os.umask(before)
    assert path == store.root / "ppr-1.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert load(path) == made("ppr-1")
    assert names(store) == ["ppr-1.json"]


def test_never_overwritten(store: Store) -> None:
    path = store.save(made("ppr-1"))
    before = path.read_text()
    with pytest.raises(RecordError, match=r"ppr-1\.json exists: records are never overwritten"):
        store.save(made("ppr-1", "2027-01-01T00:00:00Z"))
    assert path.read_text() == before
    assert names(store) == ["ppr-1.json"]


def refuse_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)


@pytest.mark.parametrize("links", [True, False])
def test_of_many_that_save_the_same_run_one_wins(store: Store, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    if not links:
        refuse_links(monkeypatch)
    won: list[str] = []
    lost: list[str] = []
    together = threading.Barrier(8)

    def save(number: int) -> None:
        record = structs.replace(made("same"), warnings=(f"writer {number}",))
        together.wait()
        try:
            store.save(record)
        except RecordError as error:
            lost.append(str(error))
        else:
            won.append(f"writer {number}")

    threads = [threading.Thread(target=save, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(lost) == 7
    assert list(store.find("same").warnings) == won
    assert names(store) == ["same.json"]


def test_nothing_is_left_of_what_cannot_be_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store.save(made("first"))
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(RecordError, match=r"second\.json cannot be written: .* \(No space left on device\)"):
        store.save(made("second"))
    assert names(store) == ["first.json"]


def test_an_invalid_record_leaves_nothing(store: Store) -> None:
    with pytest.raises(RecordError, match="run_id"):
        store.save(made("../outside"))
    assert not store.root.exists()


def test_list_is_by_time_and_names_what_is_broken(store: Store) -> None:
    store.save(made("b", "2026-01-01T00:00:00Z"))
    store.save(made("a", "2026-03-01T00:00:00Z"))
    store.save(made("c", "2026-02-01T00:00:00Z"))
    (store.root / "cut.json").write_text(to_json(made("cut"))[:100])
    (store.root / "moved.json").write_text(to_json(made("other")))
    (store.root / "note.txt").write_text("no record")
    (store.root / ".left.new").write_text("{")
    listing = store.list()
    assert [r.run_id for r in listing.records] == ["b", "c", "a"]
    assert len(listing.broken) == 2
    assert "cut.json is truncated or not JSON" in listing.broken[0]
    assert "moved.json holds the record of run other" in listing.broken[1]


def test_an_absent_folder_is_empty(store: Store) -> None:
    assert store.list().records == ()
    assert not store.has("ppr-1")
    with pytest.raises(RecordError, match="it has none yet"):
        store.find("ppr-1")


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    store = Store(tmp_path / "results")
    with pytest.raises(RecordError, match="results"):
        store.list()
    with pytest.raises(RecordError, match=r"ppr-1\.json cannot be written"):
        store.save(made("ppr-1"))


def test_find(store: Store) -> None:
    for run_id in ("ppr-torch-1", "ppr-torch-12", "stars-1"):
        store.save(made(run_id))
    (store.root / "broken.json").write_text("{")
    assert store.find("stars").run_id == "stars-1"
    assert store.find("ppr-torch-1").run_id == "ppr-torch-1"
    assert store.has("ppr-torch-1")
    assert not store.has("ppr-torch")
    with pytest.raises(RecordError, match=r"2 runs.*: ppr-torch-1, ppr-torch-12$"):
        store.find("ppr")
    with pytest.raises(RecordError, match=r"no record of a run 'digits' .*ppr-torch-1, ppr-torch-12, stars-1"):
        store.find("digits")
    with pytest.raises(RecordError, match="no record of a run ''"):
        store.find("")
    with pytest.raises(RecordError, match=r"broken\.json is truncated"):
        store.find("broken")


def test_candidates_are_bounded(store: Store) -> None:
    for number in range(13):
        store.save(made(f"run-{number:02}"))
    with pytest.raises(RecordError, match=r"run-09 and 3 more$"):
        store.find("run")


def test_writing_replaces_and_leaves_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    write(path, "one")
    write(path, "two")

    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space"):
        write(path, "three")
    assert path.read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
