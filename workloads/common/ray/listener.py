"""Hears of trials besides Tune's driver. It imports Tune, so it is imported when Tune's settings are made."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ray import tune

from workloads.common import events
from workloads.common.ray.reports import HOST, KEPT, LOST, POINT, REPORT, SECONDS
from workloads.common.search.memory import Memory
from workloads.common.search.trial import Outcome, Report, Trial, explained


class Heard(tune.Callback):  # type: ignore[misc]
    """Keeps what each trial has reported, also over an interruption."""

    def __init__(self, limits: Trial, numbers: Sequence[int], memory: Memory) -> None:
        self._limits, self._numbers, self._memory = limits, numbers, memory
        self._made: dict[str, Outcome] = {}
        self._begun: dict[str, float] = {}
        self._failed: list[Any] = []
        self._over: set[str] = set()
        self._interrupted: set[str] = set()

    def get_state(self) -> dict[str, Any]:
        """Return what Tune keeps with its own account of the trials."""
        return {"made": {name: asdict(one) for name, one in self._made.items()}, "over": sorted(self._over)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue with what an interrupted search has kept; trials that failed are done again."""
        self._made = {name: Outcome(**one) for name, one in state["made"].items()}
        self._over = {name for name in state["over"] if self._made[name].error is None}
        self._interrupted = {*self._made} - self._over
        said = f"{len(self._over)} of {len(self._numbers)} trials are those of an earlier search that was interrupted"
        events.warning(said)

    def ended(self, trial: Any) -> list[Report]:
        """The reports of a trial that an interrupted search has ended."""
        return self._made[trial.trial_id].reports if trial.trial_id in self._over else []

    def outcomes(self, trials: Sequence[Any]) -> list[Outcome]:
        """Of all trials of Tune's.

        An interrupted search may have had no time left to tell here of a trial that has ended: of that there is only
        the last report, from Tune's own account.
        """
        for trial in trials:
            if trial.status == trial.TERMINATED and trial.trial_id not in self._over and trial.last_result:
                made = self._of(trials, trial)
                made.reports = made.reports[: trial.last_result["training_iteration"] - 1]
                self._take(made, trial.last_result)
        for trial in self._failed:  # what they raised is there when Tune has ended
            made, error = self._made[trial.trial_id], trial.get_pickled_error()
            died = error is None or "Actor" in type(error).__name__
            if not died or made.error == LOST:
                lines = str(error or trial.get_error() or LOST).strip().splitlines()
                made.error = explained(lines[0 if died else -1], self._limits.megabytes)
        return sorted(self._made.values(), key=lambda one: one.number)

    def _of(self, trials: Sequence[Any], trial: Any) -> Outcome:
        made = self._made.get(trial.trial_id)
        if made is None:
            taken = {one.number for one in self._made.values()}
            free = next(number for number in self._numbers if number not in taken)
            # Tune lists trials in the order of their points, but for those of an interrupted search
            number = free if self._memory.begun else self._numbers[trials.index(trial)]
            made = self._made[trial.trial_id] = Outcome(number, {})
        made.point = dict(trial.config[POINT])
        return made

    def on_trial_start(self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any) -> None:
        """See tune.Callback: a trial of an interrupted search continues from its last checkpoint."""
        made = self._of(trials, trial)
        self._begun[trial.trial_id] = time.monotonic()
        if trial.trial_id in self._interrupted:
            self._interrupted.remove(trial.trial_id)
            made.error, made.reports = None, made.reports[: _steps(trial)]

    def on_trial_result(
        self, iteration: int, trials: Sequence[Any], trial: Any, result: Mapping[str, Any], **info: Any
    ) -> None:
        """See tune.Callback."""
        self._take(self._of(trials, trial), result)

    def _take(self, made: Outcome, result: Mapping[str, Any]) -> None:
        made.reports.append(json.loads(result[REPORT]))
        made.seconds, made.folder, made.host = result[SECONDS], result.get(KEPT), result[HOST]

    def on_trial_complete(self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any) -> None:
        """See tune.Callback."""
        self._end(trial, self._of(trials, trial))

    def on_trial_error(self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any) -> None:
        """See tune.Callback: its time limit, or a lost process."""
        made, limit = self._of(trials, trial), self._limits.seconds
        took = time.monotonic() - self._begun.get(trial.trial_id, math.inf)
        made.error = f"took longer than {limit:g} s" if limit and took >= limit else LOST
        self._failed.append(trial)
        self._end(trial, made)

    def _end(self, trial: Any, made: Outcome) -> None:
        made.folder = trial.checkpoint.path if trial.checkpoint else made.folder
        self._memory.keep(made)
        self._over.add(trial.trial_id)
        events.progress("trials", len(self._over), max(len(self._numbers), len(self._over)))


def _steps(trial: Any) -> int:
    """After how many reports a trial's latest checkpoint was made; 0: it has none, and begins at its start."""
    latest = trial.latest_checkpoint_result
    return latest.metrics["training_iteration"] if latest and latest.checkpoint else 0
