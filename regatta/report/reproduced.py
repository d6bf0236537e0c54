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
_OF_HDFS = "_checksum"
_KNOWN = ("faster", "slower", "equal")
_Key = tuple[str, str, Configuration, Configuration, str]


@dataclass(frozen=True)
class Verdict:
    """One ratio of the sealed set (`there`), and the same of the runs here; None where there is none.

    `same_data`: whether both have read the same files, by their hashes.
    """

    what: str
    there: stats.Ratio
    here: stats.Ratio | None
    same_data: bool = True

    @property
    def outcome(self) -> Outcome:
        """Whether it holds here; not to be told where either side shows nothing, or had other data."""
        if self.here is None or not self.same_data or not {self.there.verdict, self.here.verdict} <= {*_KNOWN}:
            return "cannot tell"
        return "holds here" if self.here.verdict == self.there.verdict else "does not hold here"

    @property
    def line(self) -> str:
        """The outcome with both intervals."""
        here = f"{texts.times(self.here)} here ({self.here.verdict})" if self.here else "not measured here"
        data = "" if self.same_data else "; the data here are other ones"
        return f"{self.outcome}: {self.what}: {texts.times(self.there)} there ({self.there.verdict}), {here}{data}"


def compare(there: Sequence[Record], here: Sequence[Record]) -> list[Verdict]:
    """Each verdict of the sealed runs next to that of the runs here, by workload, parameters and timer."""
    own = {key: (ratio, data) for key, ratio, data in _ratios(here)}
    found = []
    for key, ratio, data in _ratios(there):
        one, its_data = own.get(key, (None, data))
        found.append(Verdict(_what(key), ratio, one, sorted(its_data.values()) == sorted(data.values())))
    return found


def other_data(there: Sequence[Record], here: Sequence[Record]) -> list[str]:
    """A sentence for each file of data that is another here than there, though it has the same name."""
    own = _data(here)
    return [
        f"{name} here has {own[name][:24]}, there {told[:24]}: other data, or another program that made them"
        for name, told in _data(there).items()
        if own.get(name, told) != told
    ]


def other_versions(there: Sequence[Record], here: Sequence[Record]) -> list[str]:
    """A sentence for each part of the nodes' environment that has another version here than there, or is missing."""
    own, theirs = _versions(here), _versions(there)
    return [
        f"{name} is {' and '.join(sorted(own.get(name, {'missing'})))} here, and {' and '.join(sorted(told))} there"
        for name, told in theirs.items()
        if own and own.get(name) != told
    ]


def _versions(records: Sequence[Record]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in (node for record in records for node in record.cluster.nodes):
        for name, version in node.versions.items():
            if version is not None:
                found.setdefault(name, set()).add(version)
    return found


def _ratios(records: Sequence[Record]) -> Iterator[tuple[_Key, stats.Ratio, dict[str, str]]]:
    """Each ratio, and the hashes of what its case has read."""
    for summary in summarise(cases(records)):
        case = summary.case
        data = _data(case.runs)
        for one in summary.ratios:
            yield (case.workload, case.title, one.above, one.below, one.clock), one.times, data


def _data(records: Sequence[Record]) -> dict[str, str]:
    """What is known of the content of each file that runs have read, by its name: SHA-256, or the checksum of HDFS."""
    found = {name: f"SHA-256 {told}" for name, told in inputs(records).items()}
    for given in (record.identity.parameters for record in records):
        for name, told in given.items():
            if told and name.endswith(_OF_HDFS):
                found[str(given.get(name.removesuffix(_OF_HDFS), name))] = f"checksum {told}"
    return found


def _what(key: _Key) -> str:
    workload, title, above, below, clock = key
    return f"{workload} {title}, {above.label} against {below.label} ({clock})"
