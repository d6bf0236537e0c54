"""The calls that Python processes of a run are in, by py-spy, which reads their memory and stops nothing.

It works as the account of runs, without any right of root: what a hostile process has in its memory can harm only that
account. Its time, memory and output are bounded.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import shutil
import signal
import subprocess
import time
from typing import Any, Dict, Sequence, Tuple

if __package__:
    from regatta.node.waiting import shown
else:  # next to the supervisor, in the run's folder
    from waiting import shown  # type: ignore[import-not-found, no-redef, unused-ignore]

from regatta_protocol.standing import Frame, Thread

PROGRAM = "py-spy"
SECONDS = 1.2
MOST_BYTES, MOST_MEMORY, MOST_CPU = 1 << 20, 1 << 31, 2
MOST_THREADS, MOST_FRAMES = 12, 48
TRIES = 2
"""A process that changes while it is read cannot always be understood."""

Found = Dict[int, "Tuple[Thread, ...] | str"]
"""By process its threads, the main one first, or why they are not known."""


def program(python: str, *, anywhere: bool) -> str:
    """Return the path of py-spy: next to the Python of runs; `anywhere`: or where else the user has it."""
    beside = os.path.join(os.path.dirname(python), PROGRAM)
    return (shutil.which(PROGRAM) or beside) if anywhere and not os.access(beside, os.X_OK) else beside


def of_processes(program: str, pids: Sequence[int], own: str, seconds: float = SECONDS) -> Found:
    """Return the calls of processes; files below the folder `own` are the run's own."""
    if not os.access(program, os.X_OK):
        return dict.fromkeys(pids, f"there is no {PROGRAM} here: run 'regatta provision'")
    found: Found = dict.fromkeys(pids, "it took too long to read its calls")
    end = time.monotonic() + seconds
    left = list(pids)
    for _ in range(TRIES):
        for pid, (said, complaint) in _answers(program, left, end).items():
            found[pid] = _threads(said, own) or complaint or "its calls cannot be read"
        left = [pid for pid in left if isinstance(found[pid], str)]
        if not left or time.monotonic() > end - seconds / 2:
            break
    return found


def _answers(program: str, pids: Sequence[int], end: float) -> Dict[int, Tuple[bytes, str]]:
    """Return what py-spy prints of each, and its complaint; those that are not ready in time are left out."""
    started = {pid: _started(program, pid) for pid in pids}
    said = {pid: bytearray() for pid in pids}
    done: Dict[int, Tuple[bytes, str]] = {}
    try:
        with selectors.DefaultSelector() as selector:
            for pid, process in started.items():
                selector.register(process.stdout, selectors.EVENT_READ, pid)  # type: ignore[arg-type]
            while selector.get_map() and (ready := selector.select(max(0.0, end - time.monotonic()))):
                for key, _ in ready:
                    block = os.read(key.fd, 1 << 16)
                    said[key.data] += block
                    if not block or len(said[key.data]) > MOST_BYTES:
                        selector.unregister(key.fileobj)
                        done[key.data] = bytes(said[key.data]), ""
        for pid in done:
            done[pid] = done[pid][0], _complaint(started[pid])
    finally:
        for process in started.values():
            _ended(process)
    return done


def _started(program: str, pid: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [program, "dump", "--json", "--nonblocking", "--pid", str(pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        preexec_fn=_bounded,  # noqa: PLW1509 (it has no other thread)
    )


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU, MOST_CPU))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _complaint(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), False)
    text = (process.stderr.read(4096) or b"").decode("utf-8", "replace").strip()
    if "Permission denied" in text or "Operation not permitted" in text:
        return "this host lets no process look into it (sysctl kernel.yama.ptrace_scope)"
    return shown(text.partition("\n")[0].removeprefix("Error: "))


def _ended(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _threads(said: bytes, own: str) -> Tuple[Thread, ...]:
    """The threads out of py-spy's answer, the main one first; nothing where that is none."""
    try:
        told = json.loads(said.decode("utf-8", "replace"))
        found = [(one["os_thread_id"] == one["pid"], _thread(one, own)) for one in told]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return ()
    found.sort(key=lambda item: not item[0])
    return tuple(thread for _, thread in found[:MOST_THREADS])


def _thread(told: Dict[str, Any], own: str) -> Thread:
    frames = [_frame(one, own) for one in told["frames"][:MOST_FRAMES]]
    return Thread(shown(str(told.get("thread_name") or "")), tuple(frames))


def _frame(told: Dict[str, Any], own: str) -> Frame:
    file, line = shown(str(told["filename"])), told["line"]
    ours = file.startswith(own + os.sep)
    number = line if isinstance(line, int) and 0 <= line < 1 << 31 else 0
    return Frame(shown(str(told["name"])), file[len(own) + 1 :] if ours else file, number, ours)
