"""The queue of the cluster, on its head: who holds nodes, who waits, and a place in it for a run."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shlex
import subprocess
import time
from typing import TYPE_CHECKING, Any, Callable, Collection, Dict, List, Sequence, Tuple

from regatta.node import batch, holder, rundirs, turns
from regatta.node.problem import Problem
from regatta_protocol.operations.queue import Entry, Notify, Queued, QueuedRun, QueueWord, Submitted, Withdrawn

if TYPE_CHECKING:
    from regatta_protocol.place import Place

OWNER = "REGATTA_OWNER"
"""Variable of the script of a run without a controller: whose run it is."""
_UNIT = "/etc/systemd/system/regatta-slurmctld.service"
_EXISTING = "/etc/regatta/slurm/existing.json"
"""Where another's Slurm is used: its `partition`, and the `nodes` in it that are the cluster's."""
_GRES = "/etc/slurm/gres.conf"
_STATES = "/run/regatta-queue"
_CONFINED = (
    "OOMScoreAdjust=-500",
    "CapabilityBoundingSet=",
    "NoNewPrivileges=yes",
    "PrivateDevices=yes",
    "PrivateTmp=yes",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHome=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "ProtectSystem=strict",
    f"ReadWritePaths={_STATES}",
    "LockPersonality=yes",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
)
"""The unit that holds nodes needs only Slurm's programs and its state file."""
COPIES = "/var/lib/slurm/regatta"
_APPRISE = "/usr/bin/apprise"
_COPY_SECONDS, _STARTING = 30.0, ".starting"
_BATCH = ("--no-requeue", "--output=/dev/null")
_BEAT_SECONDS, _TELL_SECONDS, _POLL_SECONDS = 10.0, 1.0, 0.02
_OF_NODES = ("Nodes required", "ReqNodeNotAvail")
"""So the reasons of runs begin for which there are too few nodes that work."""
_HOLDS = ("RUNNING", "COMPLETING", "CONFIGURING")
_PRIORITY = 1_000_000
"""That of the first run of a person who has no other."""
_HELD, _DETACHED = "regatta: ", "regatta, detached: "
"""So the comments of its jobs begin, with a controller and without."""
_FIELDS = "%u|%i|%T|%Q|%y|%V|%S|%D|%N|%r|%j|%k"


def there(place: Place) -> bool:
    """Whether Slurm gives the nodes of the cluster of which this is the head."""
    return bool(place.get("user")) and (os.path.exists(_UNIT) or os.path.exists(_EXISTING))


def existing() -> Dict[str, Any] | None:
    """What is known of another's Slurm, where it gives the nodes; None for Regatta's."""
    return _read(_EXISTING)


def hold(  # noqa: PLR0913 (the keys of one request)
    place: Place,
    emit: Callable[[QueueWord], None],
    run: str,
    wanted: int,
    only: Sequence[str] = (),
    seconds: float | None = None,
    nice: int = 0,
    ranks: int = 0,
    cores: int | None = None,
    memory: int | None = None,
    gpus: int = 0,
) -> None:
    """Hold nodes until the connection ends; a unit of its own keeps them while the run continues after that.

    Emits who is ahead whenever that changes. Raises Problem where Slurm refuses, or another person ends it. Without
    Slurm it is a lock, for the nodes of `only`.
    """
    if not there(place):
        turns.hold(place, emit, run, tuple(only))
    os.makedirs(_STATES, 0o700, exist_ok=True)
    state = f"{_STATES}/{run}.json"
    for old in (state, _withdrawn(run)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(old)
    gpus, cores = _counted(gpus, cores)
    tasks = f"--ntasks-per-node={-(-ranks // wanted)}" if gpus else f"--ntasks={ranks}"
    words = [
        *_share(tasks, cores, gpus),
        *_limits(seconds, memory),
        *_words(_HELD, run, place.get("by") or "", wanted, only, nice),
    ]
    asked = {
        "state": state,
        "controller": os.getpid(),
        "salloc": ["--quiet", *words],
        "run": rundirs.unit(run) if cores else "regatta-run-*.service",
    }
    unit = _unit(run)
    command = ["systemd-run", "--quiet", "--collect", f"--unit={unit}", f"--description=Regatta: nodes of {run}"]
    command += [f"--property={one}" for one in _CONFINED]
    done = _run([*command, "/usr/bin/python3", "-IS", "-c", _holder(), json.dumps(asked)])
    if done.returncode:
        raise Problem(f"the queue could not be asked for nodes: {_said(done.stderr)}")
    granted = _granted(run, state, emit)
    emit(granted if cores else granted.changed(cpus={}, gpus={}))
    _keep(run, state, emit)


def _holder() -> str:
    """The text of the program that holds nodes."""
    loader: Any = holder.__spec__.loader if holder.__spec__ else None
    return str(loader.get_source(holder.__name__))


def _words(
    mark: str,
    run: str,
    owner: str,
    wanted: int,
    only: Sequence[str],
    nice: int,
    among: Sequence[str] = (),
) -> List[str]:
    """The options of Slurm that salloc and sbatch share. `among`: these nodes will do; none: all of the cluster."""
    words = [f"--job-name={run}", f"--comment={mark}{_plain(owner)}", f"--nodes={wanted}", "--no-kill"]
    if theirs := existing():  # its own rules give the order, in which root's jobs must not come first
        words += [f"--partition={theirs['partition']}"] if theirs["partition"] else []
        words.append(f"--nice={max(nice, 0)}")
        among = among or theirs["nodes"]
    else:
        words += [f"--priority={_priority(owner, nice)}", f"--nice={nice}"]
    if only:
        words.append(f"--nodelist={','.join(only)}")
    elif others := sorted({*_every_node()} - {*among}) if among else ():
        words.append(f"--exclude={','.join(others)}")
    return words


def _counted(gpus: int, cores: int | None) -> Tuple[int, int | None]:
    """GPUs and cores that a run with GPUs asks for: whole nodes, and so neither, where Slurm does not count GPUs."""
    return (0, None) if gpus and (existing() is not None or not os.path.exists(_GRES)) else (gpus, cores)


def _share(ranks: str, cores: int | None, gpus: int) -> List[str]:
    """Whole nodes, or these cores and GPUs. Problem where another's Slurm counts these in its own way."""
    if not cores:
        return ["--exclusive"]
    if existing() is not None:
        raise Problem("--cores: this cluster's Slurm is not Regatta's, and gives runs only whole nodes: leave it out")
    return [ranks, f"--cpus-per-task={cores}", *([f"--gres=gpu:{gpus}"] if gpus else [])]


def _limits(seconds: float | None, memory: int | None) -> List[str]:
    words = [] if memory is None else [f"--mem={memory}M"]
    if seconds is not None:
        words.append(f"--time={int(seconds // 60) + 5}")  # its launch, and the end by its own limit, come first
    return words


def _priority(owner: str, nice: int) -> int:
    """Make room among a person's runs that wait, and return Slurm's priority of one more."""
    own = [one for one in _entries() if one.ours and one.owner == _plain(owner)]
    priority, others = placed(own, nice)
    for one in own:
        if one.job in others:
            _run(["scontrol", "update", f"jobid={one.job}", f"priority={others[one.job]}"])
            _move_copy(one.run, others[one.job])
    return priority


def placed(own: Sequence[Entry], nice: int) -> Tuple[int, Dict[int, int]]:
    """Slurm's priority of a person's next run, and those of their waiting runs, by job, that change for it.

    The more runs a person has, the later the next place, so that people take turns. Within these places stand runs of
    a lower `nice` first, and those of the same one as they came.
    """
    waiting = sorted((one for one in own if not one.holds), key=lambda one: (one.nice, -one.priority, one.job))
    places = sorted(
        [min([_PRIORITY - len(own), *(one.priority - 1 for one in waiting)]), *(one.priority for one in waiting)],
        reverse=True,
    )
    number = sum(one.nice <= nice for one in waiting)
    later = {one.job: place for one, place in zip(waiting[number:], places[number + 1 :], strict=True)}
    return places[number], {one.job: later[one.job] for one in waiting[number:] if one.priority != later[one.job]}


def submit(place: Place, asked: QueuedRun) -> Submitted:
    """Put a run into the queue, whose job starts it on its nodes, and ends it there. Problem where Slurm refuses."""
    if not there(place):
        raise Problem("this cluster has no Slurm any more: set slurm_enabled: true, or leave --detach out")
    ahead = _entries()
    if any(one.is_run(asked.run) for one in ahead) or rundirs.there(place, asked.run):
        raise Problem(f"a run named '{asked.run}' is in the queue, or was here: choose another name")
    gpus, cores = _counted(asked.gpus, asked.cores)
    owner, nodes = place.get("by") or "", tuple(asked.carried.nodes)
    words = [*_share(f"--ntasks-per-node={asked.ranks}", cores, gpus), *_limits(asked.seconds, asked.memory), *_BATCH]
    words += _words(_DETACHED, asked.run, owner, asked.wanted, nodes if asked.fixed else (), asked.nice, nodes)
    if asked.after is not None:
        words.append(f"--dependency=afterok:{asked.after}")
    if asked.notify is not None:
        words += _told(asked.run, owner, asked.notify)
    first, _, rest = batch.script(asked.carried, place, driver=asked.driver).partition("\n")
    rest = f"export {OWNER}={shlex.quote(_plain(owner))}\n{rest}"
    about = [f"# Runs are in {rundirs.base(place)}", *(f"# After {one.run}" for one in ahead if one.job == asked.after)]
    whole = "\n".join([first, *about, *(f"#SBATCH {_quoted(word)}" for word in words), rest])
    kept = keep_copy(asked.run, whole) if existing() is None else None
    done = _run(["sbatch", "--parsable"], whole)
    if done.returncode:
        if kept:
            os.unlink(kept)
        raise Problem(f"the queue refused {asked.run}: {_said(done.stderr)}")
    if kept:
        later = time.time() + 2.0  # a state that is newer has the job in it
        os.utime(kept, (later, later))
    return Submitted(int(done.stdout.partition(";")[0]), ahead)


def _told(run: str, owner: str, notify: Notify) -> List[str]:
    """Note whom to tell of a run, as only root and Slurm may read it; returns options of sbatch."""
    from regatta.node.notify import WANTED, web  # urllib takes long to load, and no other request needs it

    if existing() is not None:
        raise Problem("--notify: this cluster's Slurm is not Regatta's, and sends nothing of it: leave --detach out")
    if not all(map(web, notify.urls)) and not os.path.exists(_APPRISE):
        raise Problem(
            "--notify: the head sends only to http:// and https://: install apprise there (apt install apprise)"
        )
    slurm = pwd.getpwnam("slurm")
    os.makedirs(WANTED, 0o700, exist_ok=True)
    os.chown(WANTED, slurm.pw_uid, slurm.pw_gid)
    rundirs.store(f"{WANTED}/{run}", {"urls": notify.urls, "cluster": notify.cluster, "owner": owner}, 0o600)
    os.chown(f"{WANTED}/{run}", slurm.pw_uid, slurm.pw_gid)
    return ["--mail-type=END,FAIL,INVALID_DEPEND"]


def _every_node() -> List[str]:
    return _run(["sinfo", "--noheader", "--Node", "--format=%N"]).stdout.split()


def _plain(text: str) -> str:
    """A name without what means something to Slurm's options and lists."""
    return "".join(letter for letter in text if letter.isprintable() and letter not in "\"'\\|")


def _quoted(word: str) -> str:
    name, _, value = word.partition("=")
    return f'{name}="{value}"' if value else name


def keep_copy(name: str, text: str) -> str:
    """Keep a script on the disk while its run is in the queue: where Slurm's state is gone, or older, as the head was
    switched off at once, it is submitted again (`roles/slurm/files/tidy.sh`). Returns where it is.
    """
    os.makedirs(COPIES, 0o700, exist_ok=True)
    with open(f"{COPIES}/{name}", "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(COPIES, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    return f"{COPIES}/{name}"


def _drop_copies(there: Collection[str]) -> None:
    """Remove the copies of runs that have left the queue; none while Slurm starts and submits them again."""
    with contextlib.suppress(FileNotFoundError):
        names = {*os.listdir(COPIES)}
        for name in names - {*there} if _STARTING not in names else ():
            if name[0] != "." and time.time() - os.stat(f"{COPIES}/{name}").st_mtime > _COPY_SECONDS:
                os.unlink(f"{COPIES}/{name}")


def _move_copy(run: str, priority: int) -> None:
    """Give the copy of a run that waits another priority."""
    copy = f"{COPIES}/{run}"
    with contextlib.suppress(FileNotFoundError):
        kept = os.stat(copy)
        with open(copy) as file:
            text = re.sub(r"(?m)^(#SBATCH --priority=).*$", rf'\g<1>"{priority}"', file.read(), count=1)
        with open(f"{COPIES}/.new", "w") as file:
            file.write(text)
        os.utime(f"{COPIES}/.new", ns=(kept.st_atime_ns, kept.st_mtime_ns))
        os.rename(f"{COPIES}/.new", copy)


def _granted(run: str, state: str, emit: Callable[[QueueWord], None]) -> QueueWord:
    """Wait for the nodes; returns them, and of each the CPUs and GPUs that are granted."""
    told: Tuple[Any, ...] = ((), ())
    next_look = time.monotonic() + _TELL_SECONDS
    while True:
        if (said := _read(state)) is not None:
            with contextlib.suppress(OSError), open(_withdrawn(run)) as file:
                raise Problem(f"{run} was taken out of the queue by {file.read()}")
            if "error" in said:
                raise Problem(f"{run} got no nodes from the queue: {_said(said['error'])}")
            cpus, gpus = ({name: tuple(own) for name, own in said.get(which, {}).items()} for which in ("cpus", "gpus"))
            return QueueWord(granted=tuple(said.get("nodes", ())), cpus=cpus, gpus=gpus)
        if time.monotonic() >= next_look:
            next_look = time.monotonic() + _TELL_SECONDS
            ahead = _ahead(run)
            down = () if ahead else _down()
            if (now := (tuple((one.job, one.holds) for one in ahead), down)) != told:
                told = now
                emit(QueueWord(waits=ahead, down=down))
            else:
                emit(QueueWord(alive=True))
            if not _active(run) and _read(state) is None:
                raise Problem(f"{run} got no nodes: its place in the queue is lost; start it again")
        time.sleep(_POLL_SECONDS)


def _keep(run: str, state: str, emit: Callable[[QueueWord], None]) -> None:
    """Tell that the nodes are held, until they are not; main() ends this process when the connection closes."""
    beat = time.monotonic() + _BEAT_SECONDS
    while not (_read(state) or {"revoked": True}).get("revoked"):
        time.sleep(1.0)
        if time.monotonic() >= beat:
            beat = time.monotonic() + _BEAT_SECONDS
            emit(QueueWord(alive=True))
    emit(QueueWord(revoked=True))


def listing(place: Place) -> Queued:
    """Who holds nodes, then who waits, first in line first."""
    if not there(place):
        return Queued(turns.listing(place))
    own, found = _plain(place.get("by") or ""), _entries()
    of_nodes = {one.job for one in found if one.reason.startswith(_OF_NODES)}
    down = _down() if of_nodes else ()
    why: Dict[str, Any] = {"down": down} if down else {"reason": "Resources"}
    return Queued(tuple(one.changed(others=one.owner != own, **why if one.job in of_nodes else {}) for one in found))


def withdraw(place: Place, run: str) -> Withdrawn:
    """Take a run that waits out of the queue."""
    if not there(place):
        return Withdrawn(turns.withdraw(place, run))
    waits = [one for one in _entries() if one.is_run(run) and not one.holds]
    for one in waits:
        with contextlib.suppress(OSError), open(_withdrawn(run), "w") as file:
            file.write(place.get("by") or "another person")
        _run(["scancel", "--state=PENDING", str(one.job)])
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{COPIES}/{run}")
    return Withdrawn(bool(waits))


def _ahead(run: str) -> Tuple[Entry, ...]:
    """Who comes before a run that waits: all that hold nodes, and those that were there first."""
    found = _entries()
    own = next((number for number, one in enumerate(found) if one.is_run(run)), len(found))
    return tuple(found[:own])


def _down(states: str = "down,drain,fail") -> Tuple[str, ...]:
    """The nodes to which Slurm gives no run: they do not answer it, or were taken out."""
    looked = _run(["sinfo", "--noheader", "--Node", f"--states={states}", "--format=%N"])
    return tuple(sorted({*looked.stdout.split()}))


def lost() -> Tuple[str, ...]:
    """The nodes that do not answer Slurm."""
    return _down("down,no_respond")


def node_timeout() -> int:
    """Seconds after which a node that does not answer Slurm is down."""
    found = re.search(r"(?m)^SlurmdTimeout\s*= (\d+)", _run(["scontrol", "show", "config"]).stdout)
    return int(found[1]) if found else 300


def job(run: str) -> Tuple[str, Tuple[str, ...]] | None:
    """The state of a run's latest job, in Slurm's word, and its nodes now; None where Slurm knows none."""
    done = _run(["squeue", "--noheader", "--user=root", "--states=all", "--sort=i", f"--name={run}", "--format=%T|%N"])
    lines = done.stdout.splitlines()
    if not lines:
        return None
    state, _, nodes = lines[-1].partition("|")
    return state, _names(nodes)


def _entries() -> Tuple[Entry, ...]:
    mark = os.urandom(16).hex()  # names and comments may have ends of lines
    done = _run(["squeue", "--noheader", "--sort=-p,i", f"--format={mark}{_FIELDS}"])
    if done.returncode:
        raise Problem(
            f"the queue does not answer ({_said(done.stderr)}): 'regatta status' shows its services, 'regatta up' "
            "starts them; a run with --now does without it"
        )
    found = [_entry(one.rstrip("\n")) for one in done.stdout.split(mark) if one.count("|") >= 11]
    _drop_copies({one.run for one in found if one.ours})
    return tuple(sorted(found, key=lambda one: not one.holds))


def _entry(text: str) -> Entry:
    user, job, state, priority, nice, submitted, since, wanted, nodes, reason, run, owner = text.split("|", 11)
    holds, ours = state in _HOLDS, user == "root" and owner.startswith((_HELD, _DETACHED))
    return Entry(
        job=int(job.partition("_")[0]),
        run=_plain(run),
        owner=owner.removeprefix(_HELD).removeprefix(_DETACHED) if ours else user if user != "root" else "",
        ours=ours,
        detached=owner.startswith(_DETACHED),
        holds=holds,
        nodes=_names(nodes) if holds else (),
        wanted=int(wanted) if wanted.isdigit() else 0,
        reason="" if holds else reason,
        submitted=float(submitted) if submitted.isdigit() else 0.0,
        priority=int(priority) if priority.isdigit() else 0,
        nice=int(nice) if nice.lstrip("-").isdigit() else 0,
        since=float(since) if holds and since.isdigit() else None,
        expected=float(since) if not holds and since.isdigit() else None,
    )


def _names(nodes: str) -> Tuple[str, ...]:
    """The names in Slurm's short form: `node[1-3]`."""
    if "[" not in nodes:
        return tuple(filter(None, nodes.split(",")))
    return tuple(_run(["scontrol", "show", "hostnames", nodes]).stdout.split())


def _said(text: str) -> str:
    """What Slurm says, with what helps where its daemons do not believe each other."""
    text = text.strip()[-300:]
    why = "; MUNGE lacks its key, or the clocks of hosts differ by minutes: 'regatta check' and 'provision' help"
    return f"{text}{why}" if re.search("(?i)munge|credential|authenticat", text) else text


def _read(state: str) -> Dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError), open(state) as file:
        said = json.load(file)
        return said if isinstance(said, dict) else None
    return None


def _active(run: str) -> bool:
    return _run(["systemctl", "is-active", "--quiet", _unit(run)]).returncode == 0


def _run(command: List[str], given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=given,
        env={**os.environ, "SLURM_TIME_FORMAT": "%s"},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _withdrawn(run: str) -> str:
    return f"{_STATES}/{run}.withdrawn"


def _unit(run: str) -> str:
    return f"regatta-hold-{run}.service"
