"""The runs that a node knows of."""

from __future__ import annotations

import itertools
import os
import time
from typing import TYPE_CHECKING, Any, Dict, Tuple

from regatta.node import notes, rights, rundirs
from regatta_protocol.decoding import believe
from regatta_protocol.run import About, FollowedBy, Kept, Listed, Listing, PlanKept
from regatta_protocol.states import State

if TYPE_CHECKING:
    from regatta_protocol.place import Place


BEGINNING_SECONDS = 60.0
"""A run's folder is there before `spec.json` is."""


def answer(place: Place) -> Listing:
    """The answer of :func:`runs`."""
    return Listing(runs(place))


def runs(place: Place) -> Tuple[Listed, ...]:
    """All runs of this node, oldest first.

    The node's own notes say what was started; for a run without one its files do, as far as those are small
    and believed. Also those that have made their own `spec.json` unreadable: they are to be deleted some day, too.
    """
    about = {
        run: (rundirs.here(place, run), note, notes.ended(place, run))
        for run in rundirs.names(place)
        if _concerns(place, note := notes.read(place, run))
    }
    told = rights.each(
        place,
        about,
        lambda own: _runs(place, {run: about[run] for run in own}),
        lambda own: tuple(_noted(place, run, *about[run]) for run in own),
    )
    return tuple(sorted(itertools.chain.from_iterable(told), key=lambda item: item.started))


def _concerns(place: Place, note: Dict[str, Any] | None) -> bool:
    """Whether who asks may know of a run: a member only of their own."""
    return not place.get("member") or notes.account(note) == place["member"]


@rights.of_run(gives=Tuple[Listed, ...])
def _runs(place: Place, about: Dict[str, Any]) -> Tuple[Listed, ...]:
    return tuple(item for run, known in about.items() if (item := _run(place, run, *known)))


def _run(place: Place, run: str, known: bool | None, note: Dict[str, Any] | None, until: float | None) -> Listed | None:
    now = time.time()
    told = _noted(place, run, known, note, until)
    spec = believe(Kept, note) if note else rundirs.spec(place, run, rundirs.SHARE_BYTES) or Kept()
    started = spec.started
    if started is None:
        started = os.lstat(rundirs.path(place, run)).st_mtime
        if now - started < BEGINNING_SECONDS and not known:
            return None
    state, said = rundirs.own_state(place, run, known), rundirs.ended(place, run)
    ended = said.ended if said and state is not State.RUNNING else None
    if ended is not None:
        ended = min(max(ended, started), until or now)
    return told.changed(
        state=state,
        started=started,
        ended=ended,
        age=now - started,
        idle=None if ended is None else now - ended,
        code=said.code if said and state is not State.RUNNING else None,
        recorded=os.path.lexists(rundirs.path(place, run, "recorded.json")),
        by=_followed_by(note if note else spec.record),
        spec=About(spec.framework, spec.mode, spec.release, spec.plan or PlanKept()),
    )


def _noted(place: Place, run: str, known: bool | None, note: Dict[str, Any] | None, until: float | None) -> Listed:
    """What root's own notes say of a run, where its own files cannot be read."""
    spec, now = believe(Kept, note or {}), time.time()
    started = spec.started if spec.started is not None else until or now
    owner = str((note or {}).get("owner") or "")
    return Listed(
        id=run,
        state=State.RUNNING if known else State.LOST,
        started=started,
        ended=None,
        age=now - started,
        idle=None,
        code=None,
        recorded=False,
        by=_followed_by(note),
        owner=owner,
        others=owner not in ("", place.get("by")),
        spec=About(spec.framework, spec.mode, spec.release, spec.plan or PlanKept()),
    )


def _followed_by(told: Dict[str, Any] | None) -> FollowedBy | None:
    by = (told or {}).get("by")
    return believe(FollowedBy, by) if isinstance(by, dict) else None
