"""The data tasks' part on the cluster's head: takes a request and frames on standard input, answers on standard output.

It is sent with each request and installed nowhere. Its files appear under their names when they are whole: files grow
in their own folder below INCOMING, are read back and compared, and are renamed. That folder goes when the
connection ends; one whose process could not do that goes with a later request, when nothing has come in for a while.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO

from workloads.common.events import BadInput
from workloads.common.storage import frames, places, swap, webhdfs
from workloads.common.storage.errors import StorageError, is_folder, translate
from workloads.common.storage.hdfs import Hdfs, Info, connect

INCOMING = "/.regatta/incoming"
LITTER_SECONDS = 600.0
TOUCH_SECONDS = 60.0
STALL_SECONDS = 25.0
WAITING_CHUNKS = 16
BLOCK_BYTES = 1 << 20
MOST_FILES = 1000


class Service:
    """One request. `source` and `sink` are the pipes to the controller."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self.source, self.sink = source, sink

    def answer(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        """Serve a request. Raises StorageError."""
        self.place = places.locate(str(args.pop("url")))
        if op == "status":
            return webhdfs.state(self.place)
        self.hdfs = connect(self.place)
        operations: dict[str, Callable[..., dict[str, Any]]] = {
            "put": self.put,
            "get": self.get,
            "list": self.listing,
            "remove": self.remove,
            "make": self.make,
            "identify": self.identify,
        }
        return operations[op](self.place.path, **args)

    def listing(self, path: str, recursive: bool = False) -> dict[str, Any]:
        """Return what is in a folder; hidden are our own half files."""
        found = self.hdfs.listing(path, recursive=recursive)
        shown = [info for info in found if info.path != "/.regatta" and not info.path.startswith("/.regatta/")]
        return {"folder": self.hdfs.info(path).folder, "entries": [vars(info) for info in shown]}

    def identify(self, path: str, folders: bool = False) -> dict[str, Any]:
        """Length and checksum of a file, or of all files in a folder where that may be given.

        The checksum is empty where there is nothing, or more than MOST_FILES files, each of which has to be asked for.
        """
        if not (folders and self.hdfs.info(path).folder):
            length = self.hdfs.open(path).length
            return {"length": length, "checksum": webhdfs.checksum(self.place) if length else ""}
        files = [one for one in self.hdfs.listing(path, recursive=True) if not one.folder]
        length = sum(one.length for one in files)
        if not length or len(files) > MOST_FILES:
            return {"length": length, "checksum": ""}

        def told(one: Info) -> str:
            found = webhdfs.checksum(replace(self.place, path=one.path, url=self.hdfs.url(one.path)))
            return f"{posixpath.relpath(one.path, path)}\0{found if one.length else ''}\n"

        with ThreadPoolExecutor(8) as pool:
            digest = hashlib.sha256("".join(pool.map(told, files)).encode())
        return {"length": length, "checksum": f"SHA-256 of {len(files)} checksums:{digest.hexdigest()}"}

    def remove(self, path: str, recursive: bool = False, look: bool = False) -> dict[str, Any]:
        """Remove a file or a folder with all in it; `look`: only say what would go."""
        if path == "/":
            raise StorageError("hdfs:///: the root cannot be removed; name what is in it")
        info = self.hdfs.info(path)
        inside = self.hdfs.listing(path, recursive=True) if info.folder else [info]
        files = [one for one in inside if not one.folder]
        told = {"folder": info.folder, "files": len(files), "bytes": sum(one.length for one in files)}
        if not look:
            if info.folder and inside and not recursive:
                raise StorageError(f"hdfs://{path}: is a folder that is not empty; add --recursive to remove all of it")
            self.hdfs.delete(path, recursive=recursive)
        return told

    def put(
        self, path: str, name: str, force: bool = False, folder: bool = False, into: bool = False
    ) -> dict[str, Any]:
        """Store the files that follow, as `path`, or in it under `name` where it is (`into`: is to be) a folder."""
        target = self._target(posixpath.join(path, name) if into else path, "" if into else name, force, folder)
        frames.send_json(self.sink, ready=target)
        with _Incoming(self.hdfs) as incoming:
            count = total = 0
            while True:
                kind, content = frames.receive(self.source)
                head = _json(kind, content)
                if head.get("end"):
                    break
                relative = head["file"]
                where = posixpath.join(incoming.path, relative) if folder else f"{incoming.path}/file"
                size, digest = incoming.write(where, self._file(), f"hdfs://{target}")
                frames.send_json(self.sink, stored=relative, sha256=digest, size=size)
                count, total = count + 1, total + size
            if folder:
                self.hdfs.mkdirs(f"{incoming.path}/{head['root']}")
            self._publish(f"{incoming.path}/{head['root']}" if folder else f"{incoming.path}/file", target, force)
        return {"path": target, "files": count, "bytes": total}

    def make(self, path: str, argv: list[str], environ: dict[str, str], force: bool = False) -> dict[str, Any]:
        """Store what a program writes to its standard output; progress goes to the controller."""
        target = self._target(path, "", force)
        frames.send_json(self.sink, ready=target)
        threading.Thread(target=self._leave_when_alone, daemon=True).start()
        with _Incoming(self.hdfs) as incoming:
            program = subprocess.Popen(
                argv,
                env={**os.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            try:
                assert program.stdout is not None and program.stderr is not None
                output, complaints = program.stdout, program.stderr
                said: list[bytes] = []
                reader = threading.Thread(target=lambda: said.append(complaints.read()[-2000:]), daemon=True)
                reader.start()
                blocks = self._watched(iter(lambda: output.read(BLOCK_BYTES), b""))
                size, digest = incoming.write(f"{incoming.path}/file", blocks, f"hdfs://{target}")
                if program.wait():
                    reader.join(5)
                    lines = b"".join(said).decode("utf-8", "replace").strip().splitlines()
                    raise StorageError(lines[-1] if lines else f"the generator ended with {program.returncode}")
            finally:
                program.kill()
                program.wait()
            self._publish(f"{incoming.path}/file", target, force)
        return {"path": target, "files": 1, "bytes": size, "sha256": digest}

    def get(self, path: str) -> dict[str, Any]:
        """Send a file, or all files of a folder."""
        info = self.hdfs.info(path)
        found = self.hdfs.listing(path, recursive=True) if info.folder else [info]
        files = [one for one in found if not one.folder]
        total = sum(one.length for one in files)
        folders = [posixpath.relpath(one.path, path) for one in found if one.folder]
        frames.send_json(self.sink, ready=path, folder=info.folder, bytes=total, files=len(files), folders=folders)
        threading.Thread(target=self._leave_when_alone, daemon=True).start()
        for one in files:
            relative = posixpath.relpath(one.path, path) if info.folder else posixpath.basename(path)
            digest = hashlib.sha256()
            frames.send_json(self.sink, file=relative, size=one.length)
            for chunk in self.hdfs.open(one.path).chunks():
                digest.update(chunk)
                frames.send(self.sink, b"D", chunk)
            frames.send_json(self.sink, sha256=digest.hexdigest())
        return {"path": path, "files": len(files), "bytes": total}

    def _target(self, path: str, name: str, force: bool, folder: bool = False) -> str:
        there = self.hdfs.find(path)
        if there is not None and there.folder and name:
            path = posixpath.join(path, name)
            there = self.hdfs.find(path)
        if there is not None and there.folder and not folder:
            raise is_folder(f"hdfs://{path}")
        if there is not None and folder and not there.folder:
            raise StorageError(f"hdfs://{path}: is a file; remove it, or name another path for the folder")
        if there is not None and not force:
            raise StorageError(f"hdfs://{path}: is there already; --force replaces it")
        parent = posixpath.dirname(path)
        above = self.hdfs.find(parent)
        if above is not None and not above.folder:
            raise StorageError(f"hdfs://{parent}: is a file, so nothing can be put into it; name a folder")
        return path

    def _publish(self, made: str, target: str, force: bool) -> None:
        self.hdfs.mkdirs(posixpath.dirname(target))
        there = self.hdfs.find(target)
        if there is not None and not force:
            raise StorageError(f"hdfs://{target}: has appeared meanwhile; --force replaces it")
        if there is not None and (there.folder or self.hdfs.info(made).folder):
            swap.replace(self.hdfs, made, target)
        else:
            self.hdfs.rename(made, target, overwrite=there is not None)

    def _file(self) -> Iterator[bytes]:
        """The bytes of the file that comes in, up to its end. Raises frames.Cut."""
        while True:
            kind, content = frames.receive(self.source)
            if kind != b"D":
                return
            yield content

    def _watched(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        said, done = time.monotonic(), 0
        for block in blocks:
            done += len(block)
            yield block
            if time.monotonic() - said > 0.3:
                said = time.monotonic()
                frames.send_json(self.sink, made=done)

    def _leave_when_alone(self) -> None:
        with suppress(OSError):
            while self.source.read(1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)


class _Incoming:
    """A folder of HDFS in which files grow; it goes in the end, with what is left in it."""

    def __init__(self, hdfs: Hdfs) -> None:
        self.hdfs = hdfs
        self.path = f"{INCOMING}/{secrets.token_hex(8)}"
        self._touched = time.monotonic()
        self._writer: Any = None

    def __enter__(self) -> _Incoming:
        self.hdfs.mkdirs(self.path, 0o700)
        for info in self.hdfs.listing(INCOMING):
            if info.path != self.path and time.time() - info.modified / 1000 > LITTER_SECONDS:
                self.hdfs.delete(info.path, recursive=True)
        swap.bring_back(self.hdfs, LITTER_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(StorageError):
            self.hdfs.delete(self.path, recursive=True)

    def write(self, path: str, blocks: Iterator[bytes], url: str) -> tuple[int, str]:
        """Write a file and prove it by reading it back: (length, SHA-256 of what came in).

        Raises StorageError; it is `passing` where the writing stopped or a DataNode was lost, and nothing else is
        wrong: then the whole can be sent again.
        """
        self.hdfs.mkdirs(posixpath.dirname(path))
        waiting: queue.Queue[bytes | None] = queue.Queue(WAITING_CHUNKS)
        failed: list[BaseException] = []
        moved = [time.monotonic()]

        def work() -> None:
            try:
                writer = self.hdfs.create(path)
                while (block := waiting.get()) is not None:
                    moved[0] = time.monotonic()
                    writer.write(block)
                moved[0] = time.monotonic()
                writer.close()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        digest, size = hashlib.sha256(), 0
        for block in blocks:
            digest.update(block)
            size += len(block)
            self._hand_over(waiting, block, failed, moved, url)
            self._keep()
        self._hand_over(waiting, None, failed, moved, url)
        while thread.is_alive():
            thread.join(0.5)
            self._check(failed, moved, url)
        self._check(failed, moved, url)
        self._prove(path, size, digest.hexdigest(), url)
        return size, digest.hexdigest()

    def _keep(self) -> None:
        """Say now and then that this folder is no litter."""
        if time.monotonic() - self._touched > TOUCH_SECONDS:
            self._touched = time.monotonic()
            self.hdfs.touch(self.path)

    def _hand_over(
        self,
        waiting: queue.Queue[bytes | None],
        block: bytes | None,
        failed: list[BaseException],
        moved: list[float],
        url: str,
    ) -> None:
        while True:
            self._check(failed, moved if waiting.full() else None, url)
            with suppress(queue.Full):
                waiting.put(block, timeout=0.5)
                return

    def _check(self, failed: list[BaseException], moved: list[float] | None, url: str) -> None:
        if failed:
            raise translate(failed[0], url, "writing it") from failed[0]
        if moved is not None and time.monotonic() - moved[0] > STALL_SECONDS:
            raise StorageError(
                f"{url}: no DataNode took any data for {STALL_SECONDS:g} s: 'regatta status' shows them", passing=True
            )

    def _prove(self, path: str, size: int, sha256: str, url: str) -> None:
        reader = self.hdfs.open(path)
        digest = hashlib.sha256()
        for chunk in reader.chunks():
            digest.update(chunk)
            self._keep()
        if reader.length != size or digest.hexdigest() != sha256:
            raise StorageError(
                f"{url}: what HDFS holds is not what was sent; nothing was stored: run it again", passing=True
            )


def _json(kind: bytes, content: bytes) -> dict[str, Any]:
    import json

    if kind != b"J":
        raise frames.Cut("not a frame")
    return dict(json.loads(content))


def _check_not_stopped(unit: str) -> None:
    """StorageError if HDFS was stopped: one that starts, also again by itself, is worth waiting for."""
    look = ["systemctl", "show", "--property=LoadState", "--property=ActiveState", unit]
    shown = subprocess.run(look, check=False, capture_output=True, text=True).stdout
    found = dict(line.split("=", 1) for line in shown.splitlines())
    state = found.get("ActiveState")
    if found.get("LoadState") == "loaded" and state in ("inactive", "failed"):
        raise StorageError(f"HDFS does not run: {unit} is {state}; 'regatta up' starts it")


def main(op: str, args: dict[str, Any], unit: str) -> None:
    """Serve one request of the controller and end the process, whatever hangs in it. `unit`: systemd's, of HDFS."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(1))
    sink = os.fdopen(os.dup(1), "wb", 1 << 16)
    os.dup2(2, 1)
    source = sys.stdin.buffer
    code = 0
    try:
        _check_not_stopped(unit)
        frames.send_json(sink, done=Service(source, sink).answer(op, args))
    except StorageError as error:
        code = 2
        with suppress(OSError):
            frames.send_json(sink, error=str(error), passing=error.passing)
    except (BadInput, frames.Cut, BrokenPipeError, SystemExit) as error:
        code = 1
        with suppress(OSError):
            frames.send_json(sink, error=f"interrupted: {error}", passing=False)
    except Exception as error:
        code = 1
        with suppress(OSError):
            frames.send_json(sink, error=f"{type(error).__name__}: {error}", passing=False)
    os._exit(code)
