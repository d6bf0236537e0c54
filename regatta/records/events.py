"""Reads the events that a workload prints among its log: `@regatta {json}` (docs/reference/events.md)."""

import json
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from regatta import typed

DRIVER = -1
"""Rank of the driver of a Ray run; also of a malformed event whose rank cannot be read."""

Rank = Annotated[int, Meta(ge=DRIVER, le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Amount = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
"""Neither negative nor NaN nor infinite."""

_MARKER = re.compile(r"@regatta[ \t]+(?=\{)")
_MAX_DEPTH = 64
_DECODER = json.JSONDecoder()


class Event(Struct, frozen=True):
    """What all events have: the rank and `t`, Unix seconds by the node's clock."""

    kind: ClassVar[str] = ""
    rank: Rank
    t: Amount


class Ready(Event, frozen=True):
    """Imports done, process group or actors formed."""

    kind: ClassVar[str] = "ready"


class Phase(Event, frozen=True):
    """A phase has ended after `seconds`."""

    kind: ClassVar[str] = "phase"
    name: str
    seconds: Amount


class Progress(Event, frozen=True):
    """`done` of `total` units of `what`; a total of 0 means unknown. Residual, loss and accuracy may be NaN.

    `iterations`: how many there have been so far, where that is not what is counted.
    """

    kind: ClassVar[str] = "progress"
    what: str
    done: Amount
    total: Amount
    residual: float | None = None
    loss: float | None = None
    iterations: Amount | None = None
    accuracy: float | None = None


class RankFailed(Event, frozen=True, kw_only=True):
    """A Ray driver tells which rank (`of`) has failed, the address of its host, and Ray's words about it."""

    kind: ClassVar[str] = "failed"
    of: Count
    address: str | None = None
    words: str


class Result(Event, frozen=True):
    """What was computed; `tolerance` maps a dotted name in `answer` to an absolute tolerance."""

    kind: ClassVar[str] = "result"
    answer: Mapping[str, Any]
    tolerance: Mapping[str, Amount] = {}
    show: tuple[str, ...] = ()


class Memory(Event, frozen=True):
    """Peak resident memory of the rank in bytes."""

    kind: ClassVar[str] = "memory"
    peak_bytes: Count


class Cpu(Event, frozen=True):
    """Amount of CPU that the rank has used since its process started, user and system."""

    kind: ClassVar[str] = "cpu"
    seconds: Amount


class OverheadEvent(Event, frozen=True, kw_only=True):
    """What a framework's own log says of the run, see `regatta.records.record.Overhead`, whose fields these are."""

    kind: ClassVar[str] = "overhead"
    source: Annotated[str, Meta(min_length=1)]
    whole: bool = True
    jobs: Count = 0
    stages: Count = 0
    tasks: Count = 0
    failed: Count = 0
    wall: Mapping[str, Amount] = {}
    work: Mapping[str, Amount] = {}
    within: Mapping[str, Amount] = {}
    own: tuple[str, ...] = ()


class WarningEvent(Event, frozen=True):
    """Shown to the person and kept in the record; malformed events become one of these."""

    kind: ClassVar[str] = "warning"
    message: str


class ErrorEvent(Event, frozen=True):
    """Bad input, said in one sentence; the process then exits with status 2."""

    kind: ClassVar[str] = "error"
    message: str


class UnknownEvent(Event, frozen=True):
    """An event of a kind that this version does not know, with all its fields."""

    name: str
    fields: Mapping[str, Any]


class _Named(Event, frozen=True):
    """What an event of any kind has."""

    event: str


KINDS = {
    kind.kind: kind
    for kind in (Ready, Phase, Progress, Result, Memory, Cpu, OverheadEvent, WarningEvent, RankFailed, ErrorEvent)
}
"""By their name in a line."""


def parse_line(text: str) -> Event | None:
    """The first event in a line of log, whatever stands before and after it; None when there is none.

    A line that has the marker and no well-formed event behind it gives a `WarningEvent`. Never raises.
    """
    reason = ""
    for match in _MARKER.finditer(text):
        try:
            fields, _ = _DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError) as error:
            reason = reason or str(error)
            continue
        return _event(fields)
    return WarningEvent(DRIVER, 0.0, f"malformed event, not JSON: {reason}") if reason else None


def _event(fields: dict[str, Any]) -> Event:
    if _depth_exceeds(fields, _MAX_DEPTH):
        return WarningEvent(DRIVER, 0.0, f"malformed event: nested deeper than {_MAX_DEPTH}")
    name = fields.get("event")
    try:
        if isinstance(name, str) and (kind := KINDS.get(name)):
            return typed.convert(fields, kind)
        said = typed.convert(fields, _Named)
        rest = {key: value for key, value in fields.items() if key not in {"event", "rank", "t"}}
        return UnknownEvent(said.rank, said.t, said.event, rest)
    except typed.FaultError as fault:
        what = f"event {name[:40]!r}" if isinstance(name, str) else "event"
        field = next((f"{step!r}: " for step in reversed(fault.steps) if isinstance(step, str)), "")
        rank, t = _believed(fields.get("rank"), Rank, DRIVER), _believed(fields.get("t"), Amount, 0.0)
        return WarningEvent(rank, t, f"malformed {what}: {field}{fault.said}")


def _believed(value: Any, kind: Any, otherwise: Any) -> Any:
    """What a malformed event has of what all have."""
    try:
        return typed.convert(value, kind)
    except typed.FaultError:
        return otherwise


def _depth_exceeds(value: object, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True
