"""A bench plan, a small TOML file, as values. Everything that is wrong with it is said at once, and where."""

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regatta.errors import PlanError
from regatta.experiments.reader import Reader, count
from regatta.records.record import Framework

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHIPPED = Path(__file__).resolve().parent / "shipped"
EACH, DOUBLING = "1..N", "1,2,4..N"
"""Words for `workers`: each number up to the cluster's cores, or powers of two up to them."""

Value = str | int | float | bool
Cache = Literal["cold", "warm"]

_KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "whole number": (int,),
    "true or false": (bool,),
}
_TRAINING = {
    "epochs": "whole number",
    "batch": "whole number",
    "global_batch": "whole number",
    "learning_rate": "number",
    "scale_batch": "true or false",
    "seed": "whole number",
}
PARAMETERS: dict[str, dict[str, str]] = {
    "ppr": {
        "sources": "text",
        "count": "whole number",
        "top": "whole number",
        "alpha": "number",
        "tolerance": "number",
        "max_iterations": "whole number",
        "engine": "text",
        "partition": "text",
        "undirected": "true or false",
    },
    "stars": _TRAINING,
    "digits": {**_TRAINING, "model": "text"},
}
"""What a plan may say about a workload, and of what kind it is."""

_PLAN_KEYS = {"about", "repeats", "warm_ups", "cache", "seed", "budget_minutes", "time_limit", "frameworks", "races"}
_RACE_KEYS = {
    "name",
    "workload",
    "sizes",
    "weak",
    "data",
    "workers",
    "frameworks",
    "parameters",
    "memory_mb",
    "time_limit",
    "published",
}
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}\Z")
_TIME = re.compile(r"(?:(\d+)')?(?:(\d+(?:\.\d+)?)'')?\Z")


@dataclass(frozen=True)
class Published:
    """Seconds that somebody has measured on other hardware; `size`: of what, where ours is a scaled form of it."""

    framework: Framework
    workers: int
    seconds: float
    size: int | None = None


@dataclass(frozen=True)
class Race:
    """An entry of the plan: one workload with some sizes (edges, rows, images; None: `data`) and numbers of workers.

    `weak`: the sizes are those of one worker. `memory_mb`: what a rank needs, where the estimate is not to be believed.
    """

    name: str
    workload: str
    sizes: tuple[int | None, ...]
    data: str | None
    workers: tuple[int, ...] | str
    frameworks: tuple[Framework, ...]
    weak: bool = False
    parameters: Mapping[str, Value] = field(default_factory=dict)
    memory_mb: float | None = None
    time_limit: float | None = None
    published: tuple[Published, ...] = ()


@dataclass(frozen=True)
class BenchPlan:
    """A whole plan; `seed` orders the runs and makes the data, `budget` and `time_limit` are seconds."""

    name: str
    races: tuple[Race, ...]
    about: str = ""
    repeats: int = 5
    warm_ups: int = 1
    cache: Cache = "warm"
    seed: int = 0
    budget: float | None = None


@dataclass(frozen=True)
class Point:
    """Runs that are compared with each other: the same input, parameters and number of workers.

    `frameworks` begin with the single process; `published` maps a framework to seconds on other hardware, and
    `published_size` to the size that these are of, where it is another.
    """

    name: str
    workload: str
    size: int | None
    data: str | None
    workers: int
    frameworks: tuple[Framework, ...]
    parameters: Mapping[str, Value]
    memory_mb: float | None
    time_limit: float | None
    published: Mapping[str, float]
    published_size: Mapping[str, int] = field(default_factory=dict)


def shipped() -> tuple[str, ...]:
    """Names of the plans that come with Regatta."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.toml")))


def load(wanted: str) -> BenchPlan:
    """A shipped plan by its name, or the plan in a file. Raises PlanError."""
    path = SHIPPED / f"{wanted}.toml"
    if wanted not in shipped():
        path = Path(wanted).expanduser()
        if not path.is_file():
            raise PlanError(f"there is no plan '{wanted}': give the path of a TOML file, or {', '.join(shipped())}")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(f"{path}: {error}") from None
    return parse(document, path.stem, str(path))


def parse(document: Mapping[str, Any], name: str, source: str) -> BenchPlan:
    """The plan in a TOML document; PlanError lists all faults of `source`."""
    reader = Reader(document, "")
    if not _NAME.match(name):
        reader.fault("", f"'{name}' cannot name a plan: call the file a-z, 0-9 and '-', up to 40 of them")
    reader.known(_PLAN_KEYS)
    frameworks = _frameworks(reader, "frameworks", ("torch", "ray"))
    time_limit = reader.number("time_limit", above=0)
    budget = reader.number("budget_minutes", above=0)
    cache = reader.choice("cache", ("warm", "cold"), "warm")
    warm_ups = reader.whole("warm_ups", 0 if cache == "cold" else 1, least=0)
    if cache == "warm" and not warm_ups:
        reader.fault("warm_ups", 'must be at least 1 with cache = "warm": a point\'s first runs find the caches cold')
    races = []
    entries = document.get("races")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        reader.fault("races", "the plan needs at least one [[races]] table")
        entries = []
    for index, entry in enumerate(entries):
        inner = Reader(entry, f"races[{index + 1}]", reader.faults)
        races.append(_race(inner, frameworks, time_limit))
    plan = BenchPlan(
        name=name,
        races=tuple(races),
        about=str(document.get("about", "")),
        repeats=reader.whole("repeats", 5, least=1),
        warm_ups=warm_ups,
        cache="cold" if cache == "cold" else "warm",
        seed=reader.whole("seed", 0, least=0),
        budget=budget * 60 if budget is not None else None,
    )
    if reader.faults:
        raise PlanError(f"{source}: the plan has {count(len(reader.faults))}:\n  " + "\n  ".join(reader.faults))
    return plan


def expand(plan: BenchPlan, cores: int) -> tuple[Point, ...]:
    """The points of a plan on a cluster with so many cores of workers. Raises PlanError for impossible workers."""
    points: list[Point] = []
    faults: list[str] = []
    for race in plan.races:
        for size in race.sizes:
            for workers in _numbers(race.workers, cores):
                try:
                    points.append(_point(race, size, workers))
                except PlanError as error:
                    faults.append(str(error))
    names = [point.name for point in points]
    twice = sorted({name for name in names if names.count(name) > 1})
    faults += [f"two races make a point {name}: give one of them another name" for name in twice]
    if faults:
        raise PlanError(f"plan {plan.name}: {count(len(faults))}:\n  " + "\n  ".join(faults))
    return tuple(points)


def digest(plan: BenchPlan, points: Sequence[Point]) -> str:
    """What tells plans apart whose runs do not belong together: all but the number of repeats, and words."""
    identity = [plan.warm_ups, plan.cache, plan.seed, [vars(point) for point in points]]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]


def seconds(text: str) -> float | None:
    """`2'25''` -> 145; None where it is no such time."""
    found = _TIME.match(text)
    if not found or not text:
        return None
    return 60 * float(found[1] or 0) + float(found[2] or 0)


def _numbers(workers: tuple[int, ...] | str, cores: int) -> tuple[int, ...]:
    if workers == EACH:
        return tuple(range(1, cores + 1))
    if isinstance(workers, str):
        return tuple(dict.fromkeys([*(1 << bit for bit in range(cores.bit_length())), cores]))
    return workers


def _point(race: Race, size: int | None, workers: int) -> Point:
    whole = size * workers if size is not None and race.weak else size
    name = "-".join([race.name, *([str(whole)] if whole is not None else []), f"w{workers}"])
    parameters = dict(race.parameters)
    total = parameters.pop("global_batch", None)
    if total is not None:
        share, rest = divmod(int(total), workers)
        if rest or not share:
            raise PlanError(f"{name}: a global_batch of {total} cannot be shared equally by {workers} workers")
        parameters["batch"] = share
    rows = int(parameters.get("batch", 1)) * workers
    if whole is not None and rows > whole:
        raise PlanError(f"{name}: {workers} workers take {rows} at a step, of {whole} that there are: impossible")
    beside = [one for one in race.published if one.workers == workers]
    return Point(
        name=name,
        workload=race.workload,
        size=whole,
        data=race.data,
        workers=workers,
        frameworks=("single", *race.frameworks),
        parameters=parameters,
        memory_mb=race.memory_mb,
        time_limit=race.time_limit,
        published={one.framework: one.seconds for one in beside},
        published_size={one.framework: one.size for one in beside if one.size and one.size != whole},
    )


def _race(reader: Reader, frameworks: tuple[Framework, ...], time_limit: float | None) -> Race:
    reader.known(_RACE_KEYS)
    workload = reader.choice("workload", tuple(PARAMETERS), None)
    name = reader.text("name") or workload
    if name and not _NAME.match(name):
        reader.fault("name", f"'{name}': use up to 40 of a-z, 0-9 and '-'")
    data, weak, sizes = reader.text("data"), reader.flag("weak"), reader.wholes("sizes")
    if data is not None and sizes:
        reader.fault("sizes", "say either sizes (of data to generate) or data (a file, folder or hdfs:// address)")
    if data == "generated":
        reader.fault("data", "would be generated inside the clock: say sizes, and they are made before it")
    if data is None and "sizes" not in reader.table and workload in ("stars", "digits"):
        reader.fault("sizes", f"{workload} needs sizes (rows or images to generate) or data")
    if weak and not sizes:
        reader.fault("weak", "grows the data with the workers: say sizes, of one worker")
    return Race(
        name=name,
        workload=workload,
        sizes=tuple(sizes) or (None,),
        data=data,
        workers=_workers(reader),
        frameworks=_frameworks(reader, "frameworks", frameworks),
        weak=weak,
        parameters=_parameters(reader, workload),
        memory_mb=reader.number("memory_mb", above=0),
        time_limit=reader.number("time_limit", above=0) or time_limit,
        published=_published(reader),
    )


def _workers(reader: Reader) -> tuple[int, ...] | str:
    value = reader.table.get("workers")
    if isinstance(value, str):
        if value not in (EACH, DOUBLING):
            reader.fault("workers", f'"{value}": say whole numbers, "{EACH}" or "{DOUBLING}" (N: cores of the cluster)')
        return value
    if value is None:
        reader.fault("workers", f'is missing: say whole numbers, "{EACH}" or "{DOUBLING}" (N: cores of the cluster)')
    return tuple(reader.wholes("workers"))


def _frameworks(reader: Reader, key: str, default: tuple[Framework, ...]) -> tuple[Framework, ...]:
    value = reader.table.get(key, list(default))
    known: dict[str, Framework] = {"torch": "torch", "ray": "ray"}
    if not isinstance(value, list) or any(item not in known for item in value) or len(set(value)) != len(value):
        reader.fault(key, "must be a list of torch and ray, each once (the single process always runs beside them)")
        return default
    return tuple(known[item] for item in value)


def _parameters(reader: Reader, workload: str) -> dict[str, Value]:
    table = reader.table.get("parameters", {})
    if not isinstance(table, dict):
        reader.fault("parameters", "must be a table: parameters = { epochs = 3 }")
        return {}
    inner = Reader(table, reader.at("parameters"), reader.faults)
    allowed = PARAMETERS.get(workload, {})
    if allowed:
        inner.known(set(allowed))
    found: dict[str, Value] = {}
    for key, kind in allowed.items():
        value: Any = table.get(key)
        if value is None:
            continue
        right = isinstance(value, _KINDS[kind]) and (kind == "true or false" or not isinstance(value, bool))
        if not right:
            inner.fault(key, f"must be {'a ' if kind.endswith('number') else ''}{kind}, not {value!r}")
        elif kind == "whole number" and value < (0 if key == "seed" else 1):
            inner.fault(key, f"must be at least {0 if key == 'seed' else 1}, not {value}")
        else:
            found[key] = value
    if "batch" in found and "global_batch" in found:
        inner.fault("batch", "is a rank's, global_batch that of all: say one of them")
    return found


def _published(reader: Reader) -> tuple[Published, ...]:
    value = reader.table.get("published", [])
    found = []
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        inner = Reader(item if isinstance(item, dict) else {}, reader.at(f"published[{index + 1}]"), reader.faults)
        inner.known({"framework", "workers", "time", "size"})
        framework = inner.choice("framework", ("torch", "ray", "single"), None)
        taken = seconds(inner.text("time") or "")
        if taken is None:
            inner.fault("time", "must be minutes'seconds'', as in 2'25''")
        of = inner.whole("size", 1, least=1) if "size" in inner.table else None
        one = {"torch": "torch", "ray": "ray"}.get(framework, "single")
        found.append(Published(one, inner.whole("workers", 1, least=1), taken or 0.0, of))
    return tuple(found)
