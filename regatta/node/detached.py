"""A node's part of a run without a controller: a task of Slurm, as root, that starts it and waits for its end.

It exits with 1 where the part has failed, so that Slurm ends those of the other nodes, which end theirs.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Tuple, cast

from regatta.node import holder, notes, rundirs, runs
from regatta.node.problem import Problem
from regatta.node.queue import OWNER
from regatta_protocol.decoding import decode
from regatta_protocol.operations.queue import Carried
from regatta_protocol.operations.runs import StartRun
from regatta_protocol.states import Mode, State

if TYPE_CHECKING:
    from regatta_protocol.place import Place

POLL_SECONDS = 0.25


class _Ended(BaseException):
    """Slurm ends the task: another node's part has failed, or the run was cancelled."""


def main(what: str, asked: str, member: Place, lost: str = "") -> None:
    """Do this node's part of `asked`: `run` it to its end, `finish` what is left of it then, or `stop` it.

    `member`: the place of who had no sudo when they queued the run, so that the part has to keep to the rules of the
    gate; empty for others. `follow` is `run` for a part that works already, as Slurm has lost its state. A member of a
    service has no process to wait for: the driver's end is the run's. `lost`: what Slurm says of a node that did not
    answer; where that was when the run began, perhaps no node knows of it.
    """
    said = decode(Carried, json.loads(asked))
    own, listed = os.environ["SLURMD_NODENAME"], os.environ["SLURM_JOB_NODELIST"]
    names = subprocess.run(
        ["scontrol", "show", "hostnames", listed], capture_output=True, text=True, errors="replace", check=True
    )
    granted = names.stdout.split()
    try:
        cpus, gpus = _granted(own) if said.shares else ((), ())
        start = part(said, granted, own, cpus, gpus)
    except KeyError as error:
        _log(f"{os.environ['SLURM_JOB_NAME']}: {error} has joined the cluster after it was queued: start it again")
        sys.exit(1)
    if start is None:
        return
    run = start.spec.id
    try:
        place = _place(said, own, member, start)
        if what in ("run", "follow"):
            _work(place, start, begun=what == "follow")
        elif _begun(place, run) and what == "stop":
            runs.stop(place, run, _unanswered(lost) or "the run ended on another node")
        elif _begun(place, run):
            runs.finish(place, run, State.SUCCEEDED, 0)
        elif lost and own == granted[0] and run == os.environ["SLURM_JOB_NAME"]:
            runs.refuse(place, start.spec, _unanswered(lost))
    except Exception as error:  # the journal is the only place for it
        _log(f"{run}: {error}")
        sys.exit(1)


def _unanswered(lost: str) -> str:
    """Return what has kept a run from its start, from srun's message; nothing where there is none."""
    found = re.search(r"(?:failed on node|Node failure on) ([^\s:,]+)(?:: (.*))?", lost)
    return f"{found[1]} did not answer in the queue ({found[2] or 'Slurm has lost it'})" if found else ""


def _place(said: Carried, own: str, member: Place, start: StartRun) -> Place:
    """What is known of this host; for a member's run it knows that itself. Problem where the member has left, and the
    run has failed then.
    """
    told: Dict[str, Any] = {**said.nodes[own].place, "by": os.environ.get(OWNER)}
    if member:
        from regatta.node import gate  # only members' programs have it

        try:
            told = {**gate.place_of(member["member"])}
        except Problem as error:
            if start.spec.id == os.environ["SLURM_JOB_NAME"]:
                runs.refuse({**member, "job": said.token}, start.spec, str(error))
            raise
    return cast("Place", {**told, "job": said.token})


def _begun(place: Place, run: str) -> bool:
    """Whether the run is the job's, and not another one of its name that only this host has."""
    return rundirs.there(place, run) and (notes.read(place, run) or {}).get("job") == place["job"]


def _work(place: Place, start: StartRun, *, begun: bool) -> None:
    """Start the part, unless it has begun, and wait for its end."""
    run = start.spec.id
    signal.signal(signal.SIGTERM, _end)
    try:
        if not begun:
            asked = _checked(place, start) if place.get("member") else start
            runs.start(place, asked.spec, asked.hidden)
        if start.spec.mode is Mode.MEMBER:
            return
        while rundirs.state(place, run) is State.RUNNING:
            time.sleep(POLL_SECONDS)
        sys.exit(0 if rundirs.state(place, run) is State.SUCCEEDED else 1)
    except _Ended:
        reason = "the run ended on another node, or was cancelled in the queue"
    except Exception as error:
        _log(f"{run}: {error}")
        reason = str(error)
        if run == os.environ["SLURM_JOB_NAME"] and not _begun(place, run):
            runs.refuse(place, start.spec, reason)
    if _begun(place, run):
        runs.stop(place, run, reason)
    sys.exit(1)


def _checked(place: Place, start: StartRun) -> StartRun:
    """The part as a member may have it. Problem for any other."""
    from regatta.node import members

    if start.spec.id != os.environ["SLURM_JOB_NAME"]:
        raise Problem(f"it is not the run that {place['member']} has queued")
    return cast("StartRun", members.rule("run.start").checked(place, start))


def _granted(own: str) -> Tuple[List[int], List[int]]:
    """The CPUs of this node that the job has, and its GPUs, counted from 0 in the order of their files."""
    cpus, gpus = holder.parts(os.environ["SLURM_JOB_ID"])
    return [sorted(os.sched_getaffinity(0))[number] for number in cpus[own]], gpus.get(own, [])


def part(
    said: Carried, granted: Sequence[str], own: str, cpus: Sequence[int] = (), gpus: Sequence[int] = ()
) -> StartRun | None:
    """What the node `own` starts of a run on the nodes that are granted, or on parts of these; None: nothing.

    `cpus`, `gpus`: of this node, where the run has a part of it. The order of nodes is that of their kinds, and then of
    the cluster. KeyError for a node that was not there yet.
    """
    nodes = said.nodes
    order = {name: (node.kind, number) for number, (name, node) in enumerate(nodes.items())}
    names = sorted(granted, key=lambda name: order[name])
    asked = said.forms[",".join(str(nodes[name].kind) for name in names)][names.index(own)]
    if asked is None:
        return None
    text = json.dumps(asked)
    for number, name in enumerate(names):
        stands = f"{said.token}-{number}"
        text = text.replace(f"{stands}-name", name)
        text = text.replace(f"{stands}-address", nodes[name].address)
    found = json.loads(text)
    found["spec"]["files"] = said.files[found["spec"]["files"]]
    found["spec"]["record"]["facts"] = nodes[own].facts
    if any(card.startswith(said.token) for card in found["spec"].get("gpus", ())):
        cards = sorted(nodes[own].facts["gpus"]["cards"], key=lambda card: int(card["minor"]))
        _on(found["spec"], [cards[number] for number in gpus or range(len(cards))])
    if cpus:
        found["spec"]["cpus"] = cpus
        found["spec"]["record"]["facts"] = {**nodes[own].facts, "cpus": cpus, "cores": len(cpus)}
    return decode(StartRun, found)


def _on(spec: Dict[str, Any], cards: Sequence[Dict[str, Any]]) -> None:
    """Let a part have these cards in place of as many that it was planned with: ranks know theirs by their number."""
    env, count = spec["env"], len(spec["gpus"])
    if env["CUDA_VISIBLE_DEVICES"] == ",".join(spec["gpus"]):  # else it is a person's own
        env["CUDA_VISIBLE_DEVICES"] = ",".join(card["visible"] for card in cards[:count])
    spec["gpus"] = [card["uuid"] for card in cards[:count]]


def _log(text: str) -> None:
    subprocess.run(["logger", "--tag=regatta-queue", text], check=False)


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Ended
