"""A run whose hosts are lost goes on from its checkpoint on those that are left, as a run of its own.

Its controller must live to see that; a run that nobody follows ends with its host, as any other.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from regatta.errors import RunFailedError
from regatta.hosts.selection import without
from regatta.records.record import Record
from regatta.run import naming
from regatta.run.request import Request
from regatta.run.session import Session

ASK_SECONDS = 10.0


def run(session: Session, request: Request) -> Record:
    """`session.run`, again without the hosts that were lost where the request is elastic, `restarts` times at most.

    Gives the record of the last generation; each has one. Raises RunFailedError where no host was lost, or the head,
    which holds HDFS' names and with them the checkpoint.
    """
    if not request.options.elastic:
        return session.run(request)
    first = request.options.name or naming.new_run_name(request.program.label, request.framework)
    cores = _cores(session)
    ranks = request.options.workers or sum(cores.values())
    request = replace(request, options=replace(request.options, name=first), first_run=first)
    with contextlib.ExitStack() as stack:
        for generation in range(2, request.options.restarts + 2):
            try:
                return session.run(request)
            except RunFailedError as error:
                lost = _lost(session, error)
                left = without(session.cluster, lost)
                if not lost or left is None:
                    raise
                failed = str(error)
            names = ", ".join(lost)
            wanted = ranks_left(ranks, cores, [node.name for node in left.workers])
            next_name = f"{first[: naming.NAME_LENGTH - 4]}-g{generation}"
            note = f"generation {generation} of {first}, without {names}"
            options = replace(request.options, name=next_name, workers=wanted)
            request = replace(request, options=options, notes=(*request.notes, note))
            session.console.warn(f"{failed}\ngoing on from the checkpoint: {next_name}, {note}, {wanted} rank(s)")
            session = stack.enter_context(Session(left, session.console, session.results))
        return session.run(request)


def _cores(session: Session) -> dict[str, int]:
    answers = session.remote.everywhere(session.cluster.workers, "inspect", step="cores")
    return {name: int(answer["facts"]["cores"]) for name, answer in answers.items()}


def _lost(session: Session, error: RunFailedError) -> list[str]:
    """Hosts that ended the run, also those that are back by now, and those that do not answer."""
    _, silent = session.remote.gather(
        session.cluster.nodes, lambda node: session.remote.call(node, "inspect", timeout=ASK_SECONDS)
    )
    return [node.name for node in session.cluster.nodes if node.name == error.host or node.name in silent]


def ranks_left(wanted: int, cores: Mapping[str, int], left: Sequence[str]) -> int:
    """Ranks for the hosts that are left: as many as `wanted` where there is a core for each, else one a core.

    `wanted` and `cores` are those of the first generation. A run that had more ranks than cores keeps as many a core.
    """
    now = sum(cores[name] for name in left)
    return max(1, min(wanted, max(now, wanted * now // sum(cores.values()))))
