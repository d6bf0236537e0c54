"""A run whose hosts are lost continues from its checkpoint on those that are left, as a new run.

Its controller sees that; of a run without one the head does (`regatta.node.generations`).
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from regatta.errors import RunFailedError
from regatta.hosts.selection import without
from regatta.records.record import Record
from regatta.run import naming, placement
from regatta.run.request import Request
from regatta.run.session import Begun, Session
from regatta_protocol.operations.launch import Inspect

ASK_SECONDS = 10.0


@dataclass(frozen=True)
class Going:
    """A run that has begun; where it is elastic with the cores that each worker had then."""

    begun: Begun
    cores: Mapping[str, int]


def run(session: Session, request: Request) -> Record:
    """`session.run`, again without the hosts that were lost where the request is elastic, `restarts` times at most.

    Gives the record of the last generation; each has one. Raises RunFailedError where no host was lost, or the head,
    which holds HDFS' names and with them the checkpoint.
    """
    return finish(session, begin(session, request))


def begin(session: Session, request: Request) -> Going:
    """Start the run, of an elastic one the first generation."""
    if not request.options.elastic:
        return Going(session.begin(request), {})
    cores = session.cores()
    return Going(session.begin(first(request)), cores)


def first(request: Request) -> Request:
    """The request of the first generation, by whose name the others know it."""
    name = request.options.name or naming.new_run_name(request.program.label, request.framework)
    return replace(request, options=replace(request.options, name=name), first_run=name)


def finish(session: Session, going: Going) -> Record:
    """Follow a run that has begun, and where it is elastic its further generations. Raises what `run` does."""
    begun, request = going.begun, going.begun.request
    if not request.options.elastic:
        return session.finish(begun)
    begun_as, ranks = str(request.first_run), request.options.workers or sum(going.cores.values())
    with contextlib.ExitStack() as stack:
        for generation in range(2, request.options.restarts + 2):
            try:
                return session.finish(begun)
            except RunFailedError as error:
                lost = _lost(session, error)
                left = without(session.cluster, lost)
                if not lost or left is None:
                    raise
                failed = str(error)
            names = ", ".join(lost)
            on_gpus = any(cards.visible for cards in begun.ready.plan.cards.values())
            cores = sum(going.cores[node.name] for node in left.workers)
            wanted = None if on_gpus else placement.ranks_left(ranks, going.cores, cores)
            how = "one rank a GPU" if on_gpus else f"{wanted} rank(s)"
            next_name = naming.generation(begun_as, generation)
            note = f"generation {generation} of {begun_as}, without {names}"
            options = replace(request.options, name=next_name, workers=wanted)
            request = replace(request, options=options, notes=(*request.notes, note))
            session.console.warn(f"{failed}\ncontinuing from the checkpoint: {next_name}, {note}, {how}")
            session = stack.enter_context(Session(left, session.console, session.results))
            begun = session.begin(request)
        return session.finish(begun)


def _lost(session: Session, error: RunFailedError) -> list[str]:
    """Hosts that ended the run, also those that are back by now, and those that do not answer."""
    _, silent = session.remote.gather(
        session.cluster.nodes, lambda node: session.remote.call(node, Inspect(), timeout=ASK_SECONDS)
    )
    return [node.name for node in session.cluster.nodes if node.name == error.host or node.name in silent]
