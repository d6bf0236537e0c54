"""Keeps records: one JSON file a run, written once and never changed; deleted only when a person names it."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from regatta import files
from regatta.errors import RecordError
from regatta.records import document
from regatta.records.record import Record

_SUFFIX = ".json"
_SHOWN = 10
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


@dataclass(frozen=True)
class Listing:
    """All records, the earliest first, and a sentence for each file that is none."""

    records: tuple[Record, ...]
    broken: tuple[str, ...]


class Store:
    """The records in the folder `root`, which is made when the first one is saved."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def save(self, record: Record) -> Path:
        """Write the record: its file is whole, and on the disk. Raises RecordError when the run has one already."""
        text = document.to_json(record)
        path = self.root / f"{record.run_id}{_SUFFIX}"
        try:
            files.make_folder(self.root)
            with files.beside(path) as new:
                files.create(new, text)
                _move_new(new, path)
            files.settle_name(path)
        except OSError as error:
            if isinstance(error, FileExistsError) and self.root.is_dir():
                raise RecordError(f"{path} exists: records are never overwritten; give the run another name") from error
            raise RecordError(
                f"{path} cannot be written: free some space, or choose another folder by REGATTA_RESULTS "
                f"({error.strerror or error})"
            ) from error
        return path

    def has(self, run_id: str) -> bool:
        """Whether the run with exactly this id has a file, readable or not."""
        return run_id in self._ids()

    def list(self) -> Listing:
        """Every record; files that cannot be read do not hide the others."""
        found: list[Record] = []
        broken: list[str] = []
        for run_id in self._ids():
            try:
                found.append(self._load(run_id))
            except RecordError as error:
                broken.append(str(error))
        found.sort(key=lambda record: (record.identity.started, record.run_id))
        return Listing(tuple(found), tuple(broken))

    def find(self, name: str) -> Record:
        """The record whose run id is `name`, else the only one that begins with it."""
        ids = self._ids()
        matches = [name] if name in ids else [run_id for run_id in ids if name and run_id.startswith(name)]
        if not matches:
            has = f"it has {_some(ids)}" if ids else "it has none yet"
            raise RecordError(f"no record of a run {name!r} in {self.root}: {has}")
        if len(matches) > 1:
            raise RecordError(f"{name!r} is the beginning of {len(matches)} runs, say more of it: {_some(matches)}")
        return self._load(matches[0])

    def delete(self, run_id: str) -> None:
        """Remove the record of exactly this run. Raises RecordError."""
        path = self.root / f"{run_id}{_SUFFIX}"
        try:
            path.unlink()
        except OSError as error:
            raise RecordError(
                f"{path} cannot be deleted ({error.strerror or error}): change its permissions and try again"
            ) from error

    def _ids(self) -> tuple[str, ...]:
        try:
            names = [path.name for path in self.root.iterdir()]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise RecordError(
                f"{self.root} cannot be read ({error.strerror or error}): change its mode, or set REGATTA_RESULTS"
            ) from error
        return tuple(sorted(n.removesuffix(_SUFFIX) for n in names if n.endswith(_SUFFIX) and not n.startswith(".")))

    def _load(self, run_id: str) -> Record:
        path = self.root / f"{run_id}{_SUFFIX}"
        record = document.load(path)
        if record.run_id != run_id:
            raise RecordError(f"{path} holds the record of run {record.run_id}: rename it")
        return record


def _move_new(new: Path, path: Path) -> None:
    try:
        os.link(new, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        path.open("x").close()
        try:
            new.replace(path)
        except OSError:
            path.unlink()
            raise


def _some(ids: tuple[str, ...] | list[str]) -> str:
    return ", ".join(ids[:_SHOWN]) + (f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else "")
