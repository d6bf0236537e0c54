"""Reads the events that a workload prints among its log: `@regatta {json}` (docs/architecture.md)."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

DRIVER = -1
"""Rank of the driver of a Ray run; also of a malformed event whose rank cannot be read."""

_MARKER = re.compile(r"@regatta[ \t]+(?=\{)")
_MAX_DEPTH = 64
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Event:
    """What all events have: the rank and `t`, Unix seconds by the node's clock."""

    kind: ClassVar[str] = ""
    rank: int
    t: float


@dataclass(frozen=True)
class Ready(Event):
    """Imports done, process group or actors formed."""

    kind: ClassVar[str] = "ready"


@dataclass(frozen=True)
class Phase(Event):
    """A phase has ended after `seconds`."""

    kind: ClassVar[str] = "phase"
    name: str
    seconds: float


@dataclass(frozen=True)
class Progress(Event):
    """`done` of `total` units of `what`; a total of 0 means unknown. Residual and loss may be NaN.

    `iterations`: how many there have been so far, where that is not what is counted.
    """

    kind: ClassVar[str] = "progress"
    what: str
    done: float
    total: float
    residual: float | None = None
    loss: float | None = None
    iterations: float | None = None


@dataclass(frozen=True)
class RankFailed(Event):
    """A Ray driver tells which rank (`of`) has failed, the address of its host, and Ray's words about it."""

    kind: ClassVar[str] = "failed"
    of: int
    address: str | None
    words: str


@dataclass(frozen=True)
class Result(Event):
    """What was computed; `tolerance` maps a dotted name in `answer` to an absolute tolerance."""

    kind: ClassVar[str] = "result"
    answer: Mapping[str, Any]
    tolerance: Mapping[str, float] = field(default_factory=dict)
    show: tuple[str, ...] = ()


@dataclass(frozen=True)
class Memory(Event):
    """Peak resident memory of the rank in bytes."""

    kind: ClassVar[str] = "memory"
    peak_bytes: int


@dataclass(frozen=True)
class Cpu(Event):
    """Seconds of CPU that the rank has used since its process started, user and system."""

    kind: ClassVar[str] = "cpu"
    seconds: float


@dataclass(frozen=True)
class WarningEvent(Event):
    """Shown to the person and kept in the record; malformed events become one of these."""

    kind: ClassVar[str] = "warning"
    message: str


@dataclass(frozen=True)
class ErrorEvent(Event):
    """Bad input, said in one sentence; the process then exits with status 2."""

    kind: ClassVar[str] = "error"
    message: str


@dataclass(frozen=True)
class UnknownEvent(Event):
    """An event of a kind that this version does not know, with all its fields."""

    name: str
    fields: Mapping[str, Any]


class _MalformedError(ValueError):
    pass


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
    rank, t, kind = DRIVER, 0.0, None
    try:
        rank = _rank(fields)
        t = _number(fields, "t")
        kind = _text(fields, "event")
        build = _BUILDERS.get(kind)
        if build is None:
            rest = {k: v for k, v in fields.items() if k not in {"event", "rank", "t"}}
            return UnknownEvent(rank, t, kind, rest)
        return build(rank, t, fields)
    except _MalformedError as error:
        what = "event" if kind is None else f"event {kind[:40]!r}"
        return WarningEvent(rank, t, f"malformed {what}: {error}")


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


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _MalformedError(f"{name!r} is not a string")
    return value


def _any_number(fields: Mapping[str, Any], name: str) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _MalformedError(f"{name!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise _MalformedError(f"{name!r} is too large") from None


def _number(fields: Mapping[str, Any], name: str) -> float:
    value = _any_number(fields, name)
    if not math.isfinite(value) or value < 0:
        raise _MalformedError(f"{name!r} is negative or not finite")
    return value


def _optional(fields: Mapping[str, Any], name: str) -> float | None:
    return None if fields.get(name) is None else _any_number(fields, name)


def _integer(fields: Mapping[str, Any], name: str, low: int) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**63:
        raise _MalformedError(f"{name!r} is not an integer from {low}")
    return value


def _rank(fields: Mapping[str, Any]) -> int:
    return _integer(fields, "rank", DRIVER)


def _progress(rank: int, t: float, fields: Mapping[str, Any]) -> Event:
    return Progress(
        rank,
        t,
        _text(fields, "what"),
        _number(fields, "done"),
        _number(fields, "total"),
        _optional(fields, "residual"),
        _optional(fields, "loss"),
        None if fields.get("iterations") is None else _number(fields, "iterations"),
    )


def _result(rank: int, t: float, fields: Mapping[str, Any]) -> Event:
    answer = fields.get("answer")
    tolerance = fields.get("tolerance", {})
    show = fields.get("show", [])
    if not isinstance(answer, dict):
        raise _MalformedError("'answer' is not an object")
    if not isinstance(tolerance, dict):
        raise _MalformedError("'tolerance' is not an object")
    if not isinstance(show, list) or not all(isinstance(line, str) for line in show):
        raise _MalformedError("'show' is not a list of strings")
    return Result(rank, t, answer, {name: _number(tolerance, name) for name in tolerance}, tuple(show))


def _failed(rank: int, t: float, fields: Mapping[str, Any]) -> Event:
    address = None if fields.get("address") is None else _text(fields, "address")
    return RankFailed(rank, t, _integer(fields, "of", 0), address, _text(fields, "words"))


_BUILDERS: dict[str, Callable[[int, float, Mapping[str, Any]], Event]] = {
    "ready": lambda rank, t, _: Ready(rank, t),
    "phase": lambda rank, t, f: Phase(rank, t, _text(f, "name"), _number(f, "seconds")),
    "progress": _progress,
    "result": _result,
    "memory": lambda rank, t, f: Memory(rank, t, _integer(f, "peak_bytes", 0)),
    "cpu": lambda rank, t, f: Cpu(rank, t, _number(f, "seconds")),
    "warning": lambda rank, t, f: WarningEvent(rank, t, _text(f, "message")),
    "failed": _failed,
    "error": lambda rank, t, f: ErrorEvent(rank, t, _text(f, "message")),
}
