"""A bench plan out of TOML: a file, or parts of one with the workloads. One error lists all faults, with places."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regatta import paths
from regatta.cards import discovery, project, reading, values
from regatta.cards.card import Value, Workload
from regatta.cards.reading import Reader, count
from regatta.errors import CardError, PlanError
from regatta.experiments.plans import DOUBLING, EACH, SEVERAL, BenchPlan, Experiment, Published
from regatta.frameworks import registry
from regatta.frameworks.table import OF_BOTH
from regatta.options.declaration import OF_PLANS, OF_RUNS, RunOptions, said
from regatta.options.option import from_table
from regatta.records import stats
from regatta_protocol.cards import misfit

ENTRIES = "experiments"
_PLAN_KEYS = {"about", "repeats", "warm_ups", "cache", "seed", "budget_minutes", "frameworks", ENTRIES, *OF_PLANS}
_ENTRY_KEYS = {
    "name",
    "workload",
    "sizes",
    "weak",
    "data",
    "workers",
    "frameworks",
    "no_single",
    "parameters",
    "memory_mb",
    "published",
    *OF_PLANS,
}
_NUMBERS = f'whole numbers, "{EACH}", "{DOUBLING}" or "{SEVERAL}" (N: cores of the cluster)'
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}\Z")


def shipped() -> tuple[str, ...]:
    """Names of the plans that come with Regatta."""
    return tuple(sorted({path.stem for path in _parts("*")}))


def _parts(name: str) -> list[Path]:
    """The parts of a plan that comes with Regatta: what its experiments share, and those of each workload."""
    folder = paths.PROJECT / "workloads"
    return [*sorted(folder.glob(f"plans/{name}.toml")), *sorted(folder.glob(f"*/plans/{name}.toml"))]


def load(wanted: str, given: Mapping[str, Any] | None = None, folder: Path | None = None) -> BenchPlan:
    """A plan of Regatta's by its name, or the plan in a file; `folder`: whose project's workloads it may name.

    `given`: options of all its runs, by name, which come before those of the plan.

    Raises PlanError, CardError.
    """
    known = discovery.every(folder or Path.cwd())
    if wanted in shipped():
        parts = _parts(wanted)
        return parse(_joined(parts), wanted, f"plan {wanted}", known, given)
    path = Path(wanted).expanduser()
    if not path.is_file():
        raise PlanError(f"there is no plan '{wanted}': give the path of a TOML file, or {', '.join(shipped())}")
    return parse(_document(path), path.stem, str(path), known, given)


def _document(path: Path) -> dict[str, Any]:
    try:
        return reading.document(path)
    except CardError as error:
        raise PlanError(str(error)) from None


def _joined(parts: Sequence[Path]) -> dict[str, Any]:
    """One document of the parts of a plan. PlanError where they contradict each other."""
    whole: dict[str, Any] = {}
    for path in parts:
        for key, value in _document(path).items():
            if key == ENTRIES and isinstance(value, list):
                whole[key] = [*whole.get(key, []), *value]
            elif whole.setdefault(key, value) != value:
                raise PlanError(
                    f"{path}: {key} is {value!r}, and {whole[key]!r} in another part of the plan: write it in one"
                )
    return whole


def parse(
    document: Mapping[str, Any],
    name: str,
    source: str,
    known: Mapping[str, Workload] | None = None,
    given: Mapping[str, Any] | None = None,
) -> BenchPlan:
    """The plan in a TOML document; PlanError lists all faults of `source`. `known`: the workloads that it may name.

    `given`: see `load`.
    """
    known = discovery.ours() if known is None else known
    reader = Reader(document, "")
    if not _NAME.match(name):
        reader.fault("", f"'{name}' cannot name a plan: call the file a-z, 0-9 and '-', up to 40 of them")
    if "races" in document:
        reader.fault("races", f"is called {ENTRIES} now: write [[{ENTRIES}]]")
    reader.known(_PLAN_KEYS | {"races"})
    frameworks = _frameworks(reader)
    options = from_table(OF_PLANS, document, "", reader.faults)
    budget = reader.number("budget_minutes", above=0)
    cache = reader.choice("cache", ("warm", "cold"), "warm")
    warm_ups = reader.whole("warm_ups", 0 if cache == "cold" else 1, least=0)
    if cache == "warm" and not warm_ups:
        reader.fault("warm_ups", 'must be at least 1 with cache = "warm": a point\'s first runs find the caches cold')
    entries = document.get(ENTRIES)
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        reader.fault(ENTRIES, f"the plan needs at least one [[{ENTRIES}]] table")
        entries = []
    found = [
        _experiment(Reader(entry, f"{ENTRIES}[{index}]", reader.faults), known, frameworks, options, given or {})
        for index, entry in enumerate(entries, 1)
    ]
    plan = BenchPlan(
        name=name,
        experiments=tuple(one for one in found if one),
        about=str(document.get("about", "")),
        repeats=reader.whole("repeats", stats.LEAST_PAIRS, least=1),
        warm_ups=warm_ups,
        cache="cold" if cache == "cold" else "warm",
        seed=reader.whole("seed", 0, least=0),
        budget=budget * 60 if budget is not None else None,
    )
    if reader.faults:
        raise PlanError(f"{source}: the plan has {count(len(reader.faults))}:\n  " + "\n  ".join(reader.faults))
    return plan


def _experiment(
    reader: Reader,
    known: Mapping[str, Workload],
    frameworks: tuple[str, ...] | None,
    options: Mapping[str, Any],
    given: Mapping[str, Any],
) -> Experiment | None:
    reader.known(_ENTRY_KEYS)
    workload = reader.choice("workload", tuple(known), None)
    of = known.get(workload)
    if of is None:
        return None
    card, made = of.card, of.card.input.made if of.card.input else ()
    name = reader.text("name") or workload
    if name and not _NAME.match(name):
        reader.fault("name", f"'{name}': use up to 40 of a-z, 0-9 and '-'")
    data, weak, sizes = reader.text("data"), reader.flag("weak"), reader.wholes("sizes")
    if data is not None and sizes:
        reader.fault(
            "sizes", "say either sizes (of data to generate) or data (a file, folder or address: hdfs://, s3://)"
        )
    if data is not None and card.input is None:
        reader.fault("data", f"{workload} reads no input")
    if data == "generated" and data in made:
        reader.fault("data", "would be generated while timers run: say sizes, and they are made before it")
    if sizes and card.generate is None and card.size is None:
        reader.fault("sizes", f"{workload} has neither a generator nor an option for a size: its card says neither")
    if data is None and "sizes" not in reader.table and card.generate and not (card.input and card.input.default):
        reader.fault("sizes", f"{workload} needs sizes ({card.unit} to generate) or data")
    if weak and not sizes:
        reader.fault("weak", "grows the data with the workers: say sizes, of one worker")
    under = _of_workload(reader, card.frameworks, frameworks)
    usual = {name: value for name, value in project.read(of.root).options.items() if OF_RUNS[name].timed}
    own = from_table(OF_PLANS, reader.table, reader.at("") + ".", reader.faults)
    return Experiment(
        name=name,
        of=of,
        sizes=tuple(sizes) or (None,),
        data=data,
        workers=_workers(reader),
        frameworks=under,
        weak=weak,
        parameters=_parameters(reader, of, under),
        memory_mb=reader.number("memory_mb", above=0),
        options=said(RunOptions, usual, options, own, given),
        published=_published(reader, card.frameworks),
    )


def _workers(reader: Reader) -> tuple[int, ...] | str:
    value = reader.table.get("workers")
    if isinstance(value, str):
        if value not in (EACH, DOUBLING, SEVERAL):
            reader.fault("workers", f'"{value}": say {_NUMBERS}')
        return value
    if value is None:
        reader.fault("workers", f"is missing: say {_NUMBERS}")
    return tuple(reader.wholes("workers"))


def _frameworks(reader: Reader) -> tuple[str, ...] | None:
    """The frameworks that a table names, with which the single process runs; None where it names none."""
    value = reader.table.get("frameworks")
    if value is None:
        return None
    names = "must be a list of frameworks, each once (the single process always runs with them)"
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value) or len(set(value)) != len(value):
        reader.fault("frameworks", names)
        return None
    known = [name for name in registry.names() if not registry.of_run(name).single]
    if unknown := [item for item in value if item not in known]:
        reader.fault("frameworks", f"{names}: there are {' and '.join(known)}, not {', '.join(unknown)}")
        return None
    return tuple(value)


def _of_workload(reader: Reader, own: Sequence[str], frameworks: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return what is compared: the single process first, where the workload has one and the plan does not leave
    it out.
    """
    named = _frameworks(reader) if "frameworks" in reader.table else frameworks
    if named is not None and (lost := [name for name in named if name not in own]):
        reader.fault("frameworks", f"its card has {', '.join(own)}, and not {', '.join(lost)}")
    chosen = named if named is not None else [name for name in OF_BOTH if name in own] or own
    alone = [name for name in own if registry.of_run(name).single and not reader.flag("no_single")]
    made = tuple(dict.fromkeys([*alone, *(name for name in chosen if not registry.of_run(name).single)]))
    if not made:
        reader.fault("no_single", "leaves nothing to run: name frameworks")
    return made


def _parameters(reader: Reader, of: Workload, frameworks: Sequence[str]) -> dict[str, Value]:
    table = reader.table.get("parameters", {})
    if not isinstance(table, dict):
        reader.fault("parameters", "must be a table: parameters = { epochs = 3 }")
        return {}
    inner = Reader(table, reader.at("parameters"), reader.faults)
    sizes = {of.card.size, *(["size"] if of.card.generate else [])}
    allowed = {name: option for name, option in of.card.offered.items() if name not in sizes}
    totals = {option.total: option for option in allowed.values() if option.total}
    inner.known({*allowed, *totals})
    found: dict[str, Value] = {}
    for key, option in {**allowed, **totals}.items():
        value = table.get(key)
        if value is None:
            continue
        if wrong := misfit(option, value):
            inner.fault(key, wrong)
        else:
            found[key] = value
    for total, option in totals.items():
        own = next(name for name, known in allowed.items() if known is option)
        if own in found and total in found:
            inner.fault(own, f"is a rank's, {total} that of all: say one of them")
    given = {key: value for key, value in found.items() if key in allowed}
    if wrong := next(filter(None, (values.together(of.card, given, name) for name in frameworks)), None):
        inner.fault("", wrong)
    return found


def _published(reader: Reader, own: Sequence[str]) -> tuple[Published, ...]:
    value = reader.table.get("published", [])
    found = []
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        inner = Reader(item if isinstance(item, dict) else {}, reader.at(f"published[{index + 1}]"), reader.faults)
        inner.known({"framework", "workers", "time", "size"})
        framework = inner.choice("framework", own, None)
        taken = reading.seconds(inner.text("time") or "")
        if taken is None:
            inner.fault("time", "must be minutes'seconds'', as in 2'25''")
        of = inner.whole("size", 1, least=1) if "size" in inner.table else None
        found.append(Published(framework, inner.whole("workers", 1, least=1), taken or 0.0, of))
    return tuple(found)
