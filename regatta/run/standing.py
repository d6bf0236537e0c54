"""Where each rank of a run stands, in lines, and which rank the others wait for: by what its nodes say of it.

Pure functions, but for `why` and `ask`. `node` is always a node's name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from regatta.errors import NodesError, RunError
from regatta.hosts.remote import Remote
from regatta.program import hint
from regatta.run import catalogue
from regatta.run.catalogue import RunInfo
from regatta.terminal.meter import size_text
from regatta.terminal.top import Rates
from regatta.text import clean
from regatta_protocol.log import DRIVER
from regatta_protocol.operations.runs import AskStanding
from regatta_protocol.run import Failure
from regatta_protocol.standing import Frame, Standing, Stood, Thread
from regatta_protocol.states import State

LIST_SECONDS, SECONDS = 1.2, 1.8
"""Seconds that a node may take to list its runs, and to answer where a run stands."""
SLOW_SECONDS = 10.0
MANY_FAULTS = 50.0
"""A process that reads this many pages a second from a disk works on a mapped file, or lacks memory."""
LOST = (0.05, 3)
"""The part of TCP's segments, and the number, that are sent again where packets are lost."""
FULL, LEAST_OTHERS = 0.9, 0.3
"""The part of a host's CPU from which on it is full, and the least part of it that other processes use then."""
BUSY_CORES = 0.5
"""A process that uses this much of a core computes, and does not wait."""
MOST_SHOWN = 160
WRAPPERS = {"inner", "_fn", "decorate_context", "_wrapped_call_impl", "_call_impl", "__call__", "<lambda>"}
"""Functions around others, whose names tell nothing."""
DOES = {
    "sleep": "sleeps",
    "lock": "waits for a lock",
    "read": "reads from",
    "write": "writes to",
    "connect": "connects to",
    "accept": "waits for",
    "poll": "waits for",
    "open": "opens",
    "events": "waits for events",
    "signal": "waits for a signal",
    "pause": "waits for a signal",
    "disk": "waits for a disk or a file server:",
    "memory": "waits for memory, as its limit is reached",
}
UNANSWERED = " does not "
"""Part of a node's text about a connection that does not get through."""
IDLE = ("", "events")
"""States of a service's worker that has no task."""
STOPPED = ("T", "t")
_TRACED = re.compile(r'^(?:\[rank\d+\]:)? *File "(.{1,400})", line (\d{1,7}), in (\S{1,200})$', re.M)
ENDED = "Z"


@dataclass(frozen=True)
class Spot:
    """A rank, or another process, and where it stands.

    `where`: `train.py:12 (main)`, `call`: what is called there; `does`: what it does meanwhile. `meeting`: the call in
    which it waits for other ranks; empty: none.
    """

    node: str
    rank: int | None
    process: Standing
    where: str
    call: str
    does: str
    meeting: str

    @property
    def text(self) -> str:
        """One line, without the rank."""
        place = f" at {self.where}" if self.where else ""
        if self.meeting:
            return f"{self.meeting}{place}"
        return f"{self.does}{place}{f', in {self.call}' if self.call else ''}"

    @property
    def stopped(self) -> bool:
        """Whether a signal holds it."""
        return self.process.state in STOPPED


def ask(remote: Remote, info: RunInfo, timeout: float = SECONDS) -> tuple[dict[str, Stood], dict[str, Exception]]:
    """The answer of each node of a run, and the nodes that do not answer in time."""
    said, failed = remote.promptly(info.nodes, AskStanding(info.run), timeout)
    stood = {node.name: said[node.name] for node in info.nodes if node.name in said}
    slow = failed and not stood and timeout < SLOW_SECONDS
    return ask(remote, info, SLOW_SECONDS) if slow else (stood, failed)


@dataclass(frozen=True)
class Why:
    """Where a run stands: its ranks and other processes, its hosts, and the likely cause of a wait."""

    run: str
    spots: tuple[Spot, ...]
    stood: Mapping[str, Stood]
    failed: Mapping[str, Exception]
    likely: str

    def hosts(self) -> dict[str, str]:
        """Return a sentence about each host that has answered."""
        return {node: host(node, told) for node, told in self.stood.items()}

    def lines(self) -> Iterator[str]:
        """Yield lines for a person: ranks, hosts, at last the likely cause."""
        yield from lines(self.spots, self.stood)
        yield from self.hosts().values()
        yield from (f"{node}: {reason(error)}" for node, error in self.failed.items())
        yield self.likely


def why(remote: Remote, wanted: str) -> Why:
    """Return where a run stands. RunError where it has ended.

    `wanted`: see `catalogue.find`. A host that does not answer in time is named.
    """
    info = _find(remote, wanted)
    if info.state is not State.RUNNING:
        raise RunError(f"{info.run} is not running: it has {info.state.recorded}; its log: {hint('logs', info.run)}")
    with ThreadPoolExecutor(1) as beside:
        stalls = beside.submit(info.adapter.stalls, remote, info.run)
        stood, failed = ask(remote, info)
    found = spots(stood, info.adapter.meets)
    silent: dict[str, list[int]] = {node: [] for node in failed}
    for rank, node in info.places.items():
        if node not in stood:
            silent.setdefault(node, []).append(rank)
    cause = likely(found, silent, limited(stood), [clean(said) for said in stalls.result()])
    return Why(info.run, tuple(found), stood, failed, cause)


def _find(remote: Remote, wanted: str) -> catalogue.RunInfo:
    """The run, soon; where no host answers soon, the way to all of them is slow, and they have longer."""
    try:
        return catalogue.find(remote, wanted, LIST_SECONDS)
    except NodesError:
        return catalogue.find(remote, wanted, SLOW_SECONDS)


def reason(error: Exception) -> str:
    """Return why a node gives no answer, without its name."""
    return clean(str(getattr(error, "reason", error)).partition("\n")[0])


def host(node: str, told: Stood) -> str:
    """The host's present activity, in a sentence."""
    try:
        rates, load = Rates.between(told.before, told.after), float(told.after["load"])
    except (KeyError, TypeError, ValueError):
        return f"{node}: nothing is known of its load"
    flows = (("received", rates.received), ("sent", rates.sent), ("read", rates.read), ("written", rates.written))
    moved = ", ".join(f"{size_text(amount)}/s {name}" for name, amount in flows)
    more = [f"the run uses {told.limits['memory']:.0%} of its memory"] if "memory" in told.limits else []
    if throttled := told.limits.get("throttled", 0.0):
        more.append(f"its CPU was throttled {throttled:.0%} of the time")
    shown = f"CPU {rates.cpu:.0%}, load {load:.1f} of {told.after['cores']} cores, memory {rates.memory:.0%}"
    return "; ".join([f"{node}: {shown}; {moved}", *more])


def spots(stood: Mapping[str, Stood], meets: str) -> list[Spot]:
    """The ranks and drivers, in their order, then processes of which no rank is known. `meets`: see `Framework`."""
    found = [
        spot(node, one, _children(one, said.processes), meets)
        for node, said in stood.items()
        for one in said.processes
        if one.main or one.rank is None
    ]
    return sorted(found, key=lambda one: (one.rank is None, one.rank or 0, one.node, one.process.pid))


def _children(parent: Standing, processes: Iterable[Standing]) -> list[Standing]:
    return [one for one in processes if one.parent == parent.pid]


def spot(node: str, one: Standing, children: Sequence[Standing], meets: str) -> Spot:
    """The state of one process."""
    frames = one.threads[0].frames if one.threads else ()
    own = next((at for at, frame in enumerate(frames) if frame.own), None)
    computes = not one.waiting.what and one.cpu >= BUSY_CORES
    inner = frames if own is None else frames[:own]
    meeting = "" if computes else _meeting(inner, meets)
    if own is not None:
        where, call = place(frames[own]), _called(inner)
    else:
        where, call = (place(frames[0]), "") if frames else ("", "")
    does = _does(one, children, computes)
    if one.unseen:
        does += f" ({clean(one.unseen)})"
    return Spot(node, one.rank, one, where, call, does, meeting)


def place(frame: Frame) -> str:
    """`train.py:12 (main)`."""
    file = frame.file.rpartition("site-packages/")[2]
    name = "" if frame.name in ("<module>", "") else f" ({clean(frame.name)})"
    return f"{clean(file)[-MOST_SHOWN:]}:{frame.line}{name}"


def _meeting(inner: Sequence[Frame], meets: str) -> str:
    """The call, nearest to a person's own code, in which ranks wait for each other; `inner`: the innermost first."""
    found = [frame for frame in inner if meets and re.search(meets, frame.file) and _tells(frame)]
    return clean(found[-1].name) if found else ""


def _called(inner: Sequence[Frame]) -> str:
    return next((clean(frame.name) for frame in reversed(inner) if _tells(frame)), "")


def _tells(frame: Frame) -> bool:
    """Whether its name tells what a person has called: it is no wrapper around that."""
    name = frame.name.rpartition(".")[2]
    return name not in WRAPPERS and not name.endswith("wrapper")


def _does(one: Standing, children: Sequence[Standing], computes: bool) -> str:
    if one.state in STOPPED:
        return "is stopped by a signal (SIGSTOP)"
    if one.state == ENDED:
        return "has ended, and its parent has not noticed"
    if one.waiting.what == "child":
        named = ", ".join(f"'{_program(child)}' ({child.pid})" for child in children)
        return f"waits for its child process {named}".rstrip()
    if one.faults >= MANY_FAULTS:
        return f"reads its memory from the disk ({one.faults:.0f} pages a second: a mapped file, or too little memory)"
    if computes or (not one.waiting.what and one.state == "R"):
        return "computes"
    does = DOES.get(one.waiting.what, f"waits in {clean(one.waiting.what)}" if one.waiting.what else "waits")
    return f"{does} {clean(one.waiting.on)}" if one.waiting.on else {"reads from": "reads"}.get(does, does)


def _program(one: Standing) -> str:
    return clean(one.program)[:60]


def named(found: Sequence[Spot]) -> str:
    """`rank 3`, `ranks 0-2, 5`, `the driver`, or programs and their numbers."""
    numbers = sorted(one.rank for one in found if one.rank is not None and one.rank != DRIVER)
    parts = ["the driver"] if any(one.rank == DRIVER for one in found) else []
    if numbers:
        parts.append(f"rank{'s' if len(numbers) > 1 else ''} {ranges(numbers)}")
    parts += [f"{_program(one.process)} ({one.process.pid} on {one.node})" for one in found if one.rank is None]
    return ", ".join(parts)


def ranges(numbers: Sequence[int]) -> str:
    """`0-2, 5`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts)


def lines(found: Sequence[Spot], stood: Mapping[str, Stood]) -> list[str]:
    """A line for each place in which ranks stand, with what belongs to it below."""
    folded: dict[str, list[Spot]] = {}
    for one in found:
        folded.setdefault(one.text, []).append(one)
    said = []
    for text, here in folded.items():
        said.append(f"{named(here)}: {text}")
        for one in here:
            said += [f"    {named([one])}: {clean(link)}" for link in one.process.links if UNANSWERED in link]
            said += [f"    {named([one])}: {below}" for below in _below(one, stood)]
    return said


def _below(one: Spot, stood: Mapping[str, Stood]) -> list[str]:
    """The processes that a rank has started, where something is wrong with them, or it waits for one."""
    children = _children(one.process, stood[one.node].processes) if one.node in stood else []
    return [
        f"its process {child.pid} ({_program(child) or 'no name'}) {spot(one.node, child, (), '').text}"
        for child in children
        if child.state in (*STOPPED, ENDED) or one.process.waiting.what == "child"
    ]


def likely(
    found: Sequence[Spot],
    silent: Mapping[str, Sequence[int]],
    limits: Sequence[str] = (),
    stalls: Sequence[str] = (),
) -> str:
    """The likely cause in a sentence.

    `silent`: ranks of nodes that do not answer; `limits`: see `limited`; `stalls`: what a service does not give.
    """
    if silent:
        there = "; ".join(f"{node} does not answer{_with_ranks(ranks)}" for node, ranks in silent.items())
        return "; ".join([f"{there}: is the host up, and its network?", *limits])
    stopped = [one for one in found if one.stopped]
    if stopped:
        one = stopped[0]
        at = f" at {one.where}" if one.where else ""
        return f"{named(stopped)} is stopped by a signal{at}: 'kill -CONT {one.process.pid}' on {one.node} continues it"
    ranks = [one for one in found if one.rank is not None]
    driven = any(one.rank == DRIVER for one in ranks)
    working = [one for one in found if one.rank is None and driven and one.process.waiting.what not in IDLE]
    said = of_meetings(ranks) or _alone([*ranks, *working])
    return "; ".join(filter(None, [*stalls, said, *limits])) or "nothing that waits was found"


def _with_ranks(ranks: Sequence[int]) -> str:
    if not ranks:
        return ""
    return f", where rank{'s' if len(ranks) > 1 else ''} {ranges(sorted(ranks))} {'are' if len(ranks) > 1 else 'is'}"


def absent(ranks: Sequence[Spot]) -> list[Spot]:
    """The ranks that others wait for."""
    meet = any(one.meeting for one in ranks)
    return [one for one in ranks if meet and not one.meeting and one.rank is not None and one.rank != DRIVER]


def fallen(node: str, run: str, failure: Failure, meets: str) -> Spot:
    """The last place of a rank that has ended, by the last lines that it printed: a traceback."""
    own = f"/runs/{run}/work/"
    frames = [
        Frame(name, file.rpartition(own)[2], int(line), own in file)
        for file, line, name in reversed(_TRACED.findall("\n".join(failure.last_lines)))
    ]
    ended = Standing(rank=failure.rank, main=True, threads=(Thread("", tuple(frames)),))
    return spot(node, ended, (), meets)


def of_meetings(ranks: Sequence[Spot]) -> str:
    """Return who is not in the call in which others wait, or that they wait in different ones; empty: no one waits."""
    waiting, others = [one for one in ranks if one.meeting], absent(ranks)
    if not waiting:
        return ""
    places = dict.fromkeys(one.text for one in waiting)
    if others:
        each = "; ".join(f"{named([one])} on {one.node} {one.text}" for one in others[:4])
        each = f"on {others[0].node} it {others[0].text}" if len(others) == 1 else each
        common = f" ({waiting[0].text})" if len(places) == 1 else ""
        verb = "are" if len(others) > 1 else "is"
        return f"{named(others)} {verb} not in the collective that {_waits(waiting)} in{common}: {each}"
    if len(places) > 1:
        each = "; ".join(f"{named([one for one in waiting if one.text == text])} in {text}" for text in places)
        return f"ranks wait for each other in different calls: {each}. All ranks have to make the same calls in order"
    return _together(waiting)


def _waits(waiting: Sequence[Spot]) -> str:
    return f"{named(waiting)} wait{'' if len(waiting) > 1 else 's'}"


def _together(waiting: Sequence[Spot]) -> str:
    cut = [
        f"{named([one])} on {one.node}: {link}" for one in waiting for link in one.process.links if UNANSWERED in link
    ]
    if cut:
        return f"{_waits(waiting)} in {waiting[0].text}, and the network does not carry their data: {'; '.join(cut)}"
    own = [f"{named([one])}: {link}" for one in waiting for link in one.process.links if _of_one_host(link)]
    if own and len({one.node for one in waiting}) > 1:
        return f"{_waits(waiting)} in {waiting[0].text} at an address of one host only: {'; '.join(own)}"
    return (
        f"{_waits(waiting)} in the same call, {waiting[0].text}: do all meet at the same address, do they give "
        "tensors of the same shape and type, and does the network between their hosts work?"
    )


def _of_one_host(link: str) -> bool:
    return "127." in link or "[::1]" in link


def _alone(ranks: Sequence[Spot]) -> str:
    """No rank waits for others: those that wait for something else, or the one that is elsewhere."""
    waits = [one for one in ranks if one.process.waiting.what]
    if not waits:
        return f"{named(ranks)} compute{'s' if len(ranks) == 1 else ''}: nothing waits" if ranks else ""
    places: dict[str, list[Spot]] = {}
    for one in ranks:
        places.setdefault(one.text, []).append(one)
    fewest = min(places.values(), key=len)
    if len(places) > 1 and len(fewest) < len(ranks) / 2 and fewest[0].process.waiting.what:
        return f"{named(fewest)} on {fewest[0].node} is elsewhere than the others: it {fewest[0].text}"
    return "; ".join(f"{named(here)} {here[0].text}" for here in places.values() if here[0].process.waiting.what)


def limited(stood: Mapping[str, Stood]) -> list[str]:
    """The reasons that hold a run back on its hosts, in sentences."""
    said = []
    for node, told in stood.items():
        if told.limits.get("memory", 0.0) >= 0.95:
            said.append(f"on {node} the run uses {told.limits['memory']:.0%} of the memory that it may use")
        if told.limits.get("throttled", 0.0) >= 0.1:
            said.append(f"on {node} its limit of CPU holds the run back (throttled)")
        said += [f"{node} {what}" for what in (_loss(told), _others(told)) if what]
    return said


def _loss(told: Stood) -> str:
    try:
        sent, again = (now - then for now, then in zip(told.after["segments"], told.before["segments"], strict=True))
    except (KeyError, TypeError, ValueError):
        return ""
    lost = again >= LOST[1] and again >= LOST[0] * sent
    return f"sends {again / max(sent, again):.0%} of TCP's segments again: its network loses packets" if lost else ""


def _others(told: Stood) -> str:
    """That others use the cores for which a process of the run is ready."""
    try:
        cpu, cores = Rates.between(told.before, told.after).cpu, int(told.after["cores"])
    except (KeyError, TypeError, ValueError):
        return ""
    ready = any(one.state == "R" for one in told.processes)
    others = cpu * cores - sum(one.cpu for one in told.processes)
    held = ready and not told.more and cpu >= FULL and others >= LEAST_OTHERS * cores
    return f"has no core left: other processes use {others:.1f} of its {cores}" if held else ""
