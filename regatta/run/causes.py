"""Why a run has failed, in words: out of what its nodes and its framework say of its end."""

import re
from collections.abc import Collection, Sequence

from regatta.frameworks import advice
from regatta.frameworks.api import Judge
from regatta.hosts.cluster import Cluster
from regatta.program import hint
from regatta.run.outcome import Accounts, Failure, reached, waited
from regatta.run.standing import Spot, absent, fallen, of_meetings, spots
from regatta_protocol.log import DRIVER
from regatta_protocol.run import Failure as Reported
from regatta_protocol.states import State


def failure(judge: Judge, told: Accounts) -> Failure | None:
    """Return what ended a run that did not succeed; None: nothing that is known.

    A rank killed by a signal comes before one that exited (its peers' complaint), then the earliest.
    """
    found = [(name, value.failure) for name, value in told.exits.items() if value.failure]
    for name, error in told.lost.items():
        left = f"what is left of the run there ends with the next run or '{hint('cancel')}'; "
        left += f"'{hint('status')}' shows who answers"
        return Failure(name, None, f"the node was lost in mid-run ({error.reason}): {left}", 1, host=name)
    vanished = [name for name, value in told.exits.items() if value.state is State.LOST]
    if vanished:
        name = vanished[0]
        unknown = f": was the host rebooted, or its supervisor killed? See '{hint('status')}'"
        how = _befell(judge, told, [name]) or unknown
        return Failure(name, None, f"the run vanished there{how}", 1, host=name)
    if found:
        return _of_process(judge, told, found)
    words = judge.failure_message()
    return Failure(judge.handle.cluster.head.name, None, words, 1) if words else None


def _of_process(judge: Judge, told: Accounts, found: Sequence[tuple[str, Reported]]) -> Failure:
    """The failure of a process, as its node told it; where it had waited for a rank too long, that one's."""
    name, worst = min(found, key=lambda item: _weight(item[1], judge.handle.framework.secondary_exit_codes))
    lines = _named(judge.handle.cluster, worst.last_lines)
    rank = worst.rank
    host = name if rank is None else None
    if rank == DRIVER:
        host = next((lost for lost in (*told.rebooted, *told.died) if lost != name), None)
    stood = _where_stood(judge, told) if waited(worst.last_lines) else []
    if late := absent(stood):
        then = f"then rank {rank} on {name} {_how(judge, told, name, worst, lines)}"
        words = of_meetings(stood).removeprefix(f"rank {late[0].rank} ")
        return Failure(late[0].node, late[0].rank, f"{words}; {then}", worst.code)
    if not worst.cause and (blamed := judge.blame(rank, worst.last_lines)):
        name, rank = blamed.node, blamed.rank
        worst = worst.changed(cause=blamed.cause)
    how = "; ".join(filter(None, [_how(judge, told, name, worst, lines), of_meetings(stood)]))
    return Failure(name, rank, how, worst.code, lines, host)


def _where_stood(judge: Judge, told: Accounts) -> list[Spot]:
    """The place of each rank when others had waited too long, by its nodes, and by what it printed when it ended."""
    meets, run = judge.handle.framework.meets, judge.handle.run
    found = spots(told.stood, meets)
    found += spots({name: ended.stood for name, ended in told.exits.items() if ended.stood}, meets)
    failures = [(name, ended.failure) for name, ended in told.exits.items() if ended.failure]
    found += [fallen(name, run, failure, meets) for name, failure in failures if failure.rank is not None]
    first: dict[int | None, Spot] = {}
    for one in found:
        first.setdefault(one.rank, one)
    return [*first.values()]


def _how(judge: Judge, told: Accounts, node: str, failure: Reported, lines: tuple[str, ...]) -> str:
    """The way in which a rank or a supervisor ended, and which host was short of memory meanwhile.

    That is asked of the node itself; a driver's failure may be that of any node which its last lines name.
    """
    how = f"killed by {failure.signal}" if failure.signal else f"exited with code {failure.code}"
    how = failure.cause or how
    accounts, where = told.said | told.exits, [node]
    if failure.rank == DRIVER:
        where = [name for name in accounts if any(f"({name})" in line for line in lines)] or [*accounts]
    how += _befell(judge, told, [*told.rebooted, *told.died])
    met = [name for name in dict.fromkeys([*where, *accounts]) if name in accounts and accounts[name].reached]
    how += "".join(f"; {text}" for name in met for text in reached(name, accounts[name].reached))
    if failure.disk_full:
        state = judge.handle.cluster.node(node).state
        freed = f"(df -h {state}; '{hint('runs-gc')}' deletes old runs)"
        how += f"; the disk of {node} is full: free some space there {freed}"
    if said := advice.about([*lines, how]) or advice.about([*told.spoken.get(failure.rank, ())]):
        how += f"; {said}"
    short = [name for name in where if name not in met and name in accounts and accounts[name].oom_kills > 0]
    if short:
        kernel = f"the kernel of {', '.join(short)} has killed a process meanwhile (journalctl -k there)"
        how += f"; out of memory: {kernel}"
    return how


def _befell(judge: Judge, told: Accounts, nodes: list[str]) -> str:
    """Return what happened in mid-run to nodes besides the run itself; nothing that is known: ''."""
    how = ""
    for name in dict.fromkeys(nodes):
        if name in told.rebooted:
            how += f"; {name} was rebooted in mid-run ('{hint('status')}' shows whether its services are back)"
        elif name in told.died:
            how += f"; {judge.died(name, told.died[name])}"
    return how


def _named(cluster: Cluster, lines: Sequence[str]) -> tuple[str, ...]:
    """Lines in which an address of a node is followed by the node's name."""
    known = {node.cluster_address: node.name for node in cluster.nodes if not node.local}
    if not known:
        return tuple(lines)
    address = re.compile(rf"(?<![\d.])({'|'.join(map(re.escape, known))})(?![\d.]*\d)")
    return tuple(address.sub(lambda found: f"{found[1]} ({known[found[1]]})", line) for line in lines)


def _weight(failure: Reported, secondary: Collection[int]) -> tuple[int, float]:
    """Orders failures, the likeliest first cause first: a signal, what befell a supervisor, a rank that exited (its
    peers' complaint), one that exited as it does where a peer is gone, then by time."""
    exited = 3 if failure.code in secondary else 2
    return (0 if failure.signal else 1 if failure.cause else exited, failure.at)
