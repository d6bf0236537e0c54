"""Main process of a run on a node: starts its ranks, keeps their output, ends them together, says how it ended.

Written into the run's folder with the modules that it imports and started there as `supervisor.py FOLDER`.
`supervisor.py --post FOLDER` is what systemd calls after the unit has ended, whatever ended it.
Reads `spec.json`; writes `log` (lines `<rank>|<text>`, see `runlog`), `live.json` (progress bars: by rank what is shown
in place, at most once a second), `pid.json` and `exit.json`, also what the run has used here; for `exit.json` the file
`reserve` holds space on a disk that is full by then. `hidden.json` has variables that other users must not see.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

if __package__:
    from regatta.node import cgroup, rank, runlog, usage
else:  # started in the run's folder
    sys.dont_write_bytecode = True
    import cgroup  # type: ignore[import-not-found, no-redef, unused-ignore]
    import rank  # type: ignore[import-not-found, no-redef, unused-ignore]
    import runlog  # type: ignore[import-not-found, no-redef, unused-ignore]
    import usage  # type: ignore[import-not-found, no-redef, unused-ignore]

from regatta_protocol.decoding import believe, decode, encode
from regatta_protocol.log import PREFIX
from regatta_protocol.run import Begun, Ended, Failure, Kept
from regatta_protocol.standing import TIMED_OUT, Stood
from regatta_protocol.states import Mode, State

GRACE_SECONDS = 1.0
IDLE_SECONDS = 5.0
SHOW_SECONDS = 1.0
LAST_BLOCKS = 32
"""Bytes that are read of a rank that has ended: its pipe holds less, and what it has left behind may print without end.
"""
FULL_BYTES = 1 << 20
MOST_SPEC_BYTES = 8 << 20
HIDDEN = "hidden.json"
PR_SET_CHILD_SUBREAPER = 36
TEMPORARY = re.compile(r"/tmp/rg-[0-9a-f]{8,16}\Z")


class Supervisor:
    """Runs the ranks of one node to their common end."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        with open(os.path.join(folder, "spec.json")) as file:
            self.spec = decode(Begun, json.load(file))
        self.env = dict(self.spec.env)
        with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, HIDDEN)) as file:
            self.env.update(json.load(file))
        self.log = runlog.Writer(folder, self.spec.limits.log_bytes)
        self.ranks: list[rank.Rank] = []
        self.selector = selectors.DefaultSelector()
        self.failure: Failure | None = None
        self.stood: Stood | None = None
        self.stopped = False
        self.started, began = time.time(), time.monotonic()
        self.kill_at: float | None = None
        self.end_at = began + self.spec.time_limit if self.spec.time_limit else None
        self.show_at, self.shown = began, "{}"
        self.lost_lines = 0

    def run(self) -> int:
        """Start, watch and end the ranks; returns the exit code of the node's part of the run."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.on_stop)
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        os.set_blocking(read_end, False)
        signal.set_wakeup_fd(write_end)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(read_end, selectors.EVENT_READ, None)
        try:
            if os.path.exists(os.path.join(self.folder, "stop.json")):
                self.stopped = True
            else:
                self.start_ranks()
            self.loop(read_end)
        finally:
            for one in self.ranks:
                one.signal(signal.SIGKILL)
            end_descendants()
            for one in self.ranks:
                self.drain(one, LAST_BLOCKS)
                self.write(one.rank, one.remember(one.lines.flush()))
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.folder, "live.json"))
        self.warn_of_missing()
        if service := self.spec.joined:
            import joined  # type: ignore[import-not-found]

            joined.end(self.spec.id, service, 0.0)
        return self.finish()

    def on_stop(self, *_: Any) -> None:
        """The run is stopped: every rank gets SIGTERM now and SIGKILL after the grace."""
        self.stopped = True
        self.end_ranks()

    def start_ranks(self) -> None:
        """Start the node's ranks in their order. One that cannot be started is the failure, and ends the others."""
        if self.spec.cpus:
            os.sched_setaffinity(0, self.spec.cpus)
        for spec in self.spec.ranks:
            try:
                one = rank.Rank(spec, self.env, self.spec.cwd)
            except OSError as error:
                said = f"cannot start {spec.argv[0]}: {error}"
                self.write(spec.rank, [said.encode()])
                self.failure = self.describe(spec.rank, 127, [said])
                self.end_ranks()
                return
            self.ranks.append(one)
            self.selector.register(one.output, selectors.EVENT_READ, one)
        told = {str(one.rank): one.process.pid for one in self.ranks}
        with contextlib.suppress(OSError):  # a full disk costs that
            write_pids(self.folder, {"pid": os.getpid(), "ranks": told})

    def loop(self, wakeup: int) -> None:
        """One block of each rank's output at a time: one that prints without pause keeps nothing else waiting."""
        while any(one.code is None for one in self.ranks):
            for key, _ in self.selector.select(self.wait()):
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wakeup, 4096)
                else:
                    self.drain(key.data)
            self.reap()
            now = time.monotonic()
            if self.end_at is not None and now >= self.end_at and self.failure is None:
                limit = f"time limit of {self.spec.time_limit:g} s reached (--time-limit)"
                first = self.ranks[0]
                self.failure = self.describe(first.rank, 124, first.last_lines()).changed(cause=limit)
                self.end_ranks()
            if self.kill_at is not None and now >= self.kill_at:
                for one in self.ranks:
                    one.signal(signal.SIGKILL)
                self.kill_at = now + GRACE_SECONDS
            if now >= self.show_at:
                self.show(now)

    def wait(self) -> float:
        """Seconds until something has to be done, if no rank does anything before."""
        now = time.monotonic()
        times = [now + IDLE_SECONDS, self.kill_at, None if self.failure else self.end_at]
        if self.shown != "{}" or any(one.lines.bar for one in self.ranks):
            times.append(self.show_at)
        return max(0.0, min(at for at in times if at is not None) - now)

    def reap(self) -> None:
        """Take note of ranks that have ended, with all that they printed. The first that failed ends the others."""
        for one in self.ranks:
            if one.code is not None or one.process.poll() is None:
                continue
            one.code = one.process.returncode
            self.drain(one, LAST_BLOCKS)
            if one.code and self.failure is None and not self.stopped:
                self.failure = self.describe(one.rank, one.code, one.last_lines())
                self.look(one.last_lines())
                self.end_ranks()

    def look(self, lines: list[str]) -> None:
        """Take note of where the other ranks stand, before they end, where one has waited too long for others."""
        if not any(TIMED_OUT.search(line) for line in lines):
            return
        if __package__:  # now: to compile them takes time
            from regatta.node import calls, standing
        else:
            import calls  # type: ignore[import-not-found, no-redef, unused-ignore]
            import standing  # type: ignore[import-not-found, no-redef, unused-ignore]
        python = next((one.argv[0] for one in self.spec.ranks), sys.executable)
        program = calls.program(python, anywhere=self.spec.mode is Mode.SESSION)
        with contextlib.suppress(OSError, ValueError):
            self.stood = standing.brief(standing.look(self.spec.id, self.folder, program))

    def describe(self, number: int, code: int, lines: list[str]) -> Failure:
        """Return what is known of the first failure."""
        return Failure(
            rank=number,
            code=code if code > 0 else 128 - code,
            signal=signal.Signals(-code).name if code < 0 else None,
            at=time.time(),
            last_lines=tuple(lines),
            disk_full=disk_full(self.folder),
        )

    def end_ranks(self) -> None:
        """Send SIGTERM to the ranks that live; SIGKILL follows GRACE_SECONDS after the first time."""
        if self.kill_at is None:
            self.kill_at = time.monotonic() + GRACE_SECONDS
        for one in self.ranks:
            if one.code is None:
                one.signal(signal.SIGTERM)

    def drain(self, one: rank.Rank, blocks: int = 1) -> None:
        """Take what a rank has printed, so many blocks of it at most, into the log."""
        for _ in range(blocks):
            lines = one.read()
            if lines is None:
                break
            self.write(one.rank, lines)
        if one.closed:
            with contextlib.suppress(KeyError, ValueError):
                self.selector.unregister(one.output)

    def write(self, number: int, lines: list[bytes]) -> None:
        """Append lines; a full disk costs log lines, never the run."""
        self.lost_lines += self.log.write(b"%d|%s\n" % (number, line) for line in lines)

    def warn_of_missing(self) -> None:
        """Warn of each file that the run was expected to make, where it has succeeded without it."""
        if self.failure or self.stopped:
            return
        first = self.spec.ranks[0].rank if self.spec.ranks else 0
        made = functools.partial(os.path.join, self.folder, "scratch")
        for one in self.spec.expected:
            if os.path.lexists(made(one.where)) and not os.path.lexists(made(one.mark)):
                event = {"event": "warning", "rank": first, "t": time.time(), "message": one.warning}
                self.write(first, [(PREFIX + json.dumps(event)).encode()])

    def show(self, now: float) -> None:
        """Tell who follows what is shown in place now; a full disk costs that."""
        self.show_at = now + SHOW_SECONDS
        bars = {str(one.rank): one.lines.bar.decode("utf-8", "replace") for one in self.ranks if one.lines.bar}
        text = json.dumps(bars)
        if text != self.shown:
            self.shown = text
            with contextlib.suppress(OSError), open(os.path.join(self.folder, "live.json"), "w") as file:
                file.write(text)

    def finish(self) -> int:
        """Write `exit.json`: how the run has ended here, and why. Gives the exit code."""
        if os.path.exists(os.path.join(self.folder, "stop.json")):
            said = Ended(State.STOPPED, 143)
        elif self.failure:
            said = failed(self.failure)
        elif self.stopped:
            cause = "the run was stopped there, not by Regatta: is the host shutting down?"
            said = failed(own_failure(143, cause))
        else:
            said = Ended(State.SUCCEEDED, 0)
        codes = {str(one.rank): one.code for one in self.ranks}
        told = {
            "codes": codes,
            "started": self.started,
            "used": self.used(),
            "lost_lines": self.lost_lines,
            "stood": self.stood,
        }
        write_exit(self.folder, said.changed(**told))
        return said.code

    def used(self) -> dict[str, Any]:
        """Return what the run's processes have used here. Those of a run that has joined a service are the service's
        own, but for the driver, whose share by itself would say too little.
        """
        return {} if self.spec.joined else {**usage.of_unit(self.folder), **usage.of_children()}


def write_pids(folder: str, told: dict[str, Any]) -> None:
    """Write `pid.json` whole or not at all."""
    path = os.path.join(folder, "pid.json")
    with open(f"{path}.new", "w") as file:
        json.dump(told, file)
    os.replace(f"{path}.new", path)


def disk_full(folder: str) -> bool:
    """Whether the disk of a folder has no space left for those who are not root."""
    with contextlib.suppress(OSError):
        free = os.statvfs(folder)
        return free.f_bavail * free.f_frsize < FULL_BYTES
    return False


def reached(spec: Kept) -> dict[str, int]:
    """Limits of its unit that the run has met, and of that of a service it has joined: see `cgroup.reached`."""
    found = cgroup.reached({})
    if daemon := next(iter(spec.daemons.values()), None):
        found.update(cgroup.reached(spec.hits, daemon))
    return found


def own_failure(code: int, cause: str) -> Failure:
    """A failure that is no rank's, in words."""
    return Failure(code=code, cause=cause, at=time.time())


def failed(failure: Failure) -> Ended:
    """The end by a failure."""
    return Ended(State.FAILED, failure.code, failure)


def write_exit(folder: str, said: Ended) -> None:
    """Write `exit.json` once, whole, with what the node knows of the end. Its scratch folder, its folder in /tmp go.

    Always as the account that the run belongs to, which may have put anything at these paths.
    """
    remove_tree(os.path.join(folder, "scratch"))
    remove_tree(os.path.join(folder, HIDDEN))
    spec = own_spec(folder)
    if spec.temporary and TEMPORARY.match(spec.temporary):
        remove_tree(spec.temporary)
    target = os.path.join(folder, "exit.json")
    if os.path.isfile(target) and not os.path.islink(target):
        return
    if os.path.lexists(target):
        remove_tree(target)
    ended = said.changed(
        ended=time.time(),
        used={**said.used, **usage.over_network(spec.network)},
        oom_kills=0 if spec.oom_kills is None else usage.oom_kills() - spec.oom_kills,
        reached=reached(spec),
    )
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, "reserve"))
    remove_tree(target + ".new")
    with open(os.open(target + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w") as file:
        json.dump(encode(ended), file)
    os.rename(target + ".new", target)


def own_spec(folder: str) -> Kept:
    """Return what was started, as far as that can still be read: the run may have put anything in its place."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        return believe(Kept, json.loads(_read(os.path.join(folder, "spec.json")).decode()))
    return Kept()


def remove_tree(path: str) -> None:
    """Delete whatever is at a path, a tree of any depth too."""
    if os.path.isdir(path) and not os.path.islink(path):
        with contextlib.suppress(RecursionError):
            shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):  # too deep, or with a folder that its owner may not look into
            for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf", "--one-file-system"]):
                subprocess.run([*command, "--", path], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _read(path: str) -> bytes:
    """A plain file of bounded size. OSError for anything else."""
    with runlog.opened(path) as file:
        return bytes(file.read(MOST_SPEC_BYTES))


def descendants(pid: int) -> list[int]:
    """Ids of all processes below `pid`, including those that were re-parented to it."""
    children = collections.defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
                children[parent].append(int(name))
    found, queue = [], [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def end_descendants(limit: float = 5.0) -> None:
    """Kill whatever the ranks have left behind, also what called setsid, and collect it."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        below = descendants(os.getpid())
        if not below:
            return
        for pid in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def post(folder: str) -> None:
    """After the unit has ended: when the supervisor could not say how (killed, out of memory), say it for it."""
    result = os.environ.get("SERVICE_RESULT", "unknown")
    status = os.environ.get("EXIT_STATUS", "?")
    if os.path.exists(os.path.join(folder, "stop.json")):
        said = Ended(State.STOPPED, 143)
    elif result == "timeout":
        limit = own_spec(folder).time_limit or 0.0
        cause = f"time limit of {limit:g} s reached (--time-limit), and the run did not end"
        said = failed(own_failure(124, cause))
    else:
        how = f"killed by SIG{status}" if os.environ.get("EXIT_CODE") in ("killed", "dumped") else f"ended by {result}"
        said = failed(own_failure(137, f"the run's supervisor was {how}"))
    write_exit(folder, said.changed(used=usage.of_unit(folder)))


def main() -> int:
    """Entry point, see the module's docstring."""
    if sys.argv[1] == "--post":
        post(sys.argv[2])
        return 0
    folder = sys.argv[1]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    write_pids(folder, {"pid": os.getpid()})
    return Supervisor(folder).run()


if __name__ == "__main__":
    ended = main()
    sys.stdout.flush()
    os._exit(ended)  # what Python would tidy up goes with the process
