"""Finds damaged copies of blocks by reading every copy on its own host, and has HDFS make new ones in their place."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from regatta.errors import DataError, NodesError
from regatta.hdfs.client import require
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.program import hint
from regatta.terminal.meter import size_text
from regatta_protocol.operations.hdfs import AskDamaged, AskHdfs, Damaged, DamagedCopy, PutAside, ReadOwn, ReportBlocks

STALL_SECONDS = 120.0
POLL_SECONDS = 1.0
REPORT_SECONDS = 20.0
SAY_SECONDS = 5.0
READ_SECONDS = 24 * 3600.0
ASK_SECONDS = 600.0


@dataclass(frozen=True)
class Repaired:
    """`read`: bytes of copies that were looked at; `copies`: those replaced."""

    read: int
    copies: tuple[DamagedCopy, ...]


def repair(remote: Remote, path: str, note: Callable[[str], None]) -> Repaired:
    """Look at every copy of all that is below a path in HDFS and replace those that are damaged, host after host.

    A host's DataNode is stopped for some seconds while its damaged copies are put aside. Raises DataError: no HDFS, a
    block without a good copy, copies that are not made again; NodesError where a host cannot be asked.
    """
    require(remote)
    head = remote.cluster.head
    state = remote.call(head, AskHdfs())
    if not state.installed or state.problem:
        raise DataError(f"HDFS does not answer: {state.problem or 'it is not set up'}; see '{hint('hdfs-status')}'")
    holders = {node.cluster_address: node for node in remote.cluster.nodes if node.cluster_address in state.live}
    done, failed = remote.gather(holders.values(), lambda node: _read_own(remote, node, path, note))
    if failed:
        raise NodesError("reading the copies of blocks", failed)
    copies = _damaged(remote, path).copies
    if lost := sorted({copy.file for copy in copies if not copy.live}):
        raise DataError(f"no good copy is left of a block of {', '.join(lost)}: put these files again")
    for address, node in holders.items():
        if own := {copy.block: copy.live for copy in copies if copy.address == address}:
            answer = remote.call(node, PutAside(tuple(sorted(own))), timeout=ASK_SECONDS)
            what = "1 damaged copy" if len(own) == 1 else f"{len(own)} damaged copies"
            note(f"{node.name}: {what} put aside in {answer.folder}")
            _wait_until_copied(remote, node, path, own)
    return Repaired(sum(done.values()), copies)


def _read_own(remote: Remote, node: Node, path: str, note: Callable[[str], None]) -> int:
    said = time.monotonic()
    with remote.stream(node, ReadOwn(path, node.cluster_address), timeout=READ_SECONDS) as lines:
        for line in lines:
            if time.monotonic() - said > SAY_SECONDS:
                said = time.monotonic()
                note(f"{node.name}: {size_text(line.read)} read")
        return lines.answer.read


def _damaged(remote: Remote, path: str, blocks: Iterable[str] = ()) -> Damaged:
    return remote.call(remote.cluster.head, AskDamaged(path, tuple(sorted(blocks))), timeout=ASK_SECONDS)


def _wait_until_copied(remote: Remote, node: Node, path: str, before: Mapping[str, int]) -> None:
    """Wait until each of some blocks that a node does not hold any more has more good copies than `before`."""
    left, since, reported = len(before), time.monotonic(), -REPORT_SECONDS
    while left:
        if time.monotonic() - reported > REPORT_SECONDS:
            remote.call(node, ReportBlocks(), timeout=ASK_SECONDS)
            reported = time.monotonic()
        time.sleep(POLL_SECONDS)
        live = _damaged(remote, path, before).live
        now = sum(live.get(block, 0) <= number for block, number in before.items())
        if now < left:
            left, since = now, time.monotonic()
        if time.monotonic() - since > STALL_SECONDS:
            raise DataError(
                f"{left} block(s) have got no new copy for {STALL_SECONDS:g} s: do the DataNodes have space? "
                f"See '{hint('hdfs-status')}'"
            )
