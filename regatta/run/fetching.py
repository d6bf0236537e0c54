"""Brings files that a run has left on its nodes here, by rsync, proven by hash; an interrupted transfer continues."""

import contextlib
import hashlib
import io
import os
import shutil
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from regatta.errors import DataError, NothingError, RegattaError, RemoteError
from regatta.files import settle, settle_name
from regatta.frameworks.api import StartedRun
from regatta.hosts.remote import Remote
from regatta.hosts.rsync import Fetch
from regatta.program import hint
from regatta.run import kept_folders, outputs
from regatta.run.outputs import File, NodeOutput, Run
from regatta.run.request import Request
from regatta.terminal.console import Console
from regatta.terminal.meter import Meter, size_text
from regatta.text import shown
from regatta_protocol.operations.outputs import AskSums

GB = 1_000_000_000
AT_A_TIME = 4
_BLOCK = 1 << 20
_SHOW_SECONDS = 0.2
_SPARE = 16 << 20


@dataclass(frozen=True)
class Fetched:
    """The result of a fetch: `folder` has it, `notes` are lines about what has not, or not whole; `failed`: nodes and
    why.
    """

    folder: Path
    files: int
    bytes: int
    seconds: float
    nodes: tuple[str, ...]
    notes: tuple[str, ...]
    failed: Mapping[str, Exception]

    def line(self) -> str:
        """The line that a person reads."""
        count = f"{self.files} file{'s' * (self.files != 1)}, {size_text(self.bytes)}"
        rate = f", {self.bytes / 1e6 / self.seconds:.0f} MB/s" if self.bytes > 10e6 and self.seconds else ""
        return f"{self.folder}: {count} from {', '.join(self.nodes)}, proven by hash, in {self.seconds:.1f} s{rate}"


def check(run: str, parts: Sequence[NodeOutput], most_gb: float) -> None:
    """DataError where the files are more than so many GB, or more than can be fetched at once."""
    total = sum(part.bytes for part in parts)
    if total > most_gb * GB:
        wanted = -(-total // GB)
        raise DataError(
            f"{outputs.words(parts)} are more than {most_gb:g} GB, and nothing was fetched: choose fewer by a pattern "
            f"(what there is: {hint('ls', run)}), or allow it: {hint('fetch', run, f'--max-gb {wanted}')}"
        )
    if large := next((part for part in parts if part.count > len(part.files)), None):
        raise DataError(
            f"{large.place} has {large.count} files that fit, more than {len(large.files)}, and nothing was "
            f"fetched: choose fewer by a pattern"
        )


def place(run: Run, part: NodeOutput, target: Path) -> Path:
    """Return where the files of a part come to in `target`: by node where the run had several; `shared` has those of
    all.
    """
    return target / part.place if run.several or part.shared else target


def fetch(remote: Remote, run: Run, parts: Sequence[NodeOutput], target: Path, stream: TextIO | None = None) -> Fetched:
    """Bring all files of `parts` into `target`, by node where the run had several; `shared` has those of all nodes.

    Progress goes to `stream`.

    DataError where there is no space. Ctrl-C keeps what has come, also of a file, and the next time continues there.
    """
    parts = [part for part in parts if part.files]
    folders = {part.place: place(run, part, target) for part in parts}
    total = sum(part.bytes for part in parts)
    _room(target, sum(_lacking(folders[part.place], part.files) for part in parts))
    for folder in folders.values():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{error.filename} cannot be made ({error.strerror}): name another folder") from None
    so_far = dict.fromkeys(folders, 0)
    notes: list[str] = []
    failed: dict[str, Exception] = {}
    with Meter(f"fetch {run.id}", total, stream) as meter, _Workers() as workers:

        def bring(part: NodeOutput) -> None:
            work = _Transfer(remote, run.id, part, folders[part.place], workers)
            work.bring(lambda count: so_far.__setitem__(part.place, count))
            notes.extend(work.notes)

        going = {workers.pool.submit(bring, part): part for part in parts}
        left: set[Future[None]] = {*going}
        while left:
            done, left = wait(left, _SHOW_SECONDS)
            for one in done:
                try:
                    one.result()
                except (RegattaError, OSError) as error:
                    failed[going[one].place] = error
            meter.set(min(total, sum(so_far.values())))
        seconds = meter.seconds
    whole = [part for part in parts if part.place not in failed]
    for part in whole:
        _settle(folders[part.place], part.files)
    files, size = sum(part.count for part in whole), sum(part.bytes for part in whole)
    return Fetched(target, files, size, seconds, tuple(part.place for part in whole), tuple(notes), failed)


class _Workers:
    """Threads that fetch, and their rsyncs, which end when `with` is left in any other way than by its end."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(AT_A_TIME)
        self.fetches: list[Fetch] = []
        self.stopped = threading.Event()

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.stopped.set()
            for one in [*self.fetches]:
                one.stop()
        self.pool.shutdown(wait=True, cancel_futures=True)


class _Transfer:
    """The files of one node."""

    def __init__(self, remote: Remote, run: str, part: NodeOutput, folder: Path, workers: _Workers) -> None:
        self._remote, self._run, self._part, self._folder, self._workers = remote, run, part, folder, workers
        self.notes: list[str] = []

    def bring(self, so_far: Callable[[int], None]) -> None:
        """Fetch, prove; what came with another content is fetched once more."""
        node, files = self._part.node, self._part.files
        fetch = Fetch(self._remote, node, so_far, self._run, self._part.shared)
        self._workers.fetches.append(fetch)
        fetch.run(self._part.source, [file.path for file in files], self._folder)
        bad = self._unlike(files)
        if bad and not self._workers.stopped.is_set():
            fetch.run(self._part.source, [file.path for file in bad], self._folder, again=True)
            for file in self._unlike(bad):
                raise DataError(
                    f"{self._part.place}: {shown(file.path)} arrived twice with another content than it has there: "
                    "does the run write it still? Fetch again"
                )
        so_far(self._part.bytes)

    def _unlike(self, files: Sequence[File]) -> list[File]:
        """The files that are not here as they are there; those that are being written there are only noted."""
        total = sum(file.size for file in files)
        if self._workers.stopped.is_set():
            return []
        there = _FileRequest(self._remote, self._part, self._run, files, total)
        here = []
        for file in files:
            here.append(None if self._workers.stopped.is_set() else _sum(self._folder, file.path))
        bad = []
        for file, mine, theirs in zip(files, here, there.answer(), strict=True):
            if self._workers.stopped.is_set():
                return []
            name = f"{self._part.place}: {shown(file.path)}"
            if theirs is None:
                self.notes.append(
                    f"{name} is gone there, or cannot be read{'' if mine is None else ': what came stays'}"
                )
            elif theirs[2] is None or theirs[:2] != [file.size, file.mtime_ns]:
                self.notes.append(f"{name} is being written there: what came may be half of it; fetch again later")
            elif mine != theirs[2]:
                bad.append(file)
        return bad


class _FileRequest:
    """The hashes of files on a node, asked for while those here are made."""

    def __init__(self, remote: Remote, part: NodeOutput, run: str, files: Sequence[File], total: int) -> None:
        self._said: list[list[object] | None] | Exception = []
        self._count = len(files)
        seconds = outputs.LOOK_TIMEOUT + total / 15e6

        def ask() -> None:
            try:
                ask = AskSums(run, tuple(file.path for file in files), total, part.shared)
                self._said = list(remote.call(part.node, ask, timeout=seconds).sums)
            except (RegattaError, OSError, TypeError) as error:
                self._said = error

        self._thread = threading.Thread(target=ask)
        self._thread.start()
        self._node = part.node

    def answer(self) -> list[list[object] | None]:
        """For each file [bytes, time, hash]. RemoteError."""
        self._thread.join()
        if isinstance(self._said, RegattaError | OSError):
            raise self._said
        if isinstance(self._said, Exception) or len(self._said) != self._count:
            raise RemoteError(self._node.name, "its answer about the files' hashes is damaged: fetch again")
        return self._said


def _sum(folder: Path, path: str) -> str | None:
    """SHA-256 of a file that has come; None where there is none."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                digest = hashlib.sha256()
                while block := file.read(_BLOCK):
                    digest.update(block)
                return digest.hexdigest()
    return None


def _settle(folder: Path, files: Sequence[File]) -> None:
    """Write what has come to the disk, and its names."""
    for file in files:
        with contextlib.suppress(OSError):  # it was deleted meanwhile
            settle(folder / file.path)
    for path in {(folder / file.path).parent for file in files}:
        settle_name(path / "any")


def _lacking(folder: Path, files: Sequence[File]) -> int:
    """Bytes of files that are not here with their size and time."""
    return sum(file.size for file in files if not _is_here(folder / file.path, file))


def _is_here(path: Path, file: File) -> bool:
    with contextlib.suppress(OSError):
        info = path.lstat()
        return (info.st_size, info.st_mtime_ns) == (file.size, file.mtime_ns)
    return False


def _room(target: Path, needed: int) -> None:
    folder = next(path for path in (target, *target.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(folder).free
    if needed + _SPARE > free:
        raise DataError(
            f"{target}: {size_text(needed)} are to come, and the disk of this machine has {size_text(free)} free: "
            "free some, or name another folder with --to"
        )


def bring(
    remote: Remote,
    run: Run,
    wanted: Sequence[str],
    target: Path,
    most_gb: float,
    console: Console,
    stream: TextIO | None = None,
) -> tuple[Fetched, list[NodeOutput]]:
    """Look for what fits, and fetch it: what came, and of which parts. Progress goes to `stream`, or to notes.

    DataError where nothing fits, or more than `most_gb`.
    """
    parts, failed = outputs.look(remote, run, wanted)
    for line in outputs.reasons(parts):
        console.warn(line)
    if not any(part.count for part in parts):
        if failed:
            return Fetched(target, 0, 0, 0.0, (), (), failed), []
        raise NothingError(_nothing(remote, run, wanted))
    check(run.id, parts, most_gb)
    done = fetch(remote, run, parts, target, stream or _Notes(console))
    for line in done.notes:
        console.warn(line)
    if done.nodes:
        console.note(done.line())
    whole = [part for part in parts if part.place in done.nodes]
    return replace(done, failed={**failed, **done.failed}), whole


def _nothing(remote: Remote, run: Run, wanted: Sequence[str]) -> str:
    """Return what to say where nothing fits."""
    every, _ = outputs.look(remote, run, most=5) if wanted else ([], {})
    if any(part.count for part in every):
        words = " or ".join(shown(word) for word in wanted)
        left = f"{outputs.words(every)}: {outputs.first(every)} ({hint('ls', run.id)})"
        return f"nothing that {run.id} has written fits {words}; there are {left}"
    return f"{run.id} has written nothing in its working directory, and nothing in $REGATTA_SHARED"


def at_end(
    remote: Remote, handle: StartedRun, request: Request, results: Path, console: Console, *, failed: bool
) -> None:
    """Fetch what fits the request's patterns next to the run's record; files that do not come are named only.

    That a run has written nothing is not said of one that `failed`.
    """
    project = kept_folders.project(request.folder) if request.options.keep else None
    parts_of_it = outputs.shared_parts(request.first_run or handle.run, project)
    known = outputs.Run(handle.run, handle.nodes, tuple(node.name for node in handle.nodes), parts_of_it)
    words = " ".join(f"'{shown(word)}'" for word in request.options.fetch)
    again = f"later: {hint('fetch', known.id, words)}"
    most = request.options.max_gb
    try:
        done, _ = bring(remote, known, request.options.fetch, results / known.id, most, console)
        for error in done.failed.values():
            console.warn(f"{error}; {again}")
    except NothingError as error:
        if not failed:
            console.warn(str(error))
    except (RegattaError, OSError) as error:
        console.warn(f"{known.id}: its files were not fetched: {error}; {again}")


class _Notes(io.StringIO):
    """Progress as lines of a console."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def write(self, text: str) -> int:
        """See io."""
        if text.strip():
            self._console.note(text.strip())
        return len(text)
