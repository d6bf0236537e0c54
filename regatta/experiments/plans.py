"""A bench plan as values: what is run with what, and its points on a cluster."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from regatta.cards import reading, values
from regatta.cards.card import Value, Workload
from regatta.cards.reading import count
from regatta.errors import PlanError
from regatta.options.declaration import RunOptions

EACH, DOUBLING, SEVERAL = "1..N", "1,2,4..N", "2,4..N"
"""Words for `workers`: each number up to the cluster's cores, or powers of two up to them, from 1 or 2 on."""

Cache = Literal["cold", "warm"]


@dataclass(frozen=True)
class Published:
    """Published seconds, measured on other hardware; `size`: of what, where ours is a scaled form of it."""

    framework: str
    workers: int
    seconds: float
    size: int | None = None


@dataclass(frozen=True)
class Experiment:
    """An entry of the plan: one workload with some sizes (edges, rows, images; None: `data`) and numbers of workers.

    `weak`: the sizes are those of one worker. `memory_mb`: what a rank needs, where the estimate is not to be believed.
    """

    name: str
    of: Workload
    sizes: tuple[int | None, ...]
    data: str | None
    workers: tuple[int, ...] | str
    frameworks: tuple[str, ...]
    weak: bool = False
    parameters: Mapping[str, Value] = field(default_factory=dict)
    memory_mb: float | None = None
    options: RunOptions = field(default_factory=RunOptions)
    published: tuple[Published, ...] = ()


@dataclass(frozen=True)
class BenchPlan:
    """A whole plan; `seed` orders the runs and makes the data, `budget` is in seconds.

    `until`: a point is not repeated more if no interval's end differs by more than this part from the ratio.
    `duet`: the two frameworks that run at the same moment, each on one half of the cores; empty: one run at a time.
    `shuffled`: ranks have another order of the hosts in each repeat.
    """

    name: str
    experiments: tuple[Experiment, ...]
    about: str = ""
    repeats: int = 5
    warm_ups: int = 1
    cache: Cache = "warm"
    seed: int = 0
    budget: float | None = None
    until: float | None = None
    duet: tuple[str, ...] = ()
    shuffled: bool = False


@dataclass(frozen=True)
class Point:
    """Runs that are compared with each other: the same input, parameters and number of workers of the workload `of`.

    `frameworks` begin with the single process; `published` maps a framework to seconds on other hardware, and
    `published_size` to the size that these are of, where it is another.
    """

    name: str
    of: Workload
    size: int | None
    data: str | None
    workers: int
    frameworks: tuple[str, ...]
    parameters: Mapping[str, Value]
    memory_mb: float | None
    options: RunOptions
    published: Mapping[str, float]
    published_size: Mapping[str, int] = field(default_factory=dict)

    @property
    def workload(self) -> str:
        """The workload's name."""
        return self.of.name

    @property
    def values(self) -> Mapping[str, Value]:
        """The parameters, and what is read."""
        read = self.of.card.input
        return self.parameters if read is None or self.data is None else {**self.parameters, read.option: self.data}


def expand(plan: BenchPlan, cores: int) -> tuple[Point, ...]:
    """The points of a plan on a cluster with so many cores of workers. Raises PlanError for impossible workers."""
    points: list[Point] = []
    faults: list[str] = []
    for experiment in plan.experiments:
        for size in experiment.sizes:
            for workers in _numbers(experiment.workers, cores):
                try:
                    points.append(_point(experiment, size, workers))
                except PlanError as error:
                    faults.append(str(error))
    if plan.duet:
        points = [
            replace(point, frameworks=tuple(dict.fromkeys(plan.duet)))
            for point in points
            if {*plan.duet} <= {*point.frameworks}
        ]
        if not points and not faults:
            faults.append(f"no point has both {' and '.join(plan.duet)} (--duet): name two frameworks of one")
    names = [point.name for point in points]
    twice = sorted({name for name in names if names.count(name) > 1})
    faults += [f"two experiments make a point {name}: give one of them another name" for name in twice]
    if faults:
        raise PlanError(f"plan {plan.name}: {count(len(faults))}:\n  " + "\n  ".join(faults))
    return tuple(points)


def once(points: Sequence[Point]) -> tuple[tuple[Point, ...], dict[str, str]]:
    """Return the points without those whose runs are all runs of another point, and for their names that point's."""
    kept: list[Point] = []
    same: dict[str, str] = {}
    for point in sorted(points, key=lambda one: -len(one.frameworks)):
        other = next((one.name for one in kept if _has(one, point)), None)
        if other is None:
            kept.append(point)
        else:
            same[point.name] = other
    return tuple(point for point in points if point.name not in same), same


def _has(one: Point, other: Point) -> bool:
    """Whether a point has all runs of another one, and the published figures beside them."""
    same = replace(
        one,
        name=other.name,
        frameworks=other.frameworks,
        published=other.published,
        published_size=other.published_size,
    )
    figures = one.published.items() >= other.published.items()
    return same == other and {*one.frameworks} >= {*other.frameworks} and figures


def digest(plan: BenchPlan, points: Sequence[Point]) -> str:
    """Return what tells plans apart whose runs do not belong together: all but the number of repeats, and words."""
    told = [{**vars(point), "of": point.workload, **_of_options(point)} for point in points]
    identity = [
        plan.warm_ups,
        plan.cache,
        plan.seed,
        [{k: v for k, v in one.items() if k != "options"} for one in told],
        *([plan.duet] if plan.duet else []),
        *(["shuffled"] if plan.shuffled else []),
    ]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]


def _of_options(point: Point) -> dict[str, object]:
    """Return what of a point's options tells its runs from others."""
    return {"time_limit": point.options.time_limit, **point.options.of_case()}


def _numbers(workers: tuple[int, ...] | str, cores: int) -> tuple[int, ...]:
    if workers == EACH:
        return tuple(range(1, cores + 1))
    if isinstance(workers, str):
        first = 1 if workers == SEVERAL else 0
        return tuple(dict.fromkeys([*(1 << bit for bit in range(first, cores.bit_length())), cores]))
    return workers


def _point(experiment: Experiment, size: int | None, workers: int) -> Point:
    whole = size * workers if size is not None and experiment.weak else size
    name = "-".join([experiment.name, *([str(whole)] if whole is not None else []), f"w{workers}"])
    parameters = dict(experiment.parameters)
    for key, option in experiment.of.card.offered.items():
        total = parameters.pop(option.total, None) if option.total else None
        if total is not None:
            share, rest = divmod(int(total), workers)
            if rest or not share:
                raise PlanError(
                    f"{name}: a {option.total} of {total} cannot be shared equally by {workers} workers: take a "
                    f"multiple of {workers}"
                )
            parameters[key] = share
        taken = int(parameters.get(key, 1)) * workers if option.each_rank else 0
        if whole is not None and taken > whole:
            raise PlanError(
                f"{name}: {workers} workers take {taken} at a step, of {whole} that there are: take fewer workers or "
                f"a smaller {key}"
            )
    known = experiment.published or _of_card(experiment.of, whole, parameters)
    beside = [one for one in known if one.workers == workers and one.framework in experiment.frameworks]
    return Point(
        name=name,
        of=experiment.of,
        size=whole,
        data=experiment.data,
        workers=workers,
        frameworks=experiment.frameworks,
        parameters=parameters,
        memory_mb=experiment.memory_mb,
        options=experiment.options,
        published={one.framework: one.seconds for one in beside},
        published_size={one.framework: one.size for one in beside if one.size and one.size != whole},
    )


def _of_card(of: Workload, size: int | None, parameters: Mapping[str, Value]) -> list[Published]:
    """The figures that the workload's card has for a size and parameters."""
    return [
        Published(one.framework, one.workers, taken, one.size)
        for given in of.card.published
        if values.other(of.card, given.parameters) == values.other(of.card, parameters)
        for one in given.figures
        if one.size == size and (taken := reading.seconds(one.time or ""))
    ]
