"""The sources of records: the folder of the store, another user's folder, one file of JSON or Parquet."""

from pathlib import Path

from regatta.errors import RecordError
from regatta.records import document
from regatta.records.record import Record
from regatta.records.store import Listing, Store
from regatta.report import parquet

LAST = "last"


def read(path: Path) -> Listing:
    """The records of a folder or file. RecordError where it is missing; what cannot be read is in `broken`."""
    if path.is_dir():
        return Store(path).list()
    if not path.is_file():
        raise RecordError(f"there are no records at {path}: give a folder of records, a record, or a .parquet file")
    if path.suffix == parquet.SUFFIX:
        return parquet.read(path)
    return Listing((document.load(path),), ())


def find(store: Store, name: str) -> Record:
    """The record of a run by its id, a unique beginning of it, or `last`; or the file of one. RecordError."""
    if name == LAST and not store.has(LAST):
        found = store.list().records
        if not found:
            raise RecordError(f"no record in {store.root} yet: start a run, or set REGATTA_RESULTS")
        return found[-1]
    if name.endswith(".json") and Path(name).is_file():
        return document.load(Path(name))
    return store.find(name)
