"""Events that a workload prints for the controller in its log: lines `@regatta {json}` (docs/reference/events.md)."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Dict, Optional, Tuple

from regatta_protocol.decoding import Amount, Between, Count, FaultError, Rank, decode, encode, fitting
from regatta_protocol.log import DRIVER, PREFIX
from regatta_protocol.value import Value

_MALFORMED = "malformed "
_MARKER = re.compile(r"@regatta[ \t]+(?=\{)")
_MAX_DEPTH = 64
_DECODER = json.JSONDecoder()


class Event(Value):
    """The fields of all events: the rank and `t`, Unix seconds by the node's clock."""

    kind: ClassVar[str] = ""
    rank: Rank
    t: Amount


class Ready(Event):
    """Imports done, process group or actors formed."""

    kind = "ready"


class Phase(Event):
    """A phase has ended after `seconds`."""

    kind = "phase"
    name: str
    seconds: Amount


class Progress(Event):
    """`done` of `total` units of `what`; a total of 0 means unknown. Residual, loss and accuracy may be NaN.

    `iterations`: how many there have been so far, where that is not what is counted.
    """

    kind = "progress"
    what: str
    done: Amount
    total: Amount
    residual: Optional[float] = None
    loss: Optional[float] = None
    iterations: Optional[Amount] = None
    accuracy: Optional[float] = None


class RankFailed(Event):
    """A driver tells which rank (`of`) has failed, the address of its host, and what is known of how."""

    kind = "failed"
    of: Count
    words: str
    address: Optional[str] = None


class Result(Event):
    """The answer that was computed; `tolerance` maps a dotted name in `answer` to an absolute tolerance."""

    kind = "result"
    answer: Dict[str, Any]
    tolerance: Dict[str, Amount] = {}
    show: Tuple[str, ...] = ()


class Memory(Event):
    """Peak resident memory of the rank in bytes."""

    kind = "memory"
    peak_bytes: Count


class Cpu(Event):
    """Seconds of CPU that the rank has used since its process started, user and system."""

    kind = "cpu"
    seconds: Amount


class Exchanged(Event):
    """The bytes that the rank has sent to others, in so many exchanges (iterations) between all ranks."""

    kind = "exchanged"
    sent_bytes: Count
    times: Count


class Chosen(Event):
    """The value that a workload has decided on for one of its options, and why."""

    kind = "chosen"
    option: Annotated[str, Between(1, 64)]
    value: Annotated[str, Between(1, 256)]
    why: str


class OverheadEvent(Event):
    """A framework's own account of where the time went, see docs/explanation/spark-share.md."""

    kind = "overhead"
    source: Annotated[str, Between(1, 4096)]
    whole: bool = True
    jobs: Count = 0
    stages: Count = 0
    tasks: Count = 0
    failed: Count = 0
    wall: Dict[str, Amount] = {}
    work: Dict[str, Amount] = {}
    within: Dict[str, Amount] = {}
    own: Tuple[str, ...] = ()


ASIDE = "not compared: "
"""A warning that begins so takes the run out of comparisons."""


class WarningEvent(Event):
    """Shown to the person and kept in the record; malformed events become one of these."""

    kind = "warning"
    message: str


class ErrorEvent(Event):
    """Bad input, said in one sentence; the process then exits with status 2."""

    kind = "error"
    message: str


class UnknownEvent(Event):
    """An event of a kind that this version does not know, with all its fields."""

    name: str
    fields: Mapping[str, Any]


class _Named(Event):
    """The fields of an event of any kind."""

    event: str


KINDS = {
    kind.kind: kind
    for kind in (
        *(Ready, Phase, Progress, Result, Memory, Cpu, Exchanged, Chosen, OverheadEvent, WarningEvent, RankFailed),
        ErrorEvent,
    )
}
"""By their name in a line."""


def fields(event: Event) -> Dict[str, Any]:
    """An event as JSON has it."""
    return {"event": event.kind, **encode(event)}


def line(event: Event) -> str:
    """The line of an event, with its end. ValueError for a float that is not finite: JSON has none."""
    return PREFIX + json.dumps(fields(event), separators=(",", ":"), allow_nan=False) + "\n"


def of_fields(given: Any) -> Event:
    """An event out of JSON. Raises FaultError."""
    said = decode(_Named, given)
    if kind := KINDS.get(said.event):
        return decode(kind, given)
    rest = {key: value for key, value in given.items() if key not in {"event", "rank", "t"}}
    return UnknownEvent(said.rank, said.t, said.event, rest)


def parse_line(text: str) -> Optional[Event]:
    """The first event in a line of log, whatever is before and after it; None when there is none.

    A line that has the marker and no well-formed event behind it gives a `WarningEvent`. Never raises.
    """
    reason = ""
    for match in _MARKER.finditer(text):
        try:
            given, _ = _DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError) as error:
            reason = reason or str(error)
            continue
        return _believed(given)
    return WarningEvent(DRIVER, 0.0, f"{_MALFORMED}event, not JSON: {reason}") if reason else None


def malformed(event: Event) -> bool:
    """Whether `parse_line` has found no event of a known kind where one seems to be."""
    return isinstance(event, UnknownEvent) or (isinstance(event, WarningEvent) and event.message.startswith(_MALFORMED))


def _believed(given: Dict[str, Any]) -> Event:
    if _depth_exceeds(given, _MAX_DEPTH):
        return WarningEvent(DRIVER, 0.0, f"{_MALFORMED}event: nested deeper than {_MAX_DEPTH}")
    try:
        return of_fields(given)
    except FaultError as fault:
        name = given.get("event")
        what = f"event {name[:40]!r}" if isinstance(name, str) else "event"
        place = next((f"{step!r}: " for step in reversed(fault.steps) if isinstance(step, str)), "")
        rank, t = fitting(Rank, given.get("rank"), DRIVER), fitting(Amount, given.get("t"), 0.0)
        return WarningEvent(rank, t, f"{_MALFORMED}{what}: {place}{fault.said}")


def _depth_exceeds(value: object, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for item in level
            if isinstance(item, (dict, list))
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True
