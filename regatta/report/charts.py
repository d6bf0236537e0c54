"""The charts of a report as Vega-Lite specifications: what each draws, and the rows that it draws."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from regatta.clocks import PHASES
from regatta.record import Record
from regatta.report import theme
from regatta.report.cases import Group
from regatta.report.regressions import Change
from regatta.report.summary import Summary
from regatta.report.timeline import rank_label, segments
from regatta.stats import Interval

Row = dict[str, Any]
Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_SHARES = tuple(phase for phase in PHASES if phase != "total")
_STEP = 30
_MAX_LINES = 12
_MAX_CHANGES = 40
_DODGE = {("torch", "total"): -0.06, ("torch", "compute"): -0.02, ("ray", "total"): 0.02, ("ray", "compute"): 0.06}


@dataclass(frozen=True)
class Chart:
    """A kind of chart: `rows` makes what a case has for it, none where there is nothing to draw."""

    kind: str
    title: str
    about: str
    spec: Spec
    rows: Callable[[Summary], list[Row]]


def with_rows(spec: Spec, rows: Sequence[Row]) -> Spec:
    """The whole specification, as Vega-Lite takes it."""
    return {"$schema": SCHEMA, **spec, "data": {"values": list(rows)}}


def bars(summary: Summary) -> list[Row]:
    """Median seconds with interval, for each configuration and clock."""
    return [
        {
            "configuration": time.configuration.label,
            "framework": time.configuration.framework,
            "clock": time.clock,
            "seconds": time.seconds.value,
            **_bounds(time.seconds),
            "runs": time.seconds.n,
        }
        for time in summary.times
    ]


def shares(summary: Summary) -> list[Row]:
    """Median seconds of each phase, for each configuration."""
    return [
        {
            "configuration": group.configuration.label,
            "phase": phase,
            "place": place,
            "seconds": round(median(samples), 4),
        }
        for group in summary.case.groups
        if summary.case.comparable(group.configuration)
        for place, phase in enumerate(_SHARES)
        if (samples := group.seconds(phase))
    ]


def speedups(summary: Summary) -> list[Row]:
    """Speed-up and efficiency against one process, with interval; and the line that is as large as the ranks."""
    found = [
        {
            "framework": ratio.above.framework,
            "workers": ratio.above.workers,
            "at": ratio.above.workers + _DODGE[ratio.above.framework, ratio.clock],
            "clock": ratio.clock,
            "speedup": ratio.speedup.value,
            **_bounds(ratio.speedup),
            "efficiency": ratio.speedup.value / ratio.above.workers,
            "runs": ratio.times.n,
        }
        for ratio in summary.ratios
        if ratio.below.framework == "single"
    ]
    ends = sorted({1, *(ratio.above.workers for ratio in summary.ratios)})
    return [*found, *({"at": workers, "workers": workers, "ideal": workers} for workers in ends)] if found else []


def laps(summary: Summary) -> list[Row]:
    """Seconds of each repetition of a repeated phase (an epoch, an iteration): median over runs of the longest rank."""
    return [row for group in summary.case.groups for row in _laps(group)]


def progress(summary: Summary) -> list[Row]:
    """Loss or residual over the seconds since a rank was ready: rank 0, or the first that told, of the latest run."""
    found = [list(_progress(group)) for group in summary.case.groups[:_MAX_LINES] if group.runs]
    return [row for line in found if len(line) > 1 for row in line]


def timeline(record: Record) -> list[Row]:
    """What each rank of one run did, and when."""
    nodes = {rank.rank: rank.node for rank in record.ranks}
    return [
        {
            "rank": rank_label(segment.rank),
            "place": segment.rank,
            "node": nodes.get(segment.rank),
            "phase": segment.name,
            "start": round(segment.start, 4),
            "end": round(segment.end, 4),
            "seconds": round(segment.seconds, 4),
        }
        for segment in segments(record)
    ]


def regressions(found: Sequence[Change]) -> list[Row]:
    """The ratio of each change, with interval: the first 40 that have one."""
    drawn = [change for change in found if change.times.low is not None][:_MAX_CHANGES]
    return [
        {
            "what": f"{change.configuration.label} {change.clock}, {_short(change)}",
            "case": f"{change.case.workload}: {change.case.title}",
            "ratio": change.times.value,
            "low": change.times.low,
            "high": change.times.high,
            "verdict": change.verdict,
        }
        for change in drawn
    ]


def _bounds(found: Interval) -> Row:
    """The ends of an interval; a single sample is drawn as one of no length."""
    low = found.value if found.low is None else found.low
    return {"low": low, "high": found.value if found.high is None else found.high}


def _short(change: Change) -> str:
    title = f"{change.case.workload} {change.case.title}"
    return title if len(title) <= 20 else f"{title[:19]}…"


def _laps(group: Group) -> Iterator[Row]:
    found: dict[tuple[str, int], list[float]] = {}
    for run in group.runs:
        longest: dict[tuple[str, int], float] = {}
        for rank in run.ranks:
            for name, seconds in rank.laps.items():
                for index, value in enumerate(seconds, 1):
                    longest[name, index] = max(value, longest.get((name, index), 0.0))
        for place, value in longest.items():
            found.setdefault(place, []).append(value)
    for (name, index), values in found.items():
        yield {
            "configuration": group.configuration.label,
            "framework": group.configuration.framework,
            "what": name,
            "lap": index,
            "seconds": round(median(values), 4),
            "low": min(values),
            "high": max(values),
            "runs": len(values),
        }


def _progress(group: Group) -> Iterator[Row]:
    run = group.runs[-1]
    told = next((rank for rank in run.ranks if rank.progress), None)
    for what, points in told.progress.items() if told else ():
        for seconds, done, value in points:
            if value is not None:
                yield {
                    "configuration": group.configuration.label,
                    "framework": group.configuration.framework,
                    "what": what,
                    "seconds": seconds,
                    "done": done,
                    "value": value,
                    "run": run.run_id,
                }


def _colour(field: str, colours: Mapping[str, str], **legend: Any) -> dict[str, Any]:
    scale = {"domain": list(colours), "range": list(colours.values())}
    shown = {"title": None, "orient": "top", "columns": 4} | legend
    return {"field": field, "type": "nominal", "scale": scale, "legend": shown}


def _tooltip(*fields: tuple[str, str]) -> list[dict[str, str]]:
    made = []
    for name, kind in fields:
        made.append({"field": name, "type": kind} | ({"format": ".3~f"} if kind == "quantitative" else {}))
    return made


_CONFIGURATION = {"field": "configuration", "type": "nominal", "title": None, "sort": None}
_SECONDS = {"type": "quantitative", "title": "seconds"}
_WIDE: Spec = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}

BARS: Spec = _WIDE | {
    "description": "Median seconds of each configuration with 95 % interval",
    "height": {"step": _STEP / 2, "for": "offset"},
    "transform": [{"filter": "datum.clock == 'total' || datum.clock == 'compute'"}],
    "encoding": {"y": {**_CONFIGURATION}, "yOffset": {"field": "clock", "sort": ["total", "compute"]}},
    "layer": [
        {
            "mark": {"type": "bar", "cornerRadiusEnd": 2},
            "encoding": {
                "x": {"field": "seconds", **_SECONDS},
                "color": _colour("framework", theme.FRAMEWORKS),
                "opacity": {
                    "field": "clock",
                    "type": "nominal",
                    "sort": ["total", "compute"],
                    "scale": {"domain": ["total", "compute"], "range": [0.95, 0.5]},
                    "legend": {"title": None, "orient": "top"},
                },
                "tooltip": _tooltip(
                    ("configuration", "nominal"),
                    ("clock", "nominal"),
                    ("seconds", "quantitative"),
                    ("low", "quantitative"),
                    ("high", "quantitative"),
                    ("runs", "quantitative"),
                ),
            },
        },
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}},
        },
    ],
}

SHARES: Spec = _WIDE | {
    "description": "Median seconds of each phase of each configuration, stacked",
    "height": {"step": _STEP},
    "mark": {"type": "bar", "cornerRadius": 1},
    "encoding": {
        "y": _CONFIGURATION,
        "x": {"field": "seconds", **_SECONDS, "stack": "zero"},
        "color": _colour("phase", {phase: theme.PHASES[phase] for phase in _SHARES}),
        "order": {"field": "place", "type": "quantitative"},
        "tooltip": _tooltip(("configuration", "nominal"), ("phase", "nominal"), ("seconds", "quantitative")),
    },
}

SPEEDUPS: Spec = _WIDE | {
    "description": "Speed-up against one process by number of ranks; the rising line is as large as the ranks",
    "height": 220,
    "encoding": {
        "x": {
            "field": "at",
            "type": "quantitative",
            "title": "ranks",
            "axis": {"labelExpr": "datum.value % 1 ? '' : format(datum.value, 'd')", "grid": False},
            "scale": {"nice": False, "padding": 24},
        }
    },
    "layer": [
        {
            "mark": {"type": "line", "strokeDash": [4, 4], "opacity": 0.5, "color": "#888888"},
            "transform": [{"filter": "isValid(datum.ideal)"}],
            "encoding": {"y": {"field": "ideal", "type": "quantitative"}},
        },
        {
            "mark": {"type": "rule", "strokeDash": [2, 3], "color": "#888888"},
            "encoding": {"y": {"datum": 1}, "x": {"value": 0}, "x2": {"value": "width"}},
        },
        {
            "transform": [{"filter": "isValid(datum.speedup)"}],
            "mark": {"type": "point", "size": 80, "filled": True, "opacity": 1},
            "encoding": {
                "y": {"field": "speedup", "type": "quantitative", "title": "times as fast as one process"},
                "color": _colour("framework", {k: v for k, v in theme.FRAMEWORKS.items() if k != "single"}),
                "shape": {
                    "field": "clock",
                    "type": "nominal",
                    "scale": {"domain": ["total", "compute"], "range": ["circle", "diamond"]},
                    "legend": {"title": None, "orient": "top"},
                },
                "tooltip": _tooltip(
                    ("framework", "nominal"),
                    ("workers", "quantitative"),
                    ("clock", "nominal"),
                    ("speedup", "quantitative"),
                    ("low", "quantitative"),
                    ("high", "quantitative"),
                    ("efficiency", "quantitative"),
                ),
            },
        },
        {
            "transform": [{"filter": "isValid(datum.speedup)"}],
            "mark": {"type": "line", "opacity": 0.6},
            "encoding": {
                "y": {"field": "speedup", "type": "quantitative"},
                "detail": {"field": "clock"},
                "color": _colour("framework", {k: v for k, v in theme.FRAMEWORKS.items() if k != "single"}),
            },
        },
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "opacity": 0.7},
            "encoding": {
                "y": {"field": "low", "type": "quantitative"},
                "y2": {"field": "high"},
                "color": _colour("framework", {k: v for k, v in theme.FRAMEWORKS.items() if k != "single"}),
            },
        },
    ],
}

LAPS: Spec = _WIDE | {
    "description": "Seconds of each epoch or iteration",
    "height": 200,
    "encoding": {
        "x": {"field": "lap", "type": "quantitative", "title": "repetition", "axis": {"tickMinStep": 1, "format": "d"}},
        "color": _colour("framework", theme.FRAMEWORKS),
        "detail": [{"field": "configuration"}, {"field": "what"}],
    },
    "layer": [
        {
            "mark": {"type": "area", "opacity": 0.15},
            "encoding": {"y": {"field": "low", **_SECONDS}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "line", "point": {"size": 40, "filled": True}},
            "encoding": {
                "y": {"field": "seconds", **_SECONDS},
                "tooltip": _tooltip(
                    ("configuration", "nominal"),
                    ("what", "nominal"),
                    ("lap", "quantitative"),
                    ("seconds", "quantitative"),
                    ("runs", "quantitative"),
                ),
            },
        },
    ],
}

PROGRESS: Spec = _WIDE | {
    "description": "Loss or residual over the seconds since the rank was ready",
    "height": 200,
    "mark": {"type": "line", "point": {"size": 30, "filled": True}},
    "encoding": {
        "x": {"field": "seconds", "type": "quantitative", "title": "seconds since ready"},
        "y": {"field": "value", "type": "quantitative", "title": "loss or residual", "scale": {"type": "symlog"}},
        "color": _colour("framework", theme.FRAMEWORKS),
        "detail": [{"field": "run"}, {"field": "what"}],
        "tooltip": _tooltip(
            ("configuration", "nominal"),
            ("what", "nominal"),
            ("done", "quantitative"),
            ("seconds", "quantitative"),
            ("value", "quantitative"),
        ),
    },
}

TIMELINE: Spec = _WIDE | {
    "description": "What each rank did from the request to the end of the run",
    "height": {"step": 24},
    "mark": {"type": "bar", "cornerRadius": 1},
    "encoding": {
        "y": {"field": "rank", "type": "nominal", "title": None, "sort": {"field": "place"}},
        "x": {"field": "start", "type": "quantitative", "title": "seconds since the run was asked for"},
        "x2": {"field": "end"},
        "color": _colour("phase", theme.PHASES),
        "tooltip": _tooltip(
            ("rank", "nominal"), ("node", "nominal"), ("phase", "nominal"), ("seconds", "quantitative")
        ),
    },
}

CHANGES: Spec = _WIDE | {
    "description": "Time now divided by time before, with 95 % interval",
    "height": {"step": 24},
    "encoding": {"y": {"field": "what", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 280}}},
    "layer": [
        {
            "mark": {"type": "rule", "strokeDash": [3, 3]},
            "encoding": {"x": {"datum": 1}, "y": {"value": 0}, "y2": {"value": "height"}},
        },
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.7},
            "encoding": {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {
                "x": {
                    "field": "ratio",
                    "type": "quantitative",
                    "title": "time now / time before",
                    "scale": {"zero": False},
                },
                "color": _colour(
                    "verdict",
                    {
                        "slower": "#d1453b",
                        "faster": "#2c9e64",
                        "no difference shown": "#8d96a3",
                        "too few runs": "#c3c9d1",
                    },
                    columns=2,
                ),
                "tooltip": _tooltip(
                    ("case", "nominal"),
                    ("what", "nominal"),
                    ("ratio", "quantitative"),
                    ("low", "quantitative"),
                    ("high", "quantitative"),
                    ("verdict", "nominal"),
                ),
            },
        },
    ],
}

CHARTS = (
    Chart("bars", "Time", "Strong: end to end. Pale: the inner loop alone. The line is the 95 % interval.", BARS, bars),
    Chart("phases", "Where the time goes", "Medians of the phases.", SHARES, shares),
    Chart(
        "speedup",
        "Speed-up against one process",
        "Above the lower dashed line the cluster beats one process; the rising one is as many times as ranks.",
        SPEEDUPS,
        speedups,
    ),
    Chart(
        "laps",
        "Epochs and iterations",
        "Each repetition: the slowest rank, median over runs, with the least and the greatest.",
        LAPS,
        laps,
    ),
    Chart("progress", "Loss or residual over time", "The latest run of each configuration.", PROGRESS, progress),
)
"""What is drawn of each case."""
