"""Which hosts of a cluster are slower than the others, and in what: short measurements, compared with each other.

Hosts of one machine are measured in turn, as they would slow each other down. Of several rounds the fastest counts: a
host that is slow is always slow, and other activity on it passes. While a host seems slow, what is slow is measured
again on all hosts, as long as there is time.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from regatta.hosts import shared_cores
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.terminal.meter import size_text
from regatta_protocol.operations.launch import Inspect
from regatta_protocol.operations.probe import Probe, Receive, Send

SLOW = 0.8
"""A host is slow that does less than this part of what the others do."""
BUSY = 0.5
"""A host is busy with more processes a core than this that want to run, before it is measured."""
ROUNDS = 4
AGAIN_SECONDS = 20.0
"""No measurement begins later than so many seconds after the first."""
SECONDS = {"processor": 0.25, "memory": 0.15, "disk": 0.0}
NETWORK_SECONDS, MOST_PARTNERS = 0.25, 4
TITLES = {
    "processor": "processor",
    "memory": "memory",
    "disk": "disk: writing",
    "syncs": "disk: small synced writes",
    "sends": "network: sending",
    "receives": "network: receiving",
}
PARTS = {"syncs": "disk", "sends": "network", "receives": "network"}
"""The part of a host that is measured for a rate of another name."""
Figures = dict[str, dict[str, float]]
"""Rates by their name, and then by host."""


@dataclass(frozen=True)
class Slow:
    """A host that does only this part of what the others do."""

    node: str
    what: str
    part: float


@dataclass
class Probed:
    """The rates that were measured, who is slow, and the load per core of hosts that were busy before."""

    figures: Figures = field(default_factory=dict)
    slow: list[Slow] = field(default_factory=list)
    busy: dict[str, float] = field(default_factory=dict)


def probe(remote: Remote, say: Callable[[str], None]) -> Probed:
    """Measure all nodes, for 10 to 30 seconds. NodesError where one cannot be asked."""
    nodes = remote.cluster.nodes
    say(f"measuring {len(nodes)} host(s), 10 to 30 s: processor, memory, disk, network")
    facts = {name: said.facts for name, said in remote.everywhere(nodes, Inspect(), step="probe").items()}
    turns = [*in_turn(nodes, shared_cores.sharing(facts))]
    loads = {name: float(told["load"]) / int(told["cores"]) for name, told in facts.items()}
    began = time.monotonic()
    found = Probed()
    _measure(remote, turns, [*SECONDS, "network"], found.figures)
    found.busy = {name: load for name, load in loads.items() if load > BUSY}
    found.slow = slow(found.figures)
    while found.slow and time.monotonic() - began < AGAIN_SECONDS:
        again = sorted({PARTS.get(one.what, one.what) for one in found.slow})
        _measure(remote, turns, again, found.figures)
        found.slow = slow(found.figures)
    return found


def in_turn(nodes: Sequence[Node], shares: Mapping[str, Sequence[str]]) -> Iterator[list[Node]]:
    """Groups of hosts, none of which slows another one down; each host is in one."""
    left = [*nodes]
    while left:
        group: list[Node] = []
        for node in left:
            if not {one.name for one in group} & set(shares[node.name]):
                group.append(node)
        yield group
        left = [node for node in left if node not in group]


def _measure(remote: Remote, turns: Sequence[Sequence[Node]], parts: Iterable[str], found: Figures) -> None:
    """Measure parts of each host in several rounds; `found` keeps the fastest, also of those before."""

    def keep(name: str, figures: Mapping[str, float]) -> None:
        for what, rate in figures.items():
            of_hosts = found.setdefault(what, {})
            of_hosts[name] = max(rate, of_hosts.get(name, 0.0))

    for part in parts:
        for _ in range(ROUNDS if part != "network" else ROUNDS // 2):
            if part == "network":
                for name, figures in _network(remote, len(turns) > 1):
                    keep(name, figures)
                continue
            for group in turns:
                for name, said in remote.everywhere(group, Probe(part, SECONDS[part]), step="probe").items():
                    keep(name, said.figures)


def _network(remote: Remote, one_at_a_time: bool) -> Iterator[tuple[str, dict[str, float]]]:
    """Each host's rates with some others, as sender and as receiver: a cable may be bad in one direction."""
    nodes = remote.cluster.nodes
    for distance in range(1, min(len(nodes) - 1, MOST_PARTNERS) + 1):
        pairs = [(node, nodes[(at + distance) % len(nodes)]) for at, node in enumerate(nodes)]
        if one_at_a_time:
            rates = [_between(remote, *pair) for pair in pairs]
        else:
            with ThreadPoolExecutor(len(pairs)) as pool:
                rates = [*pool.map(lambda pair: _between(remote, *pair), pairs)]
        for (sender, receiver), rate in zip(pairs, rates, strict=True):
            yield sender.name, {"sends": rate}
            yield receiver.name, {"receives": rate}


def _between(remote: Remote, sender: Node, receiver: Node) -> float:
    """Bytes a second from one host to another."""
    with remote.stream(receiver, Receive(sender.cluster_address, NETWORK_SECONDS), timeout=60) as receiving:
        port = next(iter(receiving)).port
        remote.call(sender, Send(receiver.cluster_address, port, NETWORK_SECONDS))
        for _ in receiving:
            pass
        return receiving.answer.figures["network"]


def slow(figures: Figures) -> list[Slow]:
    """The hosts that do less than `SLOW` of the median of the others, and in which measurement."""
    found = []
    for what, of_hosts in figures.items():
        for name, rate in of_hosts.items():
            others = [other for host, other in of_hosts.items() if host != name]
            if others and rate < SLOW * statistics.median(others):
                found.append(Slow(name, what, rate / statistics.median(others)))
    return found


def rows(figures: Figures, nodes: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """A table: what each host does in a second."""
    yield ("node", *(TITLES[what] for what in figures))
    for name in nodes:
        yield (name, *(_shown(what, of_hosts.get(name)) for what, of_hosts in figures.items()))


def _shown(what: str, rate: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate:.0f}/s" if what == "syncs" else f"{size_text(rate)}/s"


def words(found: Probed) -> Iterator[str]:
    """A sentence for each host that is slow, or that none is."""
    if len(found.figures["processor"]) == 1:
        yield "there is one host, and none to compare it with"
        return
    for name in dict.fromkeys(one.node for one in found.slow):
        parts = ", ".join(f"{TITLES[one.what]} {one.part:.2f}" for one in found.slow if one.node == name)
        yield f"{name} is slower than the others, whose rate is 1: {parts}. Runs on all hosts wait for it"
    if found.slow and found.busy:
        busy = ", ".join(f"{name} ({load:.1f} processes a core)" for name, load in found.busy.items())
        yield f"other work makes hosts look slow: {busy}. Measure again when nothing else runs there"
    if not found.slow:
        yield f"all hosts are alike: none does less than {SLOW:.0%} of what the others do"
