"""Outcomes as they come in, kept on the driver's host: an interrupted search can be gone on with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from workloads.common import events
from workloads.common.items.called import source_of
from workloads.common.items.kept import Kept
from workloads.common.search.asked import FIXED, Search
from workloads.common.search.space import Point
from workloads.common.search.trial import Outcome
from workloads.common.storage import prepared


class Memory:
    """`known`: outcomes of an interrupted search for the same, by number; `left`: numbers and points of the others."""

    def __init__(self, search: Search) -> None:
        """Begin to keep, where trials do not depend on each other. Raises :class:`BadInput` for a lost module."""
        points = search.points()
        self.known: dict[int, Outcome] = {}
        self._kept: Kept | None = None
        if search.kind in FIXED:
            self._kept = _kept(search, points)
            if search.resume:
                self.known = _taken(self._kept.read())
                said = f"{len(self.known)} of {len(points)} trials are those of an earlier search that was interrupted"
                events.warning(said)
            self._kept.begin({number: _line(one) for number, one in self.known.items()})
        self.left: list[tuple[int, Point]] = [one for one in enumerate(points) if one[0] not in self.known]

    def keep(self, outcome: Outcome) -> None:
        """Keep one more, at once."""
        if self._kept is not None:
            self._kept.add([outcome.number], [_line(outcome)])

    def end(self, made: Sequence[Outcome]) -> list[Outcome]:
        """All is done, and nothing left to go on with: the outcomes of all trials, in their order."""
        if self._kept is not None:
            self._kept.end()
        return sorted([*self.known.values(), *made], key=lambda one: one.number)


def _kept(search: Search, points: Sequence[Point]) -> Kept:
    trial = search.trial
    same = [search.kind, trial.options, trial.metric, trial.epochs]
    return Kept(prepared.cache(), trial.function, json.dumps(same, sort_keys=True), points, source_of(trial.function))


def _taken(lines: dict[int, str]) -> dict[int, Outcome]:
    """Those that need not be done again: none that failed, none whose folder is gone."""
    found = {number: Outcome(**json.loads(line)) for number, line in lines.items()}
    return {
        number: one
        for number, one in found.items()
        if one.error is None and (one.folder is None or Path(one.folder).is_dir())
    }


def _line(outcome: Outcome) -> str:
    return json.dumps(asdict(outcome))
