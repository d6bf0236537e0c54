"""Files to and from HDFS through the head: whole under their name or not there, proven by SHA-256."""

import hashlib
import os
import posixpath
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regatta.errors import DataError
from regatta.files import put as put_whole
from regatta.hdfs.client import Exchange, HdfsError
from regatta.hosts.remote import Remote
from regatta.terminal.meter import Meter

BLOCK_BYTES = 1 << 20
TRIES = 4
PAUSE_SECONDS = 8.0


@dataclass(frozen=True)
class Done:
    """A transfer that has ended: `path` is where it is now, `bytes` its size, `seconds` how long it took."""

    path: str
    files: int
    bytes: int
    seconds: float


def put(remote: Remote, source: Path, url: str, *, force: bool, note: Callable[[str], None]) -> Done:
    """Store a file or a folder. Data that a lost DataNode spoils are sent again. Raises DataError, RemoteError."""
    files = _files(source)
    total = sum(path.stat().st_size for _, path in files)
    with Meter(source.name, total) as meter:
        return _again(lambda: _put_once(remote, source, files, url, force, meter), meter, note)


def make(remote: Remote, argv: list[str], environ: dict[str, str], url: str, *, force: bool, label: str) -> Done:
    """Store what a program on the head writes. Raises DataError, RemoteError."""
    with (
        Meter(label, None) as meter,
        Exchange(remote, "make", url, argv=argv, environ=environ, force=force) as exchange,
    ):
        for found in exchange.frames():
            if isinstance(found, dict) and "made" in found:
                meter.set(found["made"])
            elif isinstance(found, dict) and "done" in found:
                return _done(found["done"], meter)
    raise AssertionError


def get(remote: Remote, url: str, target: Path, *, force: bool, note: Callable[[str], None]) -> Done:
    """Fetch a file or a folder to `target`, or into it where it is a folder. Raises DataError, RemoteError."""
    with Meter(posixpath.basename(url.rstrip("/")) or "/", None) as meter:
        return _again(lambda: _get_once(remote, url, target, force, meter), meter, note)


def _again(transfer: Callable[[], Done], meter: Meter, note: Callable[[str], None]) -> Done:
    for left in range(TRIES - 1, -1, -1):
        try:
            return transfer()
        except HdfsError as error:
            if not error.passing or not left:
                raise
            note(f"{error}; once more from the beginning in {PAUSE_SECONDS:g} s")
            time.sleep(PAUSE_SECONDS)
            meter.restart()
    raise AssertionError


def _put_once(remote: Remote, source: Path, files: list[tuple[str, Path]], url: str, force: bool, meter: Meter) -> Done:
    folder = source.is_dir()
    into = url.endswith("/")
    with Exchange(remote, "put", url, name=source.name, force=force, folder=folder, into=into) as exchange:
        exchange.next("ready")
        for relative, path in files:
            exchange.send_json(file=posixpath.join(source.name, relative) if folder else source.name)
            digest = hashlib.sha256()
            for block in _blocks(path):
                digest.update(block)
                exchange.send(b"D", block)
                meter.add(len(block))
            exchange.send_json(eof=True)
            stored = _expect(exchange, "stored")
            if stored["sha256"] != digest.hexdigest():
                raise HdfsError(
                    f"{path}: arrived with another content; nothing has been stored: try again", passing=True
                )
        exchange.send_json(end=True, root=source.name)
        return _done(exchange.next("done"), meter)


def _get_once(remote: Remote, url: str, target: Path, force: bool, meter: Meter) -> Done:
    with Exchange(remote, "get", url) as exchange:
        ready = _expect(exchange, "ready")
        if target.is_dir():
            name = posixpath.basename(ready["ready"])
            if not name:
                raise DataError(f"{target} is a folder that exists: name a new one for the whole of HDFS")
            target /= name
        if target.exists() and not force:
            raise DataError(f"{target} is there already; --force replaces it")
        if not target.parent.is_dir():
            raise DataError(f"there is no folder {target.parent}: make it, or name another")
        free = shutil.disk_usage(target.parent).free
        if ready["bytes"] > free:
            raise DataError(
                f"{target.parent} has {free / 1e6:.0f} MB free, {ready['bytes'] / 1e6:.0f} MB are needed: free some, "
                "or name another folder"
            )
        meter.expect(ready["bytes"])
        part = _beside(target, "part")
        try:
            if ready["folder"]:
                part.mkdir()
                for folder in ready["folders"]:
                    _inside(part, folder).mkdir(parents=True, exist_ok=True)
            done = _receive(exchange, part, bool(ready["folder"]), meter)
            _put_in_place(part, target)
        except OSError as error:
            raise DataError(
                f"{error.filename or part} cannot be written ({error.strerror or error}): name another folder"
            ) from None
        finally:
            _remove(part)
    return Done(str(target), done["files"], done["bytes"], meter.seconds)


def _beside(target: Path, kind: str) -> Path:
    """A path in the same folder that no one uses: what a person has there stays, whatever its name."""
    return target.with_name(f".{target.name[:60]}.{secrets.token_hex(8)}.{kind}")


def _put_in_place(part: Path, target: Path) -> None:
    """Rename; a folder that is there already goes when the new one is there, and comes back where that fails."""
    if not target.is_dir():
        put_whole(part, target)
        return
    old = _beside(target, "replaced")
    target.rename(old)
    try:
        put_whole(part, target)
    except BaseException:
        old.rename(target)
        raise
    _remove(old)


def _receive(exchange: Exchange, part: Path, folder: bool, meter: Meter) -> dict[str, Any]:
    frames = exchange.frames()
    for found in frames:
        assert isinstance(found, dict)
        if "done" in found:
            return dict(found["done"])
        path = _inside(part, found["file"]) if folder else part
        path.parent.mkdir(parents=True, exist_ok=True)
        digest, ended = hashlib.sha256(), dict[str, Any]()
        with path.open("wb") as file:
            for piece in frames:
                if isinstance(piece, dict):
                    ended = piece
                    break
                file.write(piece)
                digest.update(piece)
                meter.add(len(piece))
            file.flush()
            os.fsync(file.fileno())
        if ended["sha256"] != digest.hexdigest() or path.stat().st_size != found["size"]:
            raise HdfsError(f"{found['file']}: arrived with another content: try again", passing=True)
    raise AssertionError


def _inside(folder: Path, relative: str) -> Path:
    """A path below `folder`; a name in HDFS does not lead out of it."""
    if relative.startswith("/") or ".." in relative.split("/"):
        raise DataError(f"'{relative}' leads out of the folder: rename it in HDFS")
    return folder / relative


def _expect(exchange: Exchange, field: str) -> dict[str, Any]:
    for found in exchange.frames():
        if isinstance(found, dict) and field in found:
            return found
    raise DataError("unexpected answer of the head: try again")


def _done(found: dict[str, Any], meter: Meter) -> Done:
    return Done(str(found["path"]), int(found["files"]), int(found["bytes"]), meter.seconds)


def _files(source: Path) -> list[tuple[str, Path]]:
    """The files to send, by their path below `source`. DataError where there is none or one is not a file."""
    if source.is_file():
        return [(source.name, source)]
    if not source.is_dir():
        raise DataError(f"there is no file or folder {source}: give another path")
    return sorted(_below(source))


def _below(source: Path) -> Iterator[tuple[str, Path]]:
    """The files of a tree of any depth."""
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with os.scandir(source / inside) as entries:
            for entry in entries:
                path = posixpath.join(inside, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_file():
                    yield path, source / path


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                yield block
    except OSError as error:
        raise DataError(
            f"{error.filename or path} cannot be read ({error.strerror}): correct that and put it again"
        ) from None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
