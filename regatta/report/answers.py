"""The answer of an experiment in sentences, and what a reader has to know of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from regatta.frameworks import registry
from regatta.records import compare, stats
from regatta.report import texts
from regatta.report.cases import Case, Configuration, card_of
from regatta.report.summary import Ratio, Summary

_CLOCK = "total"
_SLOW_START = 1.1
"""A first repeat is named that takes this many times as long as the slowest of the others."""


@dataclass(frozen=True)
class Answer:
    """`about` and `title`: what was tried. `sentences`: who won, by how much. `marks`: short words of caution."""

    about: str
    title: str
    sentences: tuple[str, ...]
    marks: tuple[str, ...]


def answer(summary: Summary) -> Answer:
    """The answer of a case, end to end."""
    case = summary.case
    card = card_of(case.workload)
    told = next((run.series.about for run in reversed(case.runs) if run.series and run.series.about), None)
    about = told or (card.about if card else "") or case.workload
    return Answer(about, f"{case.workload}: {case.title}", tuple(_sentences(summary)), tuple(_marks(summary)))


def lines(summaries: Sequence[Summary], rates: Mapping[str, str] | None = None) -> Iterator[str]:
    """The answers for a terminal; with the rates of false verdicts by cluster, where they are known."""
    for summary in summaries:
        found = answer(summary)
        yield f"{found.title} on {summary.case.cluster}"
        yield from (f"  {sentence}" for sentence in found.sentences)
        if found.marks:
            yield f"  ({'; '.join(found.marks)})"
        if rates is not None and (trust := false_verdicts(summary, rates)):
            yield f"  {trust}"


def false_verdicts(summary: Summary, rates: Mapping[str, str]) -> str:
    """How often verdicts are false on the cluster of a case; '' where it has none. `rates`: measured, by cluster."""
    if not any(one.times.verdict in ("faster", "slower") for one in summary.ratios):
        return ""
    cluster = summary.case.cluster
    return rates.get(cluster) or f"False verdicts on {cluster}: not measured; of simulated ones at most 5.5 %."


def _sentences(summary: Summary) -> Iterator[str]:
    case = summary.case
    if case.differing:
        yield "No comparison: the answers of the runs are not equal."
        return
    if not any(group.runs for group in case.groups):
        yield "No run succeeded."
        return
    if not case.answered:
        yield "No comparison: the runs gave no answer."
        return
    counts = sorted({group.configuration.workers for group in case.groups if group.runs})
    told = [sentence for workers in counts[-1:] for sentence in _of(summary, workers, several=len(counts) > 1)]
    yield from told or _times(summary)
    if len(counts) > 1:
        yield from _cost(summary)


def _of(summary: Summary, workers: int, *, several: bool) -> Iterator[str]:
    """Frameworks with so many ranks compared with the fastest of them, and with one process."""
    ratios = {(one.above, one.below): one.times for one in summary.ratios if one.clock == _CLOCK}
    groups = [group.configuration for group in summary.case.groups if group.configuration.workers == workers]
    timed = {one: found.value for one in groups if (found := summary.time(one, _CLOCK)) is not None}
    others = sorted((one for one in timed if not one.single), key=lambda one: timed[one])
    slower = [(other, found) for other in others[1:] if (found := _ratio(ratios, other, others[0]))]
    alike: dict[tuple[str, ...], list[tuple[Configuration, stats.Ratio]]] = {}
    for other, found in slower:
        alike.setdefault(_kind(found), []).append((other, found))
    parts = [_all_compared(kind, some, others[0]) for kind, some in alike.items()]
    single = next((one for one in groups if one.single), None)
    if single and (against := [(one, found) for one in others if (found := ratios.get((one, single)))]):
        parts.append(_against_one(against))
    if parts:
        text = f"{'; '.join(parts)}."
        yield f"With {workers} ranks {text}" if several else text[0].upper() + text[1:]


def _ratio(
    ratios: dict[tuple[Configuration, Configuration], stats.Ratio], one: Configuration, other: Configuration
) -> stats.Ratio | None:
    back = ratios.get((other, one))
    return ratios.get((one, other)) or (back.inverse if back else None)


def _kind(found: stats.Ratio) -> tuple[str, ...]:
    """What one sentence can say of several ratios: the kind of their verdict, and from how many pairs it is."""
    if found.verdict == "cores shared":
        return (found.verdict,)
    pairs = _few(found) if found.verdict == "too few runs" else _pairs(found)
    return ("took" if found.verdict in ("faster", "slower") else found.verdict, pairs)


def _all_compared(
    kind: tuple[str, ...], found: Sequence[tuple[Configuration, stats.Ratio]], than: Configuration
) -> str:
    """One configuration or several that have ratios of a kind, compared with the fastest."""
    (verdict, *pairs), to = kind, _name(than)
    if verdict == "cores shared":
        names = _every(_name(one) for one, _ in found)
        return f"{names} {'is' if len(found) == 1 else 'are'} not compared with {to}: ranks share cores"
    if verdict == "too few runs":
        return f"{_took(found, _value)} times as long as {to} ({pairs[0]})"
    if verdict == "took" and found[1:]:
        return f"{_took(found, texts.times)} times as long as {to} ({pairs[0]})"
    if verdict == "took":
        return f"{_took(found, _value)} times as long as {to} ({_said(found[0][1])})"
    if not found[1:]:
        ((one, ratio),) = found
        name, said = _name(one), _said(ratio)
        if verdict == "equal":
            return f"{name} took as long as {to} ({said})"
        return f"no difference between {name} and {to} is shown ({said})"
    names = _every(f"{_name(one)} ({_interval(ratio)})" for one, ratio in found)
    if verdict == "equal":
        return f"{names} took as long as {to} ({pairs[0]})"
    return f"no difference to {to} is shown for {names} ({pairs[0]})"


def _every(names: Iterable[str]) -> str:
    """`Ray, MPI and dask`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _took(found: Sequence[tuple[Configuration, stats.Ratio]], told: Callable[[stats.Ratio], str]) -> str:
    """`Ray took 1.20, MPI 1.30`; `told`: a ratio as text."""
    (first, ratio), *others = found
    return ", ".join([f"{_name(first)} took {told(ratio)}", *(f"{_name(one)} {told(more)}" for one, more in others)])


def _value(found: stats.Ratio) -> str:
    return f"{found.value:.2f}"


def _said(found: stats.Ratio) -> str:
    return f"{_interval(found)}, {_pairs(found)}"


def _interval(found: stats.Ratio) -> str:
    return f"{found.low:.2f} to {found.high:.2f}"


def _pairs(found: stats.Ratio) -> str:
    return f"{found.n} pairs{texts.over_levels(found)}"


def _few(found: stats.Ratio) -> str:
    return f"{found.n} {'pair' if found.n == 1 else 'pairs'}: no verdict, {found.least} are needed"


def _against_one(found: Sequence[tuple[Configuration, stats.Ratio]]) -> str:
    verdicts = {_name(one): ratio.verdict for one, ratio in found}
    if "cores shared" in verdicts.values():
        return "whether more ranks beat one process is not known: ranks share cores"
    if "too few runs" in verdicts.values():
        return f"{_took(found, _value)} times as long as one process ({_few(found[0][1])})"
    beat = [name for name, verdict in verdicts.items() if verdict == "faster"]
    lost = [name for name in verdicts if name not in beat]
    if len(found) == 1:
        ((one, ratio),) = found
        words = f"{_name(one)} {'beat' if beat else 'did not beat'} one process"
        return f"{words} ({ratio.value:.2f} times its time, {_said(ratio)})"
    if not beat or not lost:
        word = ("both", "neither")[not beat] if len(found) == 2 else ("all", "none")[not beat]
        return f"{word} beat one process"
    return (
        f"{_every(beat)} beat one process, {_every(lost) if len(lost) <= compare.MOST_PAIRED else 'the others'} did not"
    )


def _times(summary: Summary) -> Iterator[str]:
    """The median of the fastest configuration where nothing is compared."""
    found = [time for time in summary.times if time.clock == _CLOCK]
    if found:
        best = min(found, key=lambda time: time.seconds.value)
        runs = "1 run" if best.seconds.n == 1 else f"median of {best.seconds.n} runs"
        yield f"{best.configuration.label} took {best.seconds.value:.2f} s ({runs}); nothing to compare with."


def _cost(summary: Summary) -> Iterator[str]:
    """The number of ranks from which each framework beats one process (COST, McSherry and others 2015)."""
    ratios = [one for one in summary.ratios if one.clock == _CLOCK and one.below.single]
    if all(one.times.verdict == "cores shared" for one in ratios):
        return
    own = [[one for one in ratios if one.above.framework == name] for name in dict.fromkeys(map(_framework, ratios))]
    singles = [run for group in summary.case.groups if group.configuration.single for run in group.runs]
    threads = {run.speed.threads for run in singles}
    told = "; ".join(map(_first_to_beat, own))
    yield f"{told}{' (one process of one thread)' * (threads == {1})}."


def _framework(ratio: Ratio) -> str:
    return ratio.above.framework


def _first_to_beat(ratios: Sequence[Ratio]) -> str:
    """From how many ranks on one framework beats one process; `ratios`: of each of its numbers of ranks."""
    most = max(ratios, key=lambda one: one.above.workers)
    name = _name(most.above)
    if won := sorted(one.above.workers for one in ratios if one.times.verdict == "faster"):
        return f"{name} first beats one process with {won[0]} {'rank' if won[0] == 1 else 'ranks'}"
    sure = all(one.times.verdict in ("slower", "equal") for one in ratios)
    return f"{name} never up to {most.above.workers}" if sure else f"{name}: not shown up to {most.above.workers}"


def _marks(summary: Summary) -> Iterator[str]:
    case = summary.case
    if any(summary.cores_shared(group.configuration) for group in case.groups):
        yield "ranks share cores"
    if case.parameters.get("duet"):
        yield "duet: both ran at the same moment, each on half of the cores"
    groups = case.groups
    kinds = {
        "failed": [run for group in groups for run in group.others],
        "gave no answer": [run for group in groups for run in group.silent],
        "timed beside other runs": [run for group in groups for run in (*group.beside, *group.runs * group.crowded)],
    }
    for words, runs in kinds.items():
        if runs:
            yield f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} {words}"
    yield from _slow_starts(case)
    for configuration, trend in summary.unsteady:
        yield trend.words(f"the times of {configuration.label}")
    for ratio in summary.told:
        if ratio.clock == _CLOCK and not (ratio.trend.steady or ratio.times.shared):
            yield ratio.trend.words(f"the ratio of {ratio.above.label} to {ratio.below.label}")


def _slow_starts(case: Case) -> Iterator[str]:
    for group in case.groups:
        seconds = group.seconds(_CLOCK)
        if len(seconds) >= stats.LEAST_PAIRS and seconds[0] > _SLOW_START * max(seconds[1:]):
            times = seconds[0] / median(seconds[1:])
            yield f"the first repeat of {group.configuration.label} took {times:.1f} times as long: warm-up"


def _name(configuration: Configuration) -> str:
    return registry.of_run(configuration.framework).title or configuration.framework
