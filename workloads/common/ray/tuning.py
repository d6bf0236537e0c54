"""Trials in the actors of Ray Tune, which chooses them and stops those that lag behind."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import logging
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workloads.common import events
from workloads.common.events import BadInput
from workloads.common.ray import cluster
from workloads.common.ray.reports import KEPT, POINT, REPORT, SECONDS
from workloads.common.search.asked import Search
from workloads.common.search.memory import Memory
from workloads.common.search.space import Axis, Span
from workloads.common.search.trial import Outcome, Trial, limit_memory

BROUGHT = ("optuna", "hyperopt")
"""Searches that are their own packages."""
TUNE = {"RAY_CHDIR_TO_TRIAL_DIR": "0", "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1", "RAY_AIR_NEW_OUTPUT": "0"}
"""The variables that Tune reads when it is imported: trials stay in the run's folder, and their reports go only to us.
"""


@contextlib.contextmanager
def search(asked: Search, memory: Memory) -> Iterator[Callable[[], Sequence[Outcome]]]:
    """Join Ray, and give what runs the search. Raises :class:`BadInput` where its package is not there."""
    if asked.kind in BROUGHT and importlib.util.find_spec(asked.kind) is None:
        raise BadInput(
            f"--search {asked.kind} needs the package {asked.kind}, which is not there: Regatta brings it, "
            f"unless --no-environment is given; by hand: pip install {asked.kind}"
        )
    for name, value in TUNE.items():
        os.environ.setdefault(name, value)
    with cluster.driver() as arguments:
        import ray

        with events.phase("rendezvous"):
            ray.init(logging_level=logging.WARNING, **arguments)
            workers = cluster.workers(ray.nodes())
            cores = cluster.resource(ray.nodes(), "CPU")
        share = min(1.0, int(10_000 * cores / workers) / 10_000)
        yield functools.partial(_run, asked, memory, workers, share)


def _run(asked: Search, memory: Memory, workers: int, share: float) -> list[Outcome]:
    from ray import tune

    from workloads.common.ray.listener import Heard

    known = asked.kind not in BROUGHT
    if known and not memory.left:
        return []
    logging.getLogger("ray.tune").setLevel(logging.ERROR)  # it misses files of the reports that come to us
    random.seed(asked.seed)  # of a population's changes
    swaps = asked.kind == "pbt"
    heard = Heard(asked.trial, [number for number, _ in memory.left] if known else range(asked.count), memory)
    trial = functools.partial(_population if swaps else _alone, trial=asked.trial, kept=str(asked.kept))
    space = tune.grid_search([point for _, point in memory.left]) if known else _domains(asked.axes)
    again = tune.ResumeConfig(errored=tune.ResumeConfig.ResumeType.RESTART) if memory.begun else None
    found = tune.run(
        tune.with_resources(trial, {"cpu": share}),
        name=memory.account.name,
        storage_path=str(memory.account.parent),
        config={POINT: space},
        metric=asked.trial.metric,
        mode="max" if asked.largest else "min",
        num_samples=1 if known else asked.count,
        max_concurrent_trials=workers,
        scheduler=_scheduler(asked, heard),
        search_alg=None if known else _algorithm(asked),
        reuse_actors=True,
        stop={"training_iteration": asked.trial.epochs},
        callbacks=[heard],
        verbose=0,
        raise_on_failed_trial=False,
        resume_config=again,
    )
    made: list[Outcome] = heard.outcomes(found.trials)
    return made


def _alone(config: dict[str, Any], trial: Trial, kept: str) -> None:
    """Run in an actor of Tune a trial from its beginning, with its own folder."""
    from ray import tune

    folder = Path(kept, tune.get_context().get_trial_id())
    shutil.rmtree(folder, ignore_errors=True)  # of an interrupted search
    folder.mkdir(parents=True)
    with _limited(trial) as seconds:
        for report in trial.reports(config[POINT], folder):
            has = str(folder) if any(folder.iterdir()) else None
            tune.report({trial.metric: report[trial.metric], REPORT: json.dumps(report), SECONDS: seconds(), KEPT: has})


def _population(config: dict[str, Any], trial: Trial, kept: str) -> None:
    """The same where trials continue from each other's checkpoints, which Tune keeps."""
    from ray import tune

    logging.getLogger("ray.train").setLevel(logging.WARNING)  # it tells of each checkpoint
    with tempfile.TemporaryDirectory(prefix="regatta-trial-") as name, _limited(trial) as seconds:
        folder = Path(name)
        if given := tune.get_checkpoint():
            with given.as_directory() as found:
                shutil.copytree(found, folder, dirs_exist_ok=True)
        for report in trial.reports(config[POINT], folder):
            made = tune.Checkpoint.from_directory(folder) if any(folder.iterdir()) else None
            told = {REPORT: json.dumps(report), SECONDS: seconds()}
            tune.report({trial.metric: report[trial.metric], **told}, checkpoint=made)


@contextlib.contextmanager
def _limited(trial: Trial) -> Iterator[Callable[[], float]]:
    """Limit time and memory; gives what tells the seconds since then."""
    if trial.seconds:  # the kernel ends a process that hangs, whatever it hangs in
        signal.setitimer(signal.ITIMER_REAL, trial.seconds)
    limit_memory(trial.megabytes)
    began = time.monotonic()
    try:
        yield lambda: time.monotonic() - began
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _domains(axes: Mapping[str, Axis]) -> dict[str, Any]:
    from ray import tune

    def domain(axis: Axis) -> Any:
        if not isinstance(axis, Span):
            return tune.choice(list(axis))
        if axis.whole:
            return (tune.lograndint if axis.log else tune.randint)(int(axis.low), int(axis.high) + 1)
        return (tune.loguniform if axis.log else tune.uniform)(axis.low, axis.high)

    return {name: domain(axis) for name, axis in axes.items()}


def _scheduler(asked: Search, heard: Any) -> Any:
    from ray.tune.schedulers import ASHAScheduler, PopulationBasedTraining

    class Halving(ASHAScheduler):  # type: ignore[misc]
        def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
            """Repeat to it the reports of trials that ended in an interrupted search: Tune does not keep them."""
            super().on_trial_add(tune_controller, trial)
            for step, report in enumerate(heard.ended(trial), 1):
                told = {"training_iteration": step, asked.trial.metric: report[asked.trial.metric]}
                self.on_trial_result(tune_controller, trial, told)

    if asked.kind == "asha":
        return Halving(max_t=max(asked.trial.epochs, 2), grace_period=1, reduction_factor=2)
    if asked.kind == "pbt":
        spans = {name: axis for name, axis in asked.axes.items() if isinstance(axis, Span)}
        lists = {name: list(axis) for name, axis in asked.axes.items() if not isinstance(axis, Span)}

        def within(config: dict[str, Any]) -> dict[str, Any]:
            point = config[POINT]
            return {**config, POINT: {**point, **{name: axis.within(point[name]) for name, axis in spans.items()}}}

        return PopulationBasedTraining(
            perturbation_interval=_interval(asked),
            hyperparam_mutations={POINT: {**_domains(spans), **lists}},
            custom_explore_fn=within,
        )
    return None


def _interval(asked: Search) -> int:
    """After so many reports a trial of a population may continue from another's checkpoint, kept until then."""
    return max(1, asked.trial.epochs // 4)


def _algorithm(asked: Search) -> Any:
    if asked.kind == "optuna":
        from ray.tune.search.optuna import OptunaSearch

        return OptunaSearch(seed=asked.seed)
    from ray.tune.search.hyperopt import HyperOptSearch

    return HyperOptSearch(random_state_seed=asked.seed)
