"""Puts records into cases: a workload with its parameters on one cluster, and in it each framework with its workers."""

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regatta.cards import discovery
from regatta.cards.card import Card, Workload
from regatta.errors import CardError
from regatta.frameworks import registry
from regatta.records import compare
from regatta.records.record import Record
from regatta.report import theme

_NO_FILES = ("packages", "variables")
"""Parameters that have names and values, and are no files with their hashes."""
_ABOUT = re.compile(r"(.+)_(sha256|checksum|bytes)")
"""Parameters besides the name of an input."""


@dataclass(frozen=True, order=True)
class Configuration:
    """A framework and its number of ranks. The single process counts with the `workers` that it was run for."""

    workers: int
    framework: str

    @property
    def single(self) -> bool:
        """Whether it is the single process, which the others have to beat."""
        return registry.of_run(self.framework).single

    @property
    def label(self) -> str:
        """`torch × 4`; `single/4`: the single process for 4 ranks, whose global batch it takes."""
        return f"{self.framework}/{self.workers}" if self.single else f"{self.framework} × {self.workers}"

    @property
    def order(self) -> tuple[int, tuple[int, str]]:
        """Its place among others: by workers, then as frameworks do."""
        return self.workers, theme.order(self.framework)


@dataclass(frozen=True)
class Group:
    """The runs of a configuration in one case, earliest first: those whose times count, and those that failed.

    Where some have given an answer, the times of those that have not (`silent`) do not count; where some were alone
    on their nodes, nor do those of runs `beside` others; where some were repeated, nor do those made `once`,
    which had no warm-up. Else all are counted.
    """

    configuration: Configuration
    runs: tuple[Record, ...]
    others: tuple[Record, ...] = ()
    silent: tuple[Record, ...] = ()
    beside: tuple[Record, ...] = ()
    once: tuple[Record, ...] = ()

    @property
    def answered(self) -> bool:
        """Whether its runs have given answers, which can be compared with other answers."""
        return any(run.answer is not None for run in self.runs)

    @property
    def crowded(self) -> bool:
        """Whether none of its runs was alone on its nodes: their times are marked, and compared with nothing."""
        return bool(self.runs) and all(run.others for run in self.runs)

    def seconds(self, clock: str) -> list[float]:
        """Return what `clock` (a phase, or total) took in each run that succeeded and has it, seconds."""
        return _seconds(self.runs, clock)

    def latest(self, clock: str) -> list[float]:
        """As `seconds`, of the latest series of repeats."""
        label = self.runs[-1].series.label if self.runs and self.runs[-1].series else None
        return _seconds([run for run in self.runs if run.series and run.series.label == label], clock)


@dataclass(frozen=True)
class Case:
    """A workload with its parameters on one cluster, and its runs by configuration."""

    workload: str
    cluster: str
    parameters: Mapping[str, Any]
    groups: tuple[Group, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what makes two records belong to the same case."""
        return self.workload, self.cluster, _canonical(self.parameters)

    @cached_property
    def title(self) -> str:
        """The parameters for a person: `debian.txt.gz, count=4`."""
        return describe(self.parameters, self.workload) or "default parameters"

    @property
    def runs(self) -> tuple[Record, ...]:
        """All runs of the case, failed ones too, earliest first."""
        kinds = [(g.runs, g.others, g.silent, g.beside, g.once) for g in self.groups]
        return tuple(sorted((run for kind in kinds for runs in kind for run in runs), key=_started))

    @property
    def latest(self) -> str:
        """When its latest run started, UTC."""
        return max(run.identity.started for run in self.runs)

    @cached_property
    def comparisons(self) -> Mapping[int, compare.Comparison]:
        """For each number of workers whether its runs may be compared, and what was not the same in them."""
        found = {}
        for workers in sorted({group.configuration.workers for group in self.groups}):
            beside = [g for g in self.groups if g.configuration.workers == workers and g.answered]
            sides = {g.configuration.framework: (*g.runs, *g.beside) for g in beside}
            if any(sides.values()):
                found[workers] = compare.alike({name: runs for name, runs in sides.items() if runs})
        return found

    @property
    def differing(self) -> bool:
        """Whether runs with as many workers gave answers that are not equal."""
        return any(not found.comparable for found in self.comparisons.values())

    def comparable(self, configuration: Configuration) -> bool:
        """Whether its answers are those of the others with as many workers, so that its times may be compared."""
        group = self.group(configuration.framework, configuration.workers)
        found = self.comparisons.get(configuration.workers)
        return group is not None and group.answered and found is not None and found.comparable

    def shown(self, configuration: Configuration) -> bool:
        """Whether its times may be shown: they may be compared, or there is no answer by which to compare them."""
        group = self.group(configuration.framework, configuration.workers)
        return group is not None and bool(group.runs) and (not group.answered or self.comparable(configuration))

    @property
    def answered(self) -> bool:
        """Whether any of its runs has given an answer."""
        return any(group.answered for group in self.groups)

    def group(self, framework: str, workers: int) -> Group | None:
        """The runs of one configuration; None where there are none."""
        wanted = Configuration(workers, framework)
        return next((group for group in self.groups if group.configuration == wanted), None)


def cases(records: Sequence[Record]) -> tuple[Case, ...]:
    """All records in their cases: by workload, the latest first; those of one set of a bench by the sizes in the title.

    Warm-ups are left out, and runs that did not do their work on the cluster (`Record.aside`).
    """
    records = [run for run in records if not (run.series and run.series.warm_up) and run.aside is None]
    beside, packages = _workers_beside(records), _packages(records)
    found: dict[tuple[str, str, str], dict[Configuration, list[Record]]] = {}
    parameters_of = {}
    for record in sorted(records, key=_started):
        parameters = _of_case(record, packages)
        key = (record.identity.workload, record.cluster.name, _canonical(parameters))
        parameters_of[key] = parameters
        for workers in _workers(record, beside):
            made = Configuration(workers, record.identity.framework)
            found.setdefault(key, {}).setdefault(made, []).append(record)
    made_cases = [_case(by_configuration, parameters_of[key]) for key, by_configuration in found.items()]
    return tuple(_ordered(made_cases))


def _ordered(found: list[Case]) -> list[Case]:
    latest: dict[str, str] = {}
    for case in found:
        latest[_set_of(case)] = max(case.latest, latest.get(_set_of(case), ""))
    found.sort(key=lambda case: _natural(case.title))
    found.sort(key=lambda case: latest[_set_of(case)], reverse=True)
    return sorted(found, key=lambda case: case.workload)


def _set_of(case: Case) -> str:
    """The set of a bench that its latest run is of; a case by itself where that is in none."""
    run = max(case.runs, key=_started)
    return str((run.series and run.series.set) or run.run_id)


def _natural(title: str) -> list[str | float]:
    """Numbers by their size."""
    return [float(part) if number % 2 else part for number, part in enumerate(re.split(r"(\d+(?:\.\d+)?)", title))]


@functools.cache
def _cards() -> Mapping[str, Workload]:
    """The workloads that are known here; only Regatta's where a card of the project is damaged."""
    try:
        return discovery.every(Path.cwd())
    except CardError:
        return discovery.ours()


def card_of(workload: str) -> Card | None:
    """The card of a workload; None where it is not known here."""
    found = _cards().get(workload)
    return found.card if found else None


def describe(parameters: Mapping[str, Any], workload: str) -> str:
    """Parameters of a workload as a person would say them, without checksums; of its input only the name."""
    card = card_of(workload)
    given = card.input.option if card and card.input else None
    words: list[str] = []
    told = {str(word).partition("=")[2] for word in parameters.get("options") or ()}
    for name, value in parameters.items():
        about, shown = _ABOUT.fullmatch(name), name != "size" or not (value is None or str(value) in told)
        if name == "workers" or not shown or (about and about[1] in parameters):
            continue
        if name in ("options", "argv") and isinstance(value, list):
            words += [str(word).removeprefix("--") for word in value]
        elif isinstance(value, Mapping):
            listed = _listed([*map(str, value)], "" if name in _NO_FILES else " files")
            words.append(listed if name == given else f"{name}: {listed}")
        elif name == "without" and isinstance(value, list):
            words.append(f"without {' and '.join(map(str, value))}")
        elif name == given or value is True:
            words.append(name if value is True else str(value))
        else:
            words.append(f"{name}={value}")
    return ", ".join(words)


def _listed(names: Sequence[str], kind: str) -> str:
    """One or two names, or the first and how many more of the kind."""
    return f"{names[0]} and {len(names) - 1} more{kind}" if names[2:] else ", ".join(names) or "-"


def inputs(records: Sequence[Record]) -> dict[str, str]:
    """The SHA-256 of each file that runs have read, by its name."""
    found: dict[str, str] = {}
    for parameters in (record.identity.parameters for record in records):
        for name, value in parameters.items():
            if isinstance(value, Mapping) and name not in _NO_FILES:
                found.update({str(file): str(told) for file, told in value.items()})
            elif told := parameters.get(f"{name}_sha256"):
                found[str(value)] = str(told)
    return found


def _case(groups: Mapping[Configuration, Sequence[Record]], parameters: Mapping[str, Any]) -> Case:
    first = next(iter(groups.values()))[0]
    made = [
        _group(configuration, [run for run in runs if run.exit.state == "succeeded"], runs)
        for configuration, runs in groups.items()
    ]
    made.sort(key=lambda group: group.configuration.order)
    return Case(first.identity.workload, first.cluster.name, parameters, tuple(made))


def _repeated(run: Record) -> bool:
    return run.series is not None and run.series.total > 1


def _group(configuration: Configuration, good: Sequence[Record], runs: Sequence[Record]) -> Group:
    once = [run for run in good if not _repeated(run)] if any(map(_repeated, good)) else []
    good = [run for run in good if run not in once]
    answered = [run for run in good if run.answer is not None] or good
    alone = compare.without_contention(answered) or answered
    return Group(
        configuration,
        tuple(alone),
        tuple(run for run in runs if run.exit.state != "succeeded"),
        tuple(run for run in good if run not in answered),
        tuple(run for run in answered if run not in alone),
        tuple(once),
    )


def _workers_beside(records: Sequence[Record]) -> dict[str, set[int]]:
    """For each series the numbers of workers that its single process was run for."""
    found: dict[str, set[int]] = {}
    for record in records:
        if record.series and not registry.of_run(record.identity.framework).single:
            found.setdefault(record.series.label, set()).add(_ranks(record))
    return found


def _workers(record: Record, beside: Mapping[str, set[int]]) -> set[int]:
    if registry.of_run(record.identity.framework).single:
        return (beside.get(record.series.label) if record.series else None) or {1}
    return {_ranks(record)}


def _ranks(record: Record) -> int:
    workers = record.identity.parameters.get("workers")
    return workers if isinstance(workers, int) else len(record.cluster.rank_map)


def _of_case(record: Record, packages: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    own = {"packages": packages[record.series.label]} if record.series and record.series.label in packages else {}
    given = {name: value for name, value in {**record.identity.parameters, **own}.items() if name != "workers"}
    return {name: value for name, value in given.items() if name != "packages" or value}


def _packages(records: Sequence[Record]) -> dict[str, Mapping[str, str]]:
    """What a person has asked for, by series: some frameworks bring more packages, which make no other case."""
    found: dict[str, Mapping[str, str]] = {}
    for record in records:
        if record.series:
            brought = record.identity.parameters.get("packages") or {}
            found[record.series.label] = min(found.get(record.series.label, brought), brought, key=len)
    return found


def _canonical(parameters: Mapping[str, Any]) -> str:
    return json.dumps(parameters, sort_keys=True)


def _seconds(runs: Sequence[Record], clock: str) -> list[float]:
    return [value for run in runs if (value := getattr(run.phases, clock)) is not None]


def _started(record: Record) -> tuple[str, str]:
    return record.identity.started, record.run_id
