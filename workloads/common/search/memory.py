"""The state of a search so far, kept on the driver's host: an interrupted one can continue.

Where trials do not depend on each other, that is the outcome of each; else the folder in which Ray Tune keeps its own
account of them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from workloads.common import events
from workloads.common.items.called import source_of
from workloads.common.items.kept import Kept
from workloads.common.search.asked import Search
from workloads.common.search.space import Point
from workloads.common.search.trial import Outcome
from workloads.common.storage import prepared

STATES = "experiment_state-*.json"
"""The file that Tune has in its folder once it has kept an account of the trials there."""


class Memory:
    """`known`: outcomes of an interrupted search for the same, by number; `left`: numbers and points of the others.

    `account`: where Tune keeps its own; `begun`: whether it is there, from an interrupted search for the same.
    """

    def __init__(self, search: Search, *, fixed: bool) -> None:
        """Begin to keep. `fixed`: trials do not depend on each other. Raises :class:`BadInput` for a lost module."""
        points = search.points()
        self.known: dict[int, Outcome] = {}
        self.account = search.kept / f"{search.kind}-{uuid.uuid4().hex[:8]}"
        self.begun = False
        self._fixed = fixed
        self._kept = _kept(search, points, "outcomes" if fixed else "account")
        if search.resume:
            self._go_on(self._kept.read(), len(points))
        lines = {number: _line(one) for number, one in self.known.items()}
        self._kept.begin(lines if self._fixed else {0: str(self.account)})
        self.left: list[tuple[int, Point]] = [one for one in enumerate(points) if one[0] not in self.known]

    def _go_on(self, lines: dict[int, str], count: int) -> None:
        if self._fixed:
            self.known = _taken(lines)
            events.warning(f"{len(self.known)} of {count} trials are those of an earlier search that was interrupted")
        elif lines and any(Path(lines[0]).glob(STATES)):
            self.account, self.begun = Path(lines[0]), True
        else:
            events.warning("nothing is left of an interrupted search for the same: this one starts from the beginning")

    def keep(self, outcome: Outcome) -> None:
        """Keep one more, at once."""
        if self._fixed:
            self._kept.add([outcome.number], [_line(outcome)])

    def end(self, made: Sequence[Outcome]) -> list[Outcome]:
        """All is done, and nothing left to continue with: the outcomes of all trials, in their order."""
        self._kept.end()
        return sorted([*self.known.values(), *made], key=lambda one: one.number)


def _kept(search: Search, points: Sequence[Point], what: str) -> Kept:
    trial = search.trial
    same = [what, search.kind, trial.options, trial.metric, trial.epochs]
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
