"""The verdicts of a sealed set next to those of the same plan on other hosts: which hold there too?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from regatta.records import stats
from regatta.records.record import Record
from regatta.report import texts
from regatta.report.cases import Configuration, cases, inputs
from regatta.report.summary import summarise

Outcome = Literal["holds here", "does not hold here", "cannot tell"]
_KNOWN = ("faster", "slower", "equal")
_Key = tuple[str, str, Configuration, Configuration, str]


@dataclass(frozen=True)
class Verdict:
    """One ratio of the sealed set (`there`), and the same of the runs here; None where there is none."""

    what: str
    there: stats.Ratio
    here: stats.Ratio | None

    @property
    def outcome(self) -> Outcome:
        """Whether it holds here; not to be told where either side shows nothing."""
        if self.here is None or self.there.verdict not in _KNOWN or self.here.verdict not in _KNOWN:
            return "cannot tell"
        return "holds here" if self.here.verdict == self.there.verdict else "does not hold here"

    @property
    def line(self) -> str:
        """The outcome with both intervals."""
        here = f"{texts.times(self.here)} here ({self.here.verdict})" if self.here else "not measured here"
        return f"{self.outcome}: {self.what}: {texts.times(self.there)} there ({self.there.verdict}), {here}"


def compare(there: Sequence[Record], here: Sequence[Record]) -> list[Verdict]:
    """Each verdict of the sealed runs next to that of the runs here, by workload, parameters and timer."""
    own = dict(_ratios(here))
    return [Verdict(_what(key), ratio, own.get(key)) for key, ratio in _ratios(there)]


def other_data(there: Sequence[Record], here: Sequence[Record]) -> list[str]:
    """A sentence for each file of data that is another here than there, though it has the same name."""
    own = inputs(here)
    return [
        f"{name} here has SHA-256 {own[name][:16]}, there {told[:16]}: other data, or another program that made them"
        for name, told in inputs(there).items()
        if own.get(name, told) != told
    ]


def _ratios(records: Sequence[Record]) -> Iterator[tuple[_Key, stats.Ratio]]:
    for summary in summarise(cases(records)):
        for one in summary.ratios:
            yield (summary.case.workload, summary.case.title, one.above, one.below, one.clock), one.times


def _what(key: _Key) -> str:
    workload, title, above, below, clock = key
    return f"{workload} {title}, {above.label} against {below.label} ({clock})"
