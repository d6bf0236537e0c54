"""Main process of a run on a node: starts its ranks, keeps their output, ends them together, says how it ended.

Written into the run's folder and started there as `supervisor.py FOLDER`, so it imports nothing of ours.
`supervisor.py --post FOLDER` is what systemd calls after the unit has ended, whatever ended it.
Reads `spec.json`; writes `log` (lines `<rank>|<text>`), `pid.json` and `exit.json`, also what the run has used here;
for `exit.json` the file `reserve` holds room on a disk that is full by then.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

GRACE_SECONDS = 1.0
LAST_LINES = 20
PR_SET_CHILD_SUBREAPER = 36
BLOCK_BYTES = 512
PIPE_BLOCKS = 16
"""All that a pipe may hold (1 MiB), in blocks of 64 KiB."""
CGROUPS = "/sys/fs/cgroup"
TEMPORARY = re.compile(r"/tmp/rg-[0-9a-f]{16}\Z")


class Rank:
    """One process of the run and the part of its output that is not a whole line yet."""

    def __init__(self, spec: dict[str, Any], common_env: dict[str, str], folder: str) -> None:
        self.rank = spec["rank"]
        self.rest = b""
        self.last: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
        self.code: int | None = None
        env = {**os.environ, **common_env, **spec["env"]}
        self.process = subprocess.Popen(
            spec["argv"],
            cwd=folder,
            env={name: value for name, value in env.items() if value is not None},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout.fileno()
        os.set_blocking(self.output, False)

    def signal(self, number: int) -> None:
        """Signal the rank's process group; its processes that left the group are ended by `end_descendants`."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


class Supervisor:
    """Runs the ranks of one node to their common end."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        with open(os.path.join(folder, "spec.json")) as file:
            self.spec = json.load(file)
        self.log = open(os.path.join(folder, "log"), "ab", buffering=0)  # noqa: SIM115
        self.ranks: list[Rank] = []
        self.selector = selectors.DefaultSelector()
        self.failure: dict[str, Any] | None = None
        self.stopped = False
        self.kill_at: float | None = None
        self.started = time.time()
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
            for rank in self.ranks:
                rank.signal(signal.SIGKILL)
            end_descendants()
            for rank in self.ranks:
                self.drain(rank)
                self.flush(rank)
        return self.finish()

    def on_stop(self, *_: Any) -> None:
        """Somebody stops the run: every rank gets SIGTERM now and SIGKILL after the grace."""
        self.stopped = True
        self.end_ranks()

    def start_ranks(self) -> None:
        for spec in self.spec["ranks"]:
            try:
                rank = Rank(spec, self.spec["env"], self.spec["cwd"])
            except OSError as error:
                self.write(spec["rank"], f"cannot start {spec['argv'][0]}: {error}".encode())
                self.failure = self.describe(spec["rank"], 127, [f"cannot start {spec['argv'][0]}: {error}"])
                self.end_ranks()
                return
            self.ranks.append(rank)
            self.selector.register(rank.output, selectors.EVENT_READ, rank)

    def loop(self, wakeup: int) -> None:
        limit = self.spec.get("time_limit")
        while any(rank.code is None for rank in self.ranks):
            wait = 5.0 if self.kill_at is None else max(0.0, self.kill_at - time.monotonic())
            for key, _ in self.selector.select(wait):
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wakeup, 4096)
                else:
                    self.drain(key.data, 1)
            self.reap()
            if limit and time.time() - self.started > limit and self.failure is None:
                self.failure = self.describe(self.ranks[0].rank, 124, [f"time limit of {limit:g} s reached"])
                self.end_ranks()
            if self.kill_at is not None and time.monotonic() >= self.kill_at:
                for rank in self.ranks:
                    rank.signal(signal.SIGKILL)
                self.kill_at = time.monotonic() + GRACE_SECONDS

    def reap(self) -> None:
        for rank in self.ranks:
            if rank.code is not None or rank.process.poll() is None:
                continue
            rank.code = rank.process.returncode
            self.drain(rank)
            if rank.code and self.failure is None and not self.stopped:
                self.failure = self.describe(rank.rank, rank.code, list(rank.last))
                self.end_ranks()

    def describe(self, rank: int, code: int, lines: list[str]) -> dict[str, Any]:
        """What is known of the first failure."""
        return {
            "rank": rank,
            "code": code if code > 0 else 128 - code,
            "signal": signal.Signals(-code).name if code < 0 else None,
            "at": time.time(),
            "last_lines": lines,
        }

    def end_ranks(self) -> None:
        if self.kill_at is None:
            self.kill_at = time.monotonic() + GRACE_SECONDS
        for rank in self.ranks:
            if rank.code is None:
                rank.signal(signal.SIGTERM)

    def drain(self, rank: Rank, blocks: int = PIPE_BLOCKS) -> None:
        """Take what the rank has printed, split it into lines, append it to the log.

        At most so many blocks: a rank that prints without end is not to keep the others waiting.
        """
        for _ in range(blocks):
            try:
                block = os.read(rank.output, 1 << 16)
            except (BlockingIOError, ValueError):
                return
            if not block:
                with contextlib.suppress(KeyError, ValueError):
                    self.selector.unregister(rank.output)
                return
            *lines, rank.rest = (rank.rest + block).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            if len(rank.rest) > 1 << 20:
                lines, rank.rest = [*lines, rank.rest], b""
            for line in lines:
                self.write(rank.rank, line)
                rank.last.append(line.decode("utf-8", "replace"))

    def flush(self, rank: Rank) -> None:
        if rank.rest:
            self.write(rank.rank, rank.rest)
            rank.last.append(rank.rest.decode("utf-8", "replace"))
            rank.rest = b""

    def write(self, rank: int, line: bytes) -> None:
        """Append one line; a full disk costs log lines, never the run."""
        try:
            self.log.write(b"%d|%s\n" % (rank, line))
        except OSError:
            self.lost_lines += 1
        if self.spec.get("echo"):
            with contextlib.suppress(OSError):
                os.write(1, line + b"\n")

    def finish(self) -> int:
        codes = {str(rank.rank): rank.code for rank in self.ranks}
        if os.path.exists(os.path.join(self.folder, "stop.json")):
            state, code, failure = "stopped", 143, None
        elif self.failure:
            state, code, failure = "failed", self.failure["code"], self.failure
        elif self.stopped:
            state, code = "failed", 143
            cause = "the run was stopped there, not by Regatta: is the host shutting down?"
            failure = own_failure(code, cause)
        else:
            state, code, failure = "succeeded", 0, None
        write_exit(self.folder, state, code, failure, codes, self.started, self.used(), self.lost_lines)
        return code

    def used(self) -> dict[str, Any]:
        """What the run's processes have used here; those of a Ray cluster's run are Ray's own, but for the driver."""
        if self.spec.get("mode") == "member":
            return {}
        return {**of_unit(self.folder), **of_children()}


def own_failure(code: int, cause: str) -> dict[str, Any]:
    """A failure that is no rank's, in words."""
    return {"rank": None, "code": code, "signal": None, "cause": cause, "at": time.time(), "last_lines": []}


def oom_kills() -> int:
    """How many processes the kernel of this host has killed for want of memory; -1 where it does not say."""
    with contextlib.suppress(OSError), open("/proc/vmstat") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return -1


def write_exit(
    folder: str,
    state: str,
    code: int,
    failure: Any,
    codes: Any,
    started: float | None,
    used: Any = None,
    lost_lines: int = 0,
) -> None:
    """Write `exit.json` once, whole, and drop the run's scratch folder, its folder in /tmp and its reserve."""
    shutil.rmtree(os.path.join(folder, "scratch"), ignore_errors=True)
    spec = {}
    with contextlib.suppress(OSError, TypeError, ValueError), open(os.path.join(folder, "spec.json")) as file:
        spec = dict(json.load(file))
        temporary = str(spec.get("temporary"))
        if TEMPORARY.match(temporary):  # a run can write its own spec.json, and root may be who reads it here
            shutil.rmtree(temporary, ignore_errors=True)
    target = os.path.join(folder, "exit.json")
    if os.path.exists(target):
        return
    ended = {
        "state": state,
        "code": code,
        "failure": failure,
        "codes": codes,
        "started": started,
        "ended": time.time(),
        "used": {**(used or {}), **over_network(spec.get("network"))},
        "oom_kills": oom_kills() - spec["oom_kills"] if "oom_kills" in spec else 0,
        "lost_lines": lost_lines,
    }
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, "reserve"))
    with open(target + ".new", "w") as file:
        json.dump(ended, file)
    os.rename(target + ".new", target)


def of_children() -> dict[str, Any]:
    """What all processes of the run have used, as the kernel has told the one that reaped them.

    {"cpu_seconds": user and system, "largest_bytes": peak resident memory of the largest process, "read_bytes" and
    "written_bytes": of disks, without what the cache spared}.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu_seconds": round(ended.ru_utime + ended.ru_stime, 3),
        "largest_bytes": ended.ru_maxrss * 1024,
        "read_bytes": ended.ru_inblock * BLOCK_BYTES,
        "written_bytes": ended.ru_oublock * BLOCK_BYTES,
    }


def of_unit(folder: str) -> dict[str, Any]:
    """What this process's cgroup has used, where it is the run's own and the kernel counts that.

    {"cpu_seconds", "peak_bytes": memory of all processes at once, with the pages of files that they brought into it}.
    """
    found: dict[str, Any] = {}
    unit = f"regatta-run-{os.path.basename(folder)}.service"
    with contextlib.suppress(OSError, ValueError), open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if unit not in path.split("/"):
                continue
            for base in ("", "/unified") if not controllers else [f"/{name}" for name in controllers.split(",")]:
                at = f"{CGROUPS}{base}{path[: path.index(unit) + len(unit)]}"
                _take(found, "peak_bytes", f"{at}/memory.peak", 1)
                _take(found, "peak_bytes", f"{at}/memory.max_usage_in_bytes", 1)
                _take(found, "cpu_seconds", f"{at}/cpuacct.usage", 1e-9)
                _take(found, "cpu_seconds", f"{at}/cpu.stat", 1e-6)
    return found


def _take(found: dict[str, Any], name: str, file: str, unit: float) -> None:
    with contextlib.suppress(OSError, ValueError), open(file) as handle:
        found[name] = int(handle.readline().split()[-1]) * unit


def network(interface: str | None) -> list[int] | None:
    """Bytes that an interface of this node has received and sent since it is there."""
    with contextlib.suppress(OSError), open("/proc/net/dev") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name.strip() == interface:
                return [int(rest.split()[0]), int(rest.split()[8])]
    return None


def over_network(before: Any) -> dict[str, Any]:
    """What the node, whoever on it, has received and sent since `before`, as `run.start` has noted it."""
    try:
        received, sent = network(before["interface"]) or (0, 0)
        since = (max(0, received - before["at_start"][0]), max(0, sent - before["at_start"][1]))
    except (TypeError, KeyError, IndexError):
        return {}
    return {"interface": str(before["interface"]), "received_bytes": since[0], "sent_bytes": since[1]}


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
        write_exit(folder, "stopped", 143, None, {}, None, of_unit(folder))
    else:
        how = f"killed by SIG{status}" if os.environ.get("EXIT_CODE") in ("killed", "dumped") else f"ended by {result}"
        write_exit(
            folder, "failed", 137, own_failure(137, f"the run's supervisor was {how}"), {}, None, of_unit(folder)
        )


def main() -> int:
    """Entry point, see the module's docstring."""
    if sys.argv[1] == "--post":
        post(sys.argv[2])
        return 0
    folder = sys.argv[1]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with open(os.path.join(folder, "pid.json"), "w") as file:
        json.dump({"pid": os.getpid()}, file)
    return Supervisor(folder).run()


if __name__ == "__main__":
    sys.exit(main())
