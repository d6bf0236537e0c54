"""The task that shows the cluster's queue."""

import time

from invoke.context import Context

from regatta.tasks.common import JSON_HELP, task
from regatta.tasks.launching import opened
from regatta.terminal.table import print_table
from regatta.text import owner

_HEADINGS = ("run", "owner", "state", "nodes", "since", "starts by", "why")
_REASONS = {
    "Resources": "its nodes are busy",
    "Priority": "others are first",
    "Dependency": "the run before has not ended",
    "DependencyNeverSatisfied": "the run before did not succeed: cancel it",
    "PartitionConfig": "no node has what it asks for: cancel it",
    "JobHeldAdmin": "held, as what was before it is not known any more: sudo scontrol release its job, or cancel it",
}
"""Slurm's most frequent ones, in words."""


@task(help={"json": JSON_HELP})
def queue(c: Context, inventory: str | None = None, json: bool = False) -> None:
    """List who holds nodes of the cluster, and who waits for some, first in line first."""
    from regatta.bench.estimate import span
    from regatta.run import queue as queued

    with opened(inventory) as cluster:
        found = cluster.queue()
    if json:
        from regatta.tasks import shown

        shown.say(shown.queue(cluster.name, found))
        return
    if not found:
        print(f"no run holds nodes of {cluster.name}, and none waits")
        return
    rows = []
    for one in found:
        age = span(max(0.0, time.time() - (one.since or one.submitted)))
        where = ", ".join(one.nodes) if one.holds else str(one.wanted)
        words = ["holds" if one.holds else "waits", "detached" if one.detached else "", _priority(one.nice)]
        state = ", ".join(filter(None, words))
        starts = queued.clock(one.expected) if one.expected else "-"
        why = f"Slurm gives no run to {', '.join(one.down)}" if one.down else _REASONS.get(one.reason, one.reason)
        rows.append((one.run, owner(one.owner) or "-", state, where, age, starts, why or "-"))
    print_table([_HEADINGS, *rows])


def _priority(nice: int) -> str:
    from regatta.run import queue as queued

    return f"{queued.priority(nice)} priority" if nice else ""
