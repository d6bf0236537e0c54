"""The operations that a member may ask for, and the values that they may have: all others are refused.

A member's run is a unit of the account of runs, as anyone's, or of one that only this member's runs have
(`members_separate`; `place["account"]`). What a run could do by itself as that account is allowed here, too; what root
does for it is bound to its own folder and unit.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, NamedTuple, Sequence

from regatta.node import (
    cgroup,
    frameworks,
    layers,
    manifest,
    notes,
    outputs,
    queue,
    rights,
    rundirs,
    staging,
    supervisor,
)
from regatta.node.problem import Problem
from regatta_protocol.decoding import decode
from regatta_protocol.operations.hosts import AskMember, Definition, Member
from regatta_protocol.operations.launch import Inspect, Inspected
from regatta_protocol.operations.layers import BeginLayer, CommitLayer
from regatta_protocol.operations.outputs import AskLeft, AskSizes, AskSums, Sending
from regatta_protocol.operations.queue import HoldNodes, Notify, QueuedRun, SubmitRun, Withdraw
from regatta_protocol.operations.releases import Abandon, BeginRelease, CommitRelease
from regatta_protocol.operations.runs import StartRun
from regatta_protocol.operations.services import AskStatus, CallFramework
from regatta_protocol.operations.transfers import CommitFile
from regatta_protocol.run import Limits, Spec
from regatta_protocol.states import Mode
from regatta_protocol.value import fields

if TYPE_CHECKING:
    from regatta_protocol.place import Place


PORTS = (1024, 65535)
MOST_PORTS, MOST_NODES, MOST_FILES, MOST_URLS = 64, 4096, 4096, 16
MOST_PACKAGES, MOST_LETTERS, MOST_LAYERS = 4096, 256, 32
MOST_ABOUT, MOST_LAYER_BYTES = 1 << 18, 1 << 50
MOST_LOG_BYTES = 256_000_000
MOST_SECONDS = 10 * 366 * 86400.0
MOST_NICE = 10_000
RUN_PORTS = (29400, 29499)
"""From which controllers ask for ports; a member with an account of their own gets a tenth as many."""
SEPARATE = {"torch", "single", "multiprocessing", "processes", "joblib-loky", "dask", "zeromq"}
"""Frameworks of runs with accounts of their own: the others listen at ports that all runs reach, and believe who comes.
"""
_FLAGS = re.compile(r"-[LtIRv]{1,5}e[0-9.]{1,8}[A-Za-z]{0,20}\Z")
"""Of an rsync that receives files and their times, behind `e` what it can."""
_WITHOUT_SUDO = "you are a member of this cluster without sudo, and "
_NOT_OWN = "no run '{}' of {} on this node: others' are for who has sudo"
_SERVICES = "what is asked of a service here is for who has sudo"
_APART = "cannot keep members' runs apart (members_separate): it listens where all runs reach it"
_RELEASE = re.compile(r"[0-9a-f]{16}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_WORD = re.compile(r"[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?\Z")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")
_UNIT = re.compile(r"[a-z][a-z0-9@.-]{0,100}\Z")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]{0,100}\Z")


class Rule(NamedTuple):
    """`checked` returns what is asked as it is done, or raises Problem; `shown` what the member sees of the answer."""

    checked: Callable[[Place, Any], Any] = lambda place, asked: asked
    shown: Callable[[Place, Any], Any] = lambda place, answer: answer


def rule(op: str) -> Rule:
    """Return the rule of an operation. Problem for one that members have not."""
    if op in RULES:
        return RULES[op]
    why = REFUSED.get(op, f"'{op}' is for those who have sudo on the hosts")
    raise Problem(f"{_WITHOUT_SUDO}{why}. Nothing was changed")


def _must(true: bool, said: str) -> None:
    if not true:
        raise Problem(f"a member may not have {said}. Nothing was changed")


def _inside(path: str) -> bool:
    """Whether a path is relative, in its shortest form, and leads to no folder above."""
    return bool(path) and not path.startswith(("/", "../")) and path not in (".", "..") and _plain(path)


def _plain(path: str) -> bool:
    return bool(os.path.normpath(path) == path) and "\0" not in path


def _owns(place: Place, run: str) -> bool:
    """Whether a run is of the account that asks, by root's own note."""
    return bool(_WORD.match(run)) and notes.account(notes.read(place, run)) == place["by"]


def _own(place: Place, asked: Any) -> Any:
    if not _owns(place, asked.run):
        raise Problem(_NOT_OWN.format(asked.run, place["by"]))
    return asked


def _read(place: Place, asked: Any) -> Any:
    """Of a member with an account of their own, no run of before: the shared account may have more than the member."""
    if not _reads(place, _own(place, asked).run):
        raise Problem(
            f"{asked.run} is of before members had accounts of their own (members_separate): ask who has sudo for what "
            "it has left"
        )
    return asked


def _reads(place: Place, run: str) -> bool:
    account = place.get("account")
    return _owns(place, run) and account in (None, rights.account(place, rundirs.path(place, run)))


def _inspect(place: Place, asked: Inspect) -> Inspect:
    """No patch, whose base may have links in its way: the tree is sent whole."""
    _must(asked.release is None or bool(_RELEASE.match(asked.release)), f"the release {asked.release!r}")
    for one in asked.data:
        _must(bool(_SHA256.match(one.sha256)) and _file_name(one.name), f"the input file {one.name!r}")
    key = asked.layer.key if asked.layer else None
    _must(_layer(place, key), f"the layer {key!r}")
    _must(asked.layer is None or _words(asked.layer.label), f"the label {asked.layer and asked.layer.label!r}")
    ports = asked.ports
    _must(not ports or (len(ports) == 2 and PORTS[0] <= ports[0] <= ports[1] <= PORTS[1]), f"the ports {ports}")
    _must(0 < asked.free <= MOST_PORTS, f"{asked.free} ports")
    for function in asked.asks.values():
        _may_ask(function)
    _must(all(map(_PACKAGE.match, asked.apt)), f"the packages {asked.apt}")
    return asked.changed(patch=None, hint=None, ports=_own_ports(place, ports))


def _own_ports(place: Place, ports: Sequence[int]) -> Sequence[int]:
    """The ports that only this member's runs reach, in the place of those that all reach: the firewall has both."""
    if not place.get("account") or not ports:
        return ports
    low, high = RUN_PORTS
    _must(low <= ports[0] and ports[1] <= high, f"the ports {ports}")
    first, last = place["ports"]
    share = (last - first + 1) / (high - low + 1)
    return first + int((ports[0] - low) * share), first + int((ports[1] - low + 1) * share) - 1


def _inspected(place: Place, answer: Inspected) -> Inspected:
    return answer.changed(unfinished=tuple(run for run in answer.unfinished if _owns(place, run)))


def _file_name(name: str) -> bool:
    return bool(name) and not name.startswith(".") and "/" not in name and "\0" not in name


def _begin_release(place: Place, asked: BeginRelease) -> BeginRelease:
    _must(bool(_RELEASE.match(asked.release)), f"the release {asked.release!r}")
    return asked.changed(hint=None)


def _commit_release(place: Place, asked: CommitRelease) -> CommitRelease:
    """Its id is the hash of its entries, so that no other release can be replaced."""
    entries = asked.expected
    good = isinstance(entries, list) and all(
        isinstance(one, list) and len(one) == 3 and all(isinstance(part, str) for part in one) for one in entries
    )
    _must(good and manifest.release_id(entries) == asked.release, "a release of another name than its content has")
    staging.checked(place, asked.incoming)
    return asked


def _abandon(place: Place, asked: Abandon) -> Abandon:
    staging.checked(place, asked.incoming)
    return asked


def _commit_file(place: Place, asked: CommitFile) -> CommitFile:
    _must(bool(_SHA256.match(asked.sha256)) and _file_name(asked.name), f"the input file {asked.name!r}")
    staging.checked(place, asked.incoming)
    return asked


def _begin_layer(place: Place, asked: BeginLayer) -> BeginLayer:
    if asked.key.startswith("build-"):
        raise Problem(f"{_WITHOUT_SUDO}{REFUSED['layer.build']}. Nothing was changed")
    _own_key(place, asked.key)
    _must(layers.count_own(place) < MOST_LAYERS, f"more than {MOST_LAYERS} layers within a quarter of an hour")
    return asked


def _layer(place: Place, key: str | None) -> bool:
    """Whether it may be the layer of a run: none, one for all, or an own one."""
    return key is None or (bool(_WORD.match(key)) and not layers.foreign(place, key))


def _words(*told: str) -> bool:
    """Whether texts about a layer are short, and nothing that a terminal obeys."""
    return all(len(text) < MOST_LETTERS and text.isprintable() for text in told)


def _own_key(place: Place, key: str) -> None:
    """A layer comes under a key of the member's own, which no other person's run asks for."""
    _must(bool(_WORD.match(key)) and key.endswith(layers.own(place)), f"the layer {key!r}")


def _commit_layer(place: Place, asked: CommitLayer) -> CommitLayer:
    about = asked.about
    told = [about.label, *about.packages, *about.packages.values(), *about.instead, *about.instead.values()]
    _must(_words(*told) and sum(map(len, told)) < MOST_ABOUT and len(told) < MOST_PACKAGES, "so much about a layer")
    _must(0 <= about.bytes < MOST_LAYER_BYTES, f"a layer of {str(about.bytes)[:40]} bytes")
    _must(bool(_SHA256.match(asked.sha256)) and _file_name(asked.archive), f"the archive {asked.archive!r}")
    _own_key(place, asked.key)
    staging.checked(place, asked.incoming)
    return asked


def _start(place: Place, asked: StartRun) -> StartRun:
    """A field without a rule has to be as by default."""
    spec = asked.spec
    _may_start(place, spec.framework, spec.service)
    for name, field in fields(Spec).items():
        value = getattr(spec, name)
        allowed = SPEC.get(name, lambda place, spec, value, default=field.default: value == default)
        if name == "limits" and not _limited(place, spec, value):
            raise Problem("a member may not have a run with limits above this host's: 'regatta pull' brings its limits")
        _must(allowed(place, spec, value), f"a run with {name} {str(value)[:80]!r}")
    return asked


def _may_start(place: Place, framework: str, service: str | None) -> None:
    """Problem where a member has no runs of this framework."""
    if place.get("account") and framework not in SEPARATE:
        raise Problem(f"{_WITHOUT_SUDO}{framework} {_APART}: {', '.join(sorted(SEPARATE))} can. Nothing was changed")
    if service is not None and not frameworks.is_for_members(f"{service}.service.join"):
        raise Problem(_WITHOUT_SUDO + _SERVICES)


def _may_ask(function: str) -> None:
    """Problem for a function of a framework that members have not."""
    if not frameworks.is_for_members(function):
        raise Problem(_WITHOUT_SUDO + _SERVICES)


def _call(place: Place, asked: CallFramework) -> CallFramework:
    _may_ask(asked.function)
    for run in asked.words:
        if not _owns(place, run):
            raise Problem(_NOT_OWN.format(run, place["by"]))
    return asked


def _called(place: Place, answer: Any) -> Any:
    """Of lists that have something of runs only that of own ones."""
    if isinstance(answer, list):
        return [one for one in answer if not isinstance(one, dict) or _owns(place, str(one.get("run", "")))]
    return answer


def _status(place: Place, asked: AskStatus) -> AskStatus:
    _must(all(map(_UNIT.match, asked.units)), f"the units {asked.units}")
    _must(all(map(_PACKAGE.match, asked.versions)), f"the packages {asked.versions}")
    for function in asked.asks.values():
        _may_ask(function)
    return asked


def _limited(place: Place, spec: Spec, value: Limits) -> bool:
    """Whether no limit is higher than the host's, by variables of the inventory or by default."""
    host = decode(Limits, place.get("limits", {}))
    most = int(cgroup.properties(host)["TasksMax"])
    return (
        value.log_bytes is not None
        and 0 < value.log_bytes <= (host.log_bytes or MOST_LOG_BYTES)
        and 0 < value.memory_share <= host.memory_share
        and 0 < int(cgroup.properties(value)["TasksMax"]) <= most
        and (value.memory is None or value.memory > 0)
    )


def _within_work(place: Place, spec: Spec, value: str) -> bool:
    work = rundirs.path(place, spec.id, "work")
    return (value == work or value.startswith(f"{work}/")) and _plain(value)


def _word_or_none(place: Place, spec: Spec, value: str | None) -> bool:
    return value is None or bool(_WORD.match(value))


def _any(place: Place, spec: Spec, value: Any) -> bool:
    """What only the account of the run reads, in the run's unit."""
    return True


SPEC: Dict[str, Callable[[Place, Spec, Any], bool]] = {
    "id": lambda place, spec, value: bool(_WORD.match(value)),
    "mode": lambda place, spec, value: value in (Mode.UNIT, Mode.MEMBER),
    "framework": lambda place, spec, value: bool(_WORD.match(value)),
    "release": lambda place, spec, value: bool(_RELEASE.match(value)),
    "env": _any,
    "ranks": lambda place, spec, value: (spec.mode is not Mode.MEMBER) <= len(value) <= MOST_NODES,
    "plan": lambda place, spec, value: len(value.ports) <= MOST_PORTS,
    "limits": _limited,
    "files": lambda place, spec, value: len(value) <= MOST_FILES and all(map(_inside, value)),
    "cwd": _within_work,
    "folder": lambda place, spec, value: value == "" or _inside(value),
    "service": _any,
    "time_limit": lambda place, spec, value: value is None or 0 < value <= MOST_SECONDS,
    "layer": lambda place, spec, value: _layer(place, value),
    "temporary": lambda place, spec, value: value is None or bool(supervisor.TEMPORARY.match(value)),
    "shared": _word_or_none,
    "project": _word_or_none,
    "former": _word_or_none,
    "keep": lambda place, spec, value: all(map(_inside, value)),
    "interface_variables": _any,
    "record": _any,
    "expected": _any,
    "gpus": lambda place, spec, value: len(value) <= MOST_NODES,
    "cpus": lambda place, spec, value: len(value) <= MOST_NODES,
}


def _part(place: Place, asked: AskLeft | AskSums | Sending) -> bool:
    """Whether a part of the shared folder is that of the run, or what its project keeps, as noted at its start."""
    plan = (notes.read(place, asked.run) or {}).get("plan") or {}
    names = {f"runs/{plan.get('shared') or asked.run}", f"projects/{plan.get('project')}"}
    return asked.part is None or asked.part in names


def _left(place: Place, asked: AskLeft | AskSums | Sending) -> Any:
    """Of a member with an account of their own, any part of the folder that only it has."""
    if asked.part is None or not place.get("account"):
        _must(_part(place, _read(place, asked)), f"the part {asked.part!r} of the shared folder")
    return asked


def _sums(place: Place, asked: AskSums | Sending) -> Any:
    _left(place, asked)
    _must(all(map(_inside, asked.paths)), "files of another folder")
    return asked


def sender(place: Place, asked: Sending, listed: str) -> List[str]:
    """Return the rsync that sends files of a run, whose names are in the file `listed`, as the account of the run.

    What it reads there a run could read, too; it writes nothing.
    """
    _sums(place, asked)
    _must(bool(_FLAGS.match(asked.flags)), f"rsync with {asked.flags!r}")
    words = ["rsync", "--server", "--sender", asked.flags, "--timeout=60", "--files-from", listed, "--from0"]
    user = outputs.account(place, asked.run, asked.part)
    as_run = ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--no-new-privs"]
    return [*as_run, *words, "--no-implied-dirs", ".", f"{outputs.source(place, asked.run, asked.part, user)}/"]


def _sizes(place: Place, asked: AskSizes) -> AskSizes:
    return asked.changed(runs=tuple(run for run in asked.runs if _reads(place, run)))


def _hold(place: Place, asked: HoldNodes) -> HoldNodes:
    _queued(asked, asked.only)
    if any(one.is_run(asked.run) and one.others for one in queue.listing(place).entries):
        raise Problem(f"a run named '{asked.run}' is in the queue: choose another name")
    return asked


def _queued(asked: HoldNodes | QueuedRun, nodes: Iterable[str]) -> None:
    _must(bool(_WORD.match(asked.run)), f"a run named {asked.run!r}")
    _must(0 < asked.wanted <= MOST_NODES and all(map(_HOST.match, nodes)), f"the nodes {nodes}")
    _must(asked.seconds is None or 0 < asked.seconds <= MOST_SECONDS, f"{asked.seconds} s")
    _must(abs(asked.nice) <= MOST_NICE, f"the priority {asked.nice}")
    _must(0 <= asked.gpus <= MOST_NODES, f"{asked.gpus} GPUs")
    counts = (asked.ranks, asked.cores or 0, (asked.memory or 0) >> 10)
    _must(all(0 <= one <= 1 << 20 for one in counts), f"{counts} ranks, cores and GiB")


def _submit(place: Place, asked: SubmitRun) -> SubmitRun:
    """Each node checks its part by all rules, with its own limits, when it starts it (`regatta.node.detached`)."""
    first, carried = asked.first, asked.first.carried
    _queued(first, carried.nodes)
    _must(first.after is None or first.after > 0, f"the job {first.after}")
    _must(first.notify is None or _told(first.notify), "--notify but to http:// and https://")
    _must(not asked.further, "--elastic with --detach: leave one out")
    specs = [part["spec"] for parts in carried.forms.values() for part in parts if part is not None]
    _must(bool(specs) and all(one.get("id") == first.run for one in specs), "a run of another name than the job's")
    for one in specs:
        _may_start(place, str(one.get("framework")), one.get("service"))
    nodes = {name: one.changed(place={}) for name, one in carried.nodes.items()}
    return asked.changed(first=first.changed(carried=carried.changed(nodes=nodes)))


def _told(notify: Notify) -> bool:
    from regatta.node.notify import web  # urllib takes long to load, and no other request needs it

    return len(notify.urls) <= MOST_URLS and all(map(web, notify.urls)) and bool(_HOST.match(notify.cluster))


def _withdraw(place: Place, asked: Withdraw) -> Withdraw:
    if any(one.is_run(asked.run) and one.others for one in queue.listing(place).entries):
        raise Problem(f"{asked.run} is no run of {place['by']}: others' are for who has sudo")
    return asked


def _of_member(place: Place, asked: AskMember) -> AskMember:
    return asked.changed(keys=(), tokens=())


def _without_secrets(place: Place, answer: Member) -> Member:
    """The cluster and, on its head, the inventory that was made for members."""
    kept = answer.kept
    if kept is not None:
        shown = {"hosts.yml": kept.member} if kept.member else {}
        about = {name: getattr(kept, name) for name in ("name", "head", "hosts", "pins", "by", "at", "regatta")}
        kept = Definition(**about, files=shown, secrets={}) if shown else None
    return Member({}, answer.cluster, answer.head, answer.roles, kept)


OWN, READ = Rule(_own), Rule(_read)
RULES: Dict[str, Rule] = {
    "cluster.member": Rule(_of_member, _without_secrets),
    "inspect": Rule(_inspect, _inspected),
    "release.begin": Rule(_begin_release),
    "release.commit": Rule(_commit_release),
    "release.abandon": Rule(_abandon),
    "framework.call": Rule(_call, _called),
    "layer.base": Rule(),
    "layer.begin": Rule(_begin_layer),
    "layer.commit": Rule(_commit_layer),
    "data.begin": Rule(),
    "data.commit": Rule(_commit_file),
    "run.start": Rule(_start),
    "run.watch": READ,
    "run.standing": READ,
    "run.stop": OWN,
    "run.finish": OWN,
    "run.contention": OWN,
    "run.recorded": OWN,
    "run.account": READ,
    "run.left": Rule(_left),
    "run.sizes": Rule(_sizes),
    "run.sums": Rule(_sums),
    "run.list": Rule(),
    "status": Rule(_status),
    "queue.hold": Rule(_hold),
    "queue.list": Rule(),
    "queue.submit": Rule(_submit),
    "queue.withdraw": Rule(_withdraw),
}
REFUSED = {
    "layer.build": "a package without a wheel for these hosts is built by who has sudo: name a version that has one, "
    "or ask them to start this run once",
    "layer.fetch": "hosts that are reached over a relay take runs only from who has sudo",
    "debian.install": "Debian packages are installed by who has sudo: ask them to start this run once",
    "release.fetch": "hosts that are reached over a relay take runs only from who has sudo",
    "data.fetch": "hosts that are reached over a relay take runs only from who has sudo",
    "shared.parts": "old runs are deleted by who has sudo",
    "prune": "old runs are deleted by who has sudo",
}
"""Why members may not have operations of runs, where the name of the operation does not explain it."""
