"""What a node believes of files that a run owns: whatever they hold, they tell of that run alone, in values of the
types that are expected, and break nothing for the others.
"""

from __future__ import annotations

import math
import re
from typing import Any, Dict

MOST_DEEP = 24
MOST_TEXT = 4096
ENDS = ("succeeded", "failed", "stopped", "lost")
MODES = ("unit", "session", "member")
_RANK = re.compile(r"-?\d{1,9}\Z")
_RELEASE = re.compile(r"[0-9a-f]{1,64}\Z")

Values = Dict[str, Any]


def shallow(value: Any) -> bool:
    """Whether a value of JSON is nested no deeper than ours are, so that it can be written and read anywhere."""
    level = [value]
    for _ in range(MOST_DEEP):
        level = [item for one in level if isinstance(one, (dict, list)) for item in _inside(one)]
        if not level:
            return True
    return False


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def number(value: Any) -> float | None:
    """A finite number, else None."""
    try:
        found = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def whole(value: Any) -> int | None:
    """A whole number of at most 31 bits, else None."""
    fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31
    return value if fits else None


def text(value: Any) -> str:
    """Text of bounded length that can be printed anywhere: no half surrogate pair, nothing that a terminal obeys."""
    plain = value[:MOST_TEXT] if isinstance(value, str) else ""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in plain)


def spec(value: Values) -> Values:
    """What `spec.json` says, as `run.start` would have written it."""
    plan, ranks, daemons = (value.get(name) for name in ("plan", "ranks", "daemons"))
    return {
        **value,
        "mode": value.get("mode") if value.get("mode") in MODES else None,
        "framework": text(value.get("framework")),
        "release": value.get("release") if _RELEASE.match(str(value.get("release"))) else "",
        "started": number(value.get("started")),
        "plan": _plan(plan) if isinstance(plan, dict) else {},
        "network": value.get("network") if isinstance(value.get("network"), dict) else {},
        "ranks": [rank for rank in ranks if _has_number(rank)] if isinstance(ranks, list) else [],
        "daemons": {text(name): whole(pid) for name, pid in daemons.items()} if isinstance(daemons, dict) else {},
    }


def controller(value: Values) -> Values | None:
    """The process that started the run to follow it: {boot, pid, began}; None where the spec does not say."""
    record = value.get("record")
    by = record.get("by") if isinstance(record, dict) else None
    if not isinstance(by, dict):
        return None
    names = ("boot", "began", "host", "results")
    return {"pid": whole(by.get("pid")), **{name: text(by.get(name)) for name in names}}


def is_rank(name: str) -> bool:
    """Whether that can be the name of a rank."""
    return bool(_RANK.match(name))


def _has_number(value: Any) -> bool:
    return isinstance(value, dict) and whole(value.get("rank")) is not None


def _plan(plan: Values) -> Values:
    program, ranks, keep, ports = (plan.get(name) for name in ("program", "ranks", "keep", "ports"))
    placed = ranks.items() if isinstance(ranks, dict) else ()
    return {
        **{key: one for key, one in plan.items() if one is None or number(one) is not None},
        **{key: text(one) for key, one in plan.items() if isinstance(one, str)},
        "label": text(plan.get("label")),
        "program": [text(word) for word in program] if isinstance(program, list) else [],
        "keep": [text(path) for path in keep] if isinstance(keep, list) else [],
        "ranks": {rank: text(node) for rank, node in placed if is_rank(rank)},
        "master_port": whole(plan.get("master_port")),
        "ports": [port for port in map(whole, ports) if port] if isinstance(ports, list) else [],
    }


def ended(value: Values, unit_failed: str = "") -> Values:
    """What `exit.json` says, as the supervisor would have written it; `unit_failed`: how the unit did, where it did."""
    failure, codes, code = value.get("failure"), value.get("codes"), whole(value.get("code"))
    reached = value["reached"] if isinstance(value.get("reached"), dict) else {}
    state = value.get("state") if value.get("state") in ENDS else "failed"
    if state == "succeeded" and unit_failed == "stopped":
        state, code, failure = "stopped", 143, None
    elif state == "succeeded" and unit_failed:
        state, code = "failed", code or 1
        failure = {"cause": f"it says that it succeeded, and its unit failed ({unit_failed})"}
    return {
        **value,
        "state": state,
        "code": 1 if code is None else code,
        "failure": _failure(failure) if isinstance(failure, dict) else None,
        "codes": {text(rank): whole(one) for rank, one in codes.items()} if isinstance(codes, dict) else {},
        "started": number(value.get("started")),
        "ended": number(value.get("ended")),
        "used": value.get("used") if isinstance(value.get("used"), dict) else {},
        "oom_kills": whole(value.get("oom_kills")) or 0,
        "reached": {text(name): most for name, most in reached.items() if number(most) is not None},
        "lost_lines": whole(value.get("lost_lines")) or 0,
    }


def _failure(failure: Values) -> Values:
    lines = failure.get("last_lines")
    cause = {"cause": text(failure["cause"])} if isinstance(failure.get("cause"), str) else {}
    return {
        **failure,
        **cause,
        "rank": whole(failure.get("rank")),
        "code": whole(failure.get("code")) or 1,
        "signal": text(failure["signal"]) if isinstance(failure.get("signal"), str) else None,
        "at": number(failure.get("at")) or 0.0,
        "last_lines": [str(line) for line in lines] if isinstance(lines, list) else [],
    }
