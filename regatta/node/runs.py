"""Runs on a node: start, watch, stop, list, finish."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Sequence

from regatta.node import (
    cgroup,
    contention,
    energy,
    environments,
    frameworks,
    layers,
    notes,
    outputs,
    releases,
    rights,
    rundirs,
    runlog,
    shared,
    supervisor,
    trees,
    usage,
    working,
)
from regatta.node.problem import Problem
from regatta_protocol import interfaces
from regatta_protocol.decoding import encode, fitting
from regatta_protocol.operations.runs import Account, Watched
from regatta_protocol.run import Begun, Ended, Finished, Kept, RankName, Spec, Started
from regatta_protocol.states import Mode, State

if TYPE_CHECKING:
    from regatta_protocol.place import Place

Emit = Callable[[Watched], None]

POLL_SECONDS, IDLE_SECONDS = 0.03, 0.2
BEAT_SECONDS = 1.0
STOP_SECONDS = 4.0
LATE_SECONDS = 5.0
"""Seconds after the supervisor at which systemd ends a run at its time limit."""
HADOOP_CONF_DIR = "/etc/regatta/hadoop"
RESERVE_BYTES = 1 << 16
DELETE_SECONDS = 400.0
PREPARE_SECONDS = 140.0
"""A large tree is copied meanwhile."""
CONFINED = (
    "ProtectControlGroups",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "ProtectKernelLogs",
    "ProtectClock",
    "ProtectHostname",
    "RestrictNamespaces",
    "RestrictRealtime",
    "RestrictSUIDSGID",
    "LockPersonality",
)
OWN = {"PrivateTmp": "yes", "PrivateIPC": "yes", "TemporaryFileSystem": "/dev/shm:mode=1777", "UMask": "0077"}
"""Of units of members' own accounts: names in /tmp are known beforehand, and another member could take them.

When the last session of such an account ends, systemd removes what the account has in the host's /dev/shm (RemoveIPC).
"""


def start(place: Place, spec: Spec, hidden: Dict[str, str] | None = None) -> Started:
    """Make the run's folder and start its processes, as a `Spec` says; a driver joins its service.

    `hidden`: variables of its processes whose values other users must not see.
    """
    asked, joined = spec, None
    run = asked.id
    folder = rundirs.path(place, run)
    if asked.service and asked.mode is not Mode.MEMBER:
        env, joined = frameworks.service(asked.service).join(place)
        asked, joined = asked.changed(env={**asked.env, **env}), {"service": asked.service, **joined}
    with contextlib.ExitStack() as starting:
        with releases.lock(place):
            _claim(place, asked, folder)
            starting.enter_context(notes.starting(place, run, asked, joined))
            os.mkdir(folder, 0o750)
        with _whole(place, run, folder):
            _give(place, folder)
            without = _prepare(place, run, asked, joined, hidden or {})
            if asked.mode is Mode.UNIT:
                _start_unit(place, asked, folder)
            elif asked.mode is Mode.SESSION:
                _start_session(folder)
    others, used = contention.strangers(), energy.counters()
    interface = interfaces.interface(place["cluster_address"])
    return Started(folder, interface, others, used, without, place.get("by") or "")


def refuse(place: Place, spec: Spec, cause: str) -> None:
    """Leave a run that could not start as one that has failed here, so that lists, its log and its record say why.

    Does nothing where another run has its name. Of a spec that was not checked only what is shown is kept.
    """
    shown = Spec(spec.id, Mode.UNIT, spec.framework, spec.release, plan=spec.plan, record=spec.record)
    folder = rundirs.path(place, spec.id)
    os.makedirs(rundirs.base(place), exist_ok=True)
    with releases.lock(place):
        if os.path.lexists(folder):
            return
        with notes.starting(place, spec.id, shown, None):
            os.mkdir(folder, 0o750)
            with _whole(place, spec.id, folder):
                _give(place, folder)
                _refused(place, spec.id, shown, f"it could not start: {cause}")
                notes.mark_ended(place, spec.id)


@contextlib.contextmanager
def _whole(place: Place, run: str, folder: str) -> Iterator[None]:
    """Leave nothing of a run whose folder could not be made to the end."""
    try:
        yield
    except BaseException:
        delete(place, folder)
        notes.remove(place, run)
        raise


@rights.of_run()
def _refused(place: Place, run: str, shown: Spec, cause: str) -> None:
    folder = rundirs.path(place, run)
    with open(os.path.join(folder, "log"), "w") as log:
        log.write(f"|{cause}\n")
    rundirs.store(os.path.join(folder, "spec.json"), encode(Begun(**vars(shown), started=time.time())), 0o640)
    supervisor.write_exit(folder, supervisor.failed(supervisor.own_failure(1, cause)))


def _claim(place: Place, spec: Spec, folder: str) -> None:
    """Raise Problem where the run cannot start here: its code is gone, or its name is taken."""
    if not os.path.isdir(releases.folder(place, spec.release)):
        raise Problem(f"release {spec.release} is not on this node: run 'regatta sync'")
    if spec.layer and not layers.have(place, spec.layer):
        raise Problem(f"layer {spec.layer} is not on this node any more: start the run again")
    os.makedirs(rundirs.base(place), exist_ok=True)
    if spec.gpus and set(spec.gpus) & set(rundirs.unfinished(place)["gpus"]):
        raise Problem("another run has begun on the same GPUs meanwhile: start this one again")
    if os.path.lexists(folder):
        raise Problem(f"a run named '{spec.id}' exists already: choose another name")


def _give(place: Place, folder: str) -> None:
    """The folder, in one that root owns, is the run's from here on: of the account that the member who asks has for
    runs, else of the shared one.
    """
    if os.geteuid() == 0 and (user := place.get("account") or place.get("user")):
        owner = pwd.getpwnam(user)
        os.chown(folder, owner.pw_uid, owner.pw_gid, follow_symlinks=False)


def delete(place: Place, folder: str) -> int:
    """Delete the folder of a run, whatever the run has made in it; the bytes that it had on the disk.

    0 where something is left: the run's processes still write there, or there was too much for the time.
    """

    def clear() -> int:
        size = trees.size(folder)
        trees.remove(folder)
        return size

    with contextlib.suppress(Problem, OSError):
        size = int(rights.call(rights.account(place, folder), clear, DELETE_SECONDS))
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(folder)
        return size
    return 0


@rights.of_run(seconds=PREPARE_SECONDS)
def _prepare(place: Place, run: str, asked: Spec, joined: Dict[str, Any] | None, hidden: Dict[str, str]) -> str | None:
    """All that is in the folder when the run begins; why there is no shared folder, where there is none now."""
    folder = rundirs.path(place, run)
    scratch = os.path.join(folder, "scratch")
    os.mkdir(scratch, 0o700)
    begun = _begun(place, asked, scratch, joined)
    with open(os.path.join(folder, "reserve"), "wb") as file:
        file.write(b"\1" * RESERVE_BYTES)
    for name, source in asked.files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w") as handle:
            handle.write(source)
    with open(os.path.join(folder, "log"), "w"):
        pass
    came = working.make(releases.folder(place, asked.release), outputs.folder(place, asked.id))
    rundirs.store(outputs.given(place, asked.id), came)
    without = shared.enter(place, asked, outputs.folder(place, asked.id))
    if asked.cwd:
        os.makedirs(asked.cwd, exist_ok=True)  # git knows no empty folder
    if hidden:
        rundirs.store(os.path.join(folder, supervisor.HIDDEN), hidden, 0o600)
    rundirs.store(os.path.join(folder, "spec.json"), encode(begun), 0o640)
    return without


def _begun(place: Place, asked: Spec, scratch: str, joined: Dict[str, Any] | None) -> Begun:
    """The spec with what is known of this node now. The run stays with the environment of its start."""
    name = interfaces.interface(place["cluster_address"])
    kept = {**vars(asked), "files": {}, "env": _environment(place, asked, scratch, name)}
    kept["ranks"] = tuple(rank.changed(argv=_resolved(place, rank.argv)) for rank in asked.ranks)
    found: Dict[str, Any] = {"network": {"interface": name, "at_start": usage.network(name)}, "joined": joined}
    if asked.mode is Mode.MEMBER or asked.service:
        found["daemons"] = frameworks.service(asked.service).daemons(place) if asked.service else {}
        found["hits"] = cgroup.hits(next(iter(found["daemons"].values()), "self"))
        found["boot"] = boot()
    return Begun(**kept, **found, started=time.time(), oom_kills=usage.oom_kills())


def _environment(place: Place, asked: Spec, scratch: str, interface: str | None) -> Dict[str, str]:
    env = {**asked.env, **shared.variables(place, asked.env), "REGATTA_SCRATCH": scratch, "REGATTA_RUN_ID": asked.id}
    if os.path.isdir(HADOOP_CONF_DIR):
        env.setdefault("HADOOP_CONF_DIR", HADOOP_CONF_DIR)
    if interface:
        env.update(dict.fromkeys(asked.interface_variables, interface))
    if path := env.get("PATH"):
        env["PATH"] = ":".join(environments.resolved(place, folder) for folder in path.split(":"))
    return env


def _resolved(place: Place, argv: Sequence[str]) -> tuple[str, ...]:
    return tuple(environments.resolved(place, word) if word == place["python"] else word for word in argv)


def _start_unit(place: Place, spec: Spec, folder: str) -> None:
    run = spec.id
    python = "/usr/bin/python3"
    user = rights.account(place, folder)
    program = os.path.join(folder, "supervisor.py")
    properties = {
        "Description": f"Regatta run {run}",
        "KillMode": "control-group",
        "TimeoutStopSec": "1",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "full",
        **dict.fromkeys(CONFINED, "yes"),
        "CapabilityBoundingSet": "",
        "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "SystemCallArchitectures": "native",
        "KeyringMode": "private",
        "PrivateMounts": "yes",
        "LimitNOFILE": "1048576",
        "LimitCORE": "0",
        **cgroup.properties(spec.limits),
        "ExecStopPost": "+" + notes.at_end(place, run, f"{python} {program} --post {folder}"),
    }
    if user != place["user"]:  # what it makes for all to read, it makes for itself
        properties.update(OWN)
    if spec.time_limit:  # the supervisor ends the run in time, and says why; the run may have stopped it
        properties["RuntimeMaxSec"] = f"{spec.time_limit + LATE_SECONDS:g}"
    command = ["systemd-run", "--quiet", "--collect", f"--unit={rundirs.unit(run)}", f"--uid={user}"]
    command += [f"--setenv=HOME={rundirs.home(place, user)}"]
    command += [f"--property={key}={value}" for key, value in properties.items()]
    command += [f"--working-directory={folder}", "--", python, program, folder]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise Problem(f"systemd did not start the run: see 'journalctl -b' there ({done.stderr.strip()})")


def _start_session(folder: str) -> None:
    program = os.path.join(folder, "supervisor.py")
    with open(os.path.join(folder, "supervisor.log"), "w") as log:
        process = subprocess.Popen(
            [sys.executable, program, folder],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=True,
        )
    end = time.monotonic() + 20
    while True:
        ended = process.poll() is not None
        if os.path.exists(os.path.join(folder, "pid.json")):
            threading.Thread(target=process.wait, daemon=True).start()  # it is reaped when it ends
            return
        if ended or time.monotonic() > end:
            process.kill()
            with open(os.path.join(folder, "supervisor.log")) as log:
                said = log.read().strip()[-300:] or "no message"
            raise Problem(f"the run's supervisor did not start: is the node busy or its disk full? Try again ({said})")
        time.sleep(0.005)


def watch(place: Place, run: str, offset: int, emit: Emit, events_only: bool = False) -> None:
    """Emit the log from byte `offset` (or its events), a heartbeat a second, and how the run ended on this node."""
    _must_be_there(place, run)
    while notes.is_starting(place, run):
        emit(Watched(beat=1))
        time.sleep(POLL_SECONDS)
    member = (notes.read(place, run) or {}).get("mode") == Mode.MEMBER
    _watch(place, run, offset, emit, events_only, member)


@rights.of_run(seconds=None)
def _watch(place: Place, run: str, offset: int, emit: Emit, events_only: bool, member: bool) -> None:
    folder = rundirs.path(place, run)
    next_beat = next_check = 0.0
    wait, shown = POLL_SECONDS, 0
    while True:
        said = rundirs.ended(place, run)
        finished = None if said and _still_here(place, run) else said
        before, offset = offset, _emit_lines(folder, offset, emit, events_only)
        if finished:
            emit(Watched(exit=finished, offset=offset))
            return
        shown = _emit_bars(folder, shown, emit)
        wait = POLL_SECONDS if said or offset > before else min(IDLE_SECONDS, wait * 1.2)
        now = time.monotonic()
        if now >= next_beat:
            emit(Watched(beat=1))
            next_beat = now + BEAT_SECONDS
            if now >= next_check:
                next_check = now + 3
                if not member and not rundirs.active(place, run) and not rundirs.ended(place, run):
                    time.sleep(0.5)
                    if not rundirs.ended(place, run):
                        offset = _emit_lines(folder, offset, emit, events_only)
                        emit(Watched(exit=Ended(State.LOST), offset=offset))
                        return
        time.sleep(wait)


def _still_here(place: Place, run: str) -> bool:
    """Whether a run that says how it ended has processes here all the same."""
    return rundirs.unit_started(run) or rundirs.supervisor_pid(place, run) is not None


def _emit_lines(folder: str, offset: int, emit: Emit, events_only: bool) -> int:
    """Emit what was added since a byte of the log; returns the byte behind it."""
    while True:
        piece = runlog.read(folder, offset)
        if piece.offset == offset:
            return offset
        lines = [_parsed(line) for line in (*piece.events, *piece.lines) if not events_only or runlog.MARK in line]
        if piece.missed and not events_only:
            note = f"... {piece.missed:,} bytes of the log are left out here: its beginning and its end are kept"
            lines.insert(0, [None, note])
        offset = piece.offset
        emit(Watched(lines=lines, offset=offset))


def _parsed(line: bytes) -> list[Any]:
    rank, _, text = line.partition(b"|")
    return [int(rank) if rank.lstrip(b"-").isdigit() else None, text.decode("utf-8", "replace")]


def _emit_bars(folder: str, seen: int, emit: Emit) -> int:
    """Emit what is shown in place now, by rank, where that has changed; returns a mark for the next time."""
    path = os.path.join(folder, "live.json")
    try:
        now = os.lstat(path).st_mtime_ns
    except OSError:
        return seen
    bars = rundirs.load(path, rundirs.EXIT_BYTES) if now != seen else None
    if not isinstance(bars, dict):
        return seen
    emit(Watched(bars=[[int(rank), text] for rank, text in fitting(Dict[RankName, str], bars, {}).items()]))
    return now


def _must_be_there(place: Place, run: str) -> None:
    if not rundirs.there(place, run):
        raise Problem(f"no run '{run}' on this node: it was deleted, or never was here")


@rights.of_run()
def mark_stopped(place: Place, run: str, reason: str) -> None:
    """Say that the run is being stopped, so that what its processes do from now on is no failure of theirs."""
    if rundirs.there(place, run) and not os.path.lexists(rundirs.path(place, run, "exit.json")):
        rundirs.store(rundirs.path(place, run, "stop.json"), {"reason": reason, "at": time.time()})


@rights.of_run()
def mark_recorded(place: Place, run: str) -> None:
    """Say that the run has a record, so that no other controller makes one from what is known here."""
    if rundirs.there(place, run):
        rundirs.store(rundirs.path(place, run, "recorded.json"), {"at": time.time()})


@rights.of_run(gives=Account)
def account(place: Place, run: str) -> Account:
    """Return what this node keeps of a run for its record: what was asked for, facts of the node, its interface."""
    spec = rundirs.spec(place, run) or Kept()
    return Account(spec.record, fitting(str, spec.network.get("interface"), None))


def stop(place: Place, run: str, reason: str) -> Finished:
    """End the run's processes on this node and wait until they are gone. Harmless for a run that has ended.

    A run whose supervisor has vanished stays `lost`; what it left behind is ended.
    """
    _must_be_there(place, run)
    if _vanished(place, run):
        return finish(place, run, State.LOST, 1)
    with contextlib.suppress(
        Problem, OSError
    ):  # a run may have put something in the mark's way: it is stopped all the same
        mark_stopped(place, run, reason)
    if rundirs.unit_started(run):
        notes.mark_ended(place, run, stopped=True)
        subprocess.run(["systemctl", "stop", rundirs.unit(run)], capture_output=True, check=False)
    _stop_session(place, run)
    return finish(place, run, State.STOPPED, 143)


def _vanished(place: Place, run: str) -> bool:
    return rundirs.state(place, run) is State.LOST and _has_begun(place, run)


@rights.of_run()
def _has_begun(place: Place, run: str) -> bool:
    return os.path.lexists(rundirs.path(place, run, "pid.json"))


@rights.of_run()
def _stop_session(place: Place, run: str) -> None:
    pid = rundirs.supervisor_pid(place, run)
    if pid is None or os.path.lexists(rundirs.path(place, run, "exit.json")):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + STOP_SECONDS
    while rundirs.supervisor_pid(place, run) is not None and time.monotonic() < end:
        time.sleep(0.01)


def finish(place: Place, run: str, state: State, code: int) -> Finished:
    """End what is left of the run's processes, drop its scratch folder, write how it ended."""
    _must_be_there(place, run)
    note = notes.read(place, run) or {}
    if joined := notes.joined(note):
        frameworks.service(joined["service"]).end(place, run, joined)
    killed = sweep(place, run)
    notes.mark_ended(place, run)
    return _written_off(place, run, state, code, note.get("service")).changed(killed=killed)


@rights.of_run(gives=Finished)
def _written_off(place: Place, run: str, state: State, code: int, service: str | None) -> Finished:
    folder, spec = rundirs.path(place, run), rundirs.spec(place, run) or Kept()
    supervisor.write_exit(folder, Ended(state, code))
    rundirs.clear_halves(folder)
    now = frameworks.service(service).daemons(place) if service else spec.daemons
    died = sorted(set(spec.daemons.items()) - set(now.items()))
    rebooted = spec.boot is not None and spec.boot != boot()
    return Finished(exit=rundirs.ended(place, run), died=tuple(name for name, _ in died), rebooted=rebooted)


def boot() -> str:
    """A name for the time since this host was started: another after each boot."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def sweep(place: Place, run: str) -> int:
    """Kill every process whose environment says REGATTA_RUN_ID=run (an idle Ray worker of the job, a daemon).

    Ray's processes write their titles over that, so descendants go too and, where the sessions are the run's own, all
    of a session. Root finds them; they are killed as the account of the run, which cannot kill another user's.
    """
    sessions = not place.get("user")
    killed: set[int] = set()
    for _ in range(50):
        found = _left(f"REGATTA_RUN_ID={run}".encode(), sessions) - {os.getpid()}
        if not found:
            break
        ended = _killed(place, run, sorted(found))
        if not ended:  # another user's, who has taken the run's mark
            break
        killed |= set(ended)
        time.sleep(0.02)
    return len(killed)


@rights.of_run()
def _killed(place: Place, run: str, pids: List[int]) -> List[int]:
    killed = []
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
    return killed


def _left(mark: bytes, sessions: bool) -> set[int]:
    marked, session = set(), {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            pid = int(name)
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            if fields[0] != "Z":
                session[pid] = fields[3]
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    marked.add(pid)
    own = {session.get(pid) for pid in marked} if sessions else set()
    below = {pid for top in marked for pid in supervisor.descendants(top)}
    return {pid for pid in session if pid in marked or pid in below or session[pid] in own}
