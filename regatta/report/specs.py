"""The Vega-Lite specifications of a report's charts."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from regatta.frameworks import registry
from regatta.records import clocks
from regatta.report import theme

Spec = dict[str, Any]

PHASES = tuple(phase for phase in clocks.PHASES if phase != "total")
ALL, PARALLEL = "every framework", "every framework but the single process"
"""Stand where the colours of those belong, until `coloured` knows which there are."""
_STEP = 30


def _colour(field: str, colours: Mapping[str, str], **legend: Any) -> dict[str, Any]:
    scale = {"domain": list(colours), "range": list(colours.values())}
    shown = {"title": None, "orient": "top", "columns": 4} | legend
    return {"field": field, "type": "nominal", "scale": scale, "legend": shown}


def _frameworks(which: str = ALL, **legend: Any) -> dict[str, Any]:
    """A colour each; which frameworks there are is not known yet, see `coloured`."""
    return _colour("framework", {}, **legend) | {"scale": {"domain": which}}


def coloured(spec: Spec, frameworks: Collection[str]) -> Spec:
    """The specification with a colour and a place in the legend for each of these frameworks."""
    colours = theme.of_frameworks(frameworks)
    parallel = {name: colour for name, colour in colours.items() if not registry.of_run(name).single}

    def filled(part: Any) -> Any:
        if isinstance(part, list):
            return [filled(item) for item in part]
        if not isinstance(part, dict):
            return part
        if part.get("domain") in (ALL, PARALLEL):
            chosen = colours if part["domain"] == ALL else parallel
            return {"domain": list(chosen), "range": list(chosen.values())}
        return {key: filled(item) for key, item in part.items()}

    made: Spec = filled(spec)
    return made


def _q(field: str, **more: Any) -> dict[str, Any]:
    """A channel of numbers."""
    return {"field": field, "type": "quantitative", **more}


def _n(field: str, **more: Any) -> dict[str, Any]:
    """A channel of names."""
    return {"field": field, "type": "nominal", **more}


def _where(field: str) -> list[dict[str, str]]:
    """Only the rows that have a field."""
    return [{"filter": f"isValid(datum.{field})"}]


def _tooltip(fields: str) -> list[dict[str, str]]:
    """Fields with a space between them; a number has `:Q` behind it, a time `:T`."""
    kinds = {"Q": {"type": "quantitative", "format": ".3~f"}, "T": {"type": "temporal"}, "": {"type": "nominal"}}
    split = [field.partition(":") for field in fields.split()]
    return [{"field": name, **kinds[kind]} for name, _, kind in split]


_CONFIGURATION = _n("configuration", title=None, sort=None)
_WHOLE = "datum.value % 1 ? '' : format(datum.value, 'd')"
_TIMERS = {"title": None, "orient": "top", "labelExpr": f"{json.dumps(clocks.LABELS)}[datum.label]"}
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
                "x": _q("seconds", title="seconds"),
                "color": _frameworks(),
                "opacity": _n(
                    "clock",
                    sort=["total", "compute"],
                    scale={"domain": ["total", "compute"], "range": [0.95, 0.5]},
                    legend=_TIMERS,
                ),
                "tooltip": _tooltip("configuration clock seconds:Q low:Q high:Q runs:Q"),
            },
        },
        {
            "transform": _where("low"),
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {"x": _q("low"), "x2": {"field": "high"}},
        },
    ],
}

MEMORY: Spec = _WIDE | {
    "description": "Median resident memory of the largest rank of each configuration",
    "height": {"step": _STEP},
    "mark": {"type": "bar", "cornerRadiusEnd": 2},
    "encoding": {
        "y": _CONFIGURATION,
        "x": _q("gibibytes", title="GiB"),
        "color": _frameworks(),
        "tooltip": _tooltip("configuration gibibytes:Q runs:Q"),
    },
}

OVERVIEW: Spec = _WIDE | {
    "description": "Median seconds end to end of every case, and what others have published, on a logarithmic scale",
    "height": {"step": 22},
    "encoding": {
        "y": _n("what", title=None, sort=None, axis={"labelLimit": 360, "grid": True}),
        "color": _frameworks(columns=3),
    },
    "layer": [
        {
            "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
            "encoding": {"x": _q("low"), "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "size": 90, "filled": True},
            "encoding": {
                "x": _q("seconds", title="seconds", scale={"type": "log"}, axis={"format": "~s"}),
                "shape": _n(
                    "whose",
                    scale={"domain": ["measured", "published"], "range": ["circle", "diamond"]},
                    legend={"title": None, "orient": "top"},
                ),
                "opacity": {"condition": {"test": "datum.whose === 'published'", "value": 0.5}, "value": 1},
                "tooltip": _tooltip("what framework whose seconds:Q low:Q high:Q"),
            },
        },
    ],
}

SHARES: Spec = _WIDE | {
    "description": "Median seconds of each phase of each configuration, stacked",
    "height": {"step": _STEP},
    "mark": {"type": "bar", "cornerRadius": 1},
    "encoding": {
        "y": _CONFIGURATION,
        "x": _q("seconds", title="seconds", stack="zero"),
        "color": _colour("phase", {phase: theme.PHASES[phase] for phase in PHASES}),
        "order": _q("place"),
        "tooltip": _tooltip("configuration phase seconds:Q"),
    },
}

_PALE = {"condition": {"test": "datum.cores === 'shared'", "value": 0.3}, "value": 1}
"""The shapes of points whose ranks have their own cores, and of those whose ranks share them."""
_RANKS = _q("at", title="ranks", axis={"labelExpr": _WHOLE, "grid": False}, scale={"nice": False, "padding": 24})
_CLOCK = _n("clock", scale={"domain": ["total", "compute"], "range": ["circle", "diamond"]}, legend=_TIMERS)
_AT_ONE = {"mark": {"type": "rule", "strokeDash": [2, 3], "color": "#888888"}}
_ACROSS = {"x": {"value": 0}, "x2": {"value": "width"}}

SPEEDUPS: Spec = _WIDE | {
    "description": "Speed-up against one process by number of ranks; the rising line is as large as the ranks",
    "height": 220,
    "encoding": {"x": _RANKS},
    "layer": [
        {
            "mark": {"type": "line", "strokeDash": [4, 4], "opacity": 0.5, "color": "#888888"},
            "transform": _where("ideal"),
            "encoding": {"y": _q("ideal")},
        },
        _AT_ONE | {"encoding": {"y": {"datum": 1}, **_ACROSS}},
        {
            "transform": _where("speedup"),
            "mark": {"type": "point", "size": 80, "filled": True},
            "encoding": {
                "y": _q("speedup", title="times as fast as one process"),
                "color": _frameworks(PARALLEL),
                "shape": _CLOCK,
                "opacity": _PALE,
                "tooltip": _tooltip("framework workers:Q cores clock speedup:Q low:Q high:Q efficiency:Q"),
            },
        },
        {
            "transform": _where("speedup"),
            "mark": {"type": "line", "opacity": 0.6},
            "encoding": {"y": _q("speedup"), "detail": {"field": "clock"}, "color": _frameworks(PARALLEL)},
        },
        {
            "transform": _where("low"),
            "mark": {"type": "rule", "opacity": 0.7},
            "encoding": {"y": _q("low"), "y2": {"field": "high"}, "color": _frameworks(PARALLEL)},
        },
    ],
}

EFFICIENCY: Spec = _WIDE | {
    "description": "Speed-up against one process divided by the number of ranks; 1 is the ideal",
    "height": 180,
    "encoding": {
        "x": _RANKS,
        "y": _q("efficiency", title="share of the ideal", axis={"format": "%"}),
        "color": _frameworks(PARALLEL),
    },
    "layer": [
        {"mark": {"type": "line", "opacity": 0.6}, "encoding": {"detail": {"field": "clock"}}},
        {
            "mark": {"type": "point", "size": 80, "filled": True},
            "encoding": {
                "shape": _CLOCK,
                "opacity": _PALE,
                "tooltip": _tooltip("framework workers:Q cores clock efficiency:Q low:Q high:Q"),
            },
        },
        {"mark": {"type": "rule", "opacity": 0.7}, "encoding": {"y": _q("low"), "y2": {"field": "high"}}},
        _AT_ONE | {"encoding": {"y": {"datum": 1}, **_ACROSS, "color": {"value": "#888888"}}},
    ],
}

_MILLISECONDS = _q("milliseconds", title="milliseconds of a task", scale={"type": "log"}, axis={"format": "~g"})

OVERHEAD: Spec = _WIDE | {
    "description": "The cost of a task beyond its own time, by its length, on logarithmic scales",
    "height": 220,
    "encoding": {
        "x": _MILLISECONDS,
        "y": _q("overhead", title="milliseconds beyond it", scale={"type": "log"}, axis={"format": "~g"}),
        "color": _frameworks(PARALLEL),
        "detail": {"field": "configuration"},
    },
    "layer": [
        {"mark": {"type": "line", "opacity": 0.6}},
        {
            "mark": {"type": "point", "size": 70, "filled": True},
            "encoding": {"opacity": _PALE, "tooltip": _tooltip("configuration cores milliseconds:Q overhead:Q")},
        },
    ],
}

CROSSING: Spec = _WIDE | {
    "description": "Speed as a multiple of one process, by the length of a task, on logarithmic scales",
    "height": 220,
    "encoding": {
        "x": _MILLISECONDS,
        "y": _q("times", title="times as fast as one process", scale={"type": "log"}, axis={"format": "~g"}),
        "color": _frameworks(PARALLEL),
    },
    "layer": [
        {
            "mark": {"type": "line", "opacity": 0.6},
            "encoding": {"detail": [{"field": "configuration"}, {"field": "clock"}]},
        },
        {
            "mark": {"type": "point", "size": 70, "filled": True},
            "encoding": {
                "shape": _CLOCK,
                "opacity": _PALE,
                "tooltip": _tooltip("configuration cores clock milliseconds:Q times:Q"),
            },
        },
        _AT_ONE | {"encoding": {"y": {"datum": 1}, **_ACROSS, "color": {"value": "#888888"}}},
    ],
}

THREADS: Spec = _WIDE | {
    "description": "Seconds end to end over ranks, compared with single threads that do the same work otherwise",
    "height": 240,
    "encoding": {"y": _q("seconds", title="seconds end to end", scale={"type": "log"}, axis={"format": "~g"})},
    "layer": [
        {"transform": _where("method"), "mark": {"type": "rule", "strokeDash": [6, 4], "color": "#888888"}},
        {
            "transform": _where("method"),
            "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -3},
            "encoding": {"x": {"value": "width"}, "text": {"field": "method"}},
        },
        {
            "transform": _where("workers"),
            "mark": {"type": "line", "opacity": 0.6},
            "encoding": {"x": {**_RANKS, "field": "workers"}, "color": _frameworks(PARALLEL)},
        },
        {
            "transform": _where("workers"),
            "mark": {"type": "point", "size": 70, "filled": True},
            "encoding": {
                "x": {**_RANKS, "field": "workers"},
                "color": _frameworks(PARALLEL),
                "opacity": _PALE,
                "tooltip": _tooltip("framework workers:Q cores seconds:Q"),
            },
        },
    ],
}

_KIND = _n(
    "batch",
    scale={"domain": ["shared batch", "growing batch"], "range": [[1, 0], [5, 4]]},
    legend={"title": None, "orient": "top", "symbolType": "stroke"},
)
_ALONE = {"condition": {"test": "datum.alone", "value": 1}, "value": 0}
"""A layer of every row, most of which it does not show: Vega warns of one that is empty."""
_OVER_RANKS = {"x": {**_RANKS, "field": "at"}, "color": _frameworks()}

SCALING: Spec = _WIDE | {
    "description": "Median seconds end to end over ranks, with a batch that they share and one that grows with them",
    "height": 240,
    "layer": [
        {
            "mark": {"type": "rule", "strokeDash": [2, 3], "strokeWidth": 1.5},
            "encoding": {"y": _q("level"), "color": _frameworks(), "opacity": _ALONE},
        },
        {
            "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -3},
            "encoding": {
                "x": {"value": "width"},
                "y": _q("level"),
                "text": {"field": "configuration"},
                "opacity": _ALONE,
            },
        },
        {
            "transform": _where("seconds"),
            "mark": {"type": "line", "opacity": 0.7},
            "encoding": {
                **_OVER_RANKS,
                "y": _q("seconds", title="seconds end to end"),
                "strokeDash": _KIND,
                "detail": {"field": "series"},
            },
        },
        {
            "transform": _where("seconds"),
            "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.7},
            "encoding": {**_OVER_RANKS, "y": _q("from"), "y2": {"field": "to"}},
        },
        {
            "transform": _where("seconds"),
            "mark": {"type": "point", "size": 70, "filled": True},
            "encoding": {
                **_OVER_RANKS,
                "y": _q("seconds"),
                "opacity": _PALE,
                "tooltip": _tooltip("configuration series cores seconds:Q low:Q high:Q runs:Q"),
            },
        },
    ],
}

LEARNING: Spec = _WIDE | {
    "description": "Accuracy over the seconds since the ranks were ready, of each configuration of a study",
    "height": 260,
    "mark": {"type": "line", "point": {"size": 30, "filled": True}},
    "encoding": {
        "x": _q("seconds", title="seconds since ready"),
        "y": _q("accuracy", title="accuracy", axis={"format": "%"}, scale={"zero": False}),
        "color": _n(
            "configuration", sort=None, legend={"title": None, "orient": "top", "columns": 2, "labelLimit": 300}
        ),
        "strokeDash": {"condition": {"test": "datum.single", "value": [5, 4]}, "value": [1, 0]},
        "detail": {"field": "run"},
        "tooltip": _tooltip("configuration seconds:Q accuracy:Q run"),
    },
}

HISTORY: Spec = _WIDE | {
    "description": "Seconds of each session over time, and the level between changes",
    "height": 220,
    "encoding": {
        "x": {"field": "day", "type": "temporal", "title": None},
        "color": _frameworks(),
        "detail": [{"field": "configuration"}, {"field": "stretch"}],
    },
    "layer": [
        {"mark": {"type": "line", "interpolate": "linear"}, "encoding": {"y": _q("level", title="seconds")}},
        {
            "mark": {"type": "point", "filled": True, "size": 40},
            "encoding": {
                "y": _q("seconds", title="seconds"),
                "tooltip": _tooltip("configuration day:T seconds:Q runs:Q"),
            },
        },
    ],
}

LAPS: Spec = _WIDE | {
    "description": "Seconds of each epoch or iteration",
    "height": 200,
    "encoding": {
        "x": _q("repetition", title="repetition", axis={"labelExpr": _WHOLE}),
        "color": _frameworks(),
        "detail": [{"field": "configuration"}, {"field": "what"}],
    },
    "layer": [
        {
            "mark": {"type": "area", "opacity": 0.15},
            "encoding": {"y": _q("low", title="seconds"), "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "line", "point": {"size": 40, "filled": True}},
            "encoding": {
                "y": _q("seconds", title="seconds"),
                "tooltip": _tooltip("configuration what repetition:Q seconds:Q runs:Q"),
            },
        },
    ],
}

PROGRESS: Spec = _WIDE | {
    "description": "Loss or residual over the seconds since the rank was ready",
    "height": 200,
    "mark": {"type": "line", "point": {"size": 30, "filled": True}},
    "encoding": {
        "x": _q("seconds", title="seconds since ready"),
        "y": _q("value", title="loss or residual", scale={"type": "symlog"}),
        "color": _frameworks(),
        "detail": [{"field": "run"}, {"field": "what"}],
        "tooltip": _tooltip("configuration what done:Q seconds:Q value:Q"),
    },
}

ACCURACY: Spec = PROGRESS | {
    "description": "Accuracy over the seconds since the rank was ready",
    "encoding": PROGRESS["encoding"] | {"y": _q("value", title="accuracy", scale={"zero": False})},
}

TIMELINE: Spec = _WIDE | {
    "description": "The work of each rank from the request to the end of the run",
    "height": {"step": 24},
    "mark": {"type": "bar", "cornerRadius": 1},
    "encoding": {
        "y": _n("rank", title=None, sort={"field": "place"}),
        "x": _q("start", title="seconds since the run was asked for"),
        "x2": {"field": "end"},
        "color": _colour("phase", theme.PHASES),
        "tooltip": _tooltip("rank node phase seconds:Q"),
    },
}

CHANGES: Spec = _WIDE | {
    "description": "Time now divided by time before, with 95 % interval",
    "height": {"step": 24},
    "encoding": {"y": _n("what", title=None, sort=None, axis={"labelLimit": 280})},
    "layer": [
        {
            "mark": {"type": "rule", "strokeDash": [3, 3]},
            "encoding": {"x": {"datum": 1}, "y": {"value": 0}, "y2": {"value": "height"}},
        },
        {
            "transform": _where("low"),
            "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.7},
            "encoding": {"x": _q("low"), "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {
                "x": _q("ratio", title="time now / time before", scale={"zero": False}),
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
                "tooltip": _tooltip("case what ratio:Q low:Q high:Q verdict"),
            },
        },
    ],
}

ITERATIONS: Spec = _WIDE | {
    "description": "Mean seconds of an iteration as the computation continues",
    "height": 200,
    "mark": {"type": "line", "interpolate": "step-before", "point": {"size": 40, "filled": True}},
    "encoding": {
        "x": _q("iteration", title="iteration", axis={"labelExpr": _WHOLE}),
        "y": _q("seconds", title="seconds"),
        "color": _frameworks(),
        "detail": [{"field": "configuration"}],
        "tooltip": _tooltip("configuration iteration:Q seconds:Q run"),
    },
}

SEARCH: Spec = _WIDE | {
    "description": "What each trial of a search came to, and the best until then",
    "height": 200,
    "encoding": {
        "x": _q("trial", title="trial", axis={"labelExpr": _WHOLE}, scale={"zero": False}),
        "color": _frameworks(),
        "detail": [{"field": "configuration"}],
    },
    "layer": [
        {
            "mark": {"type": "point", "filled": True, "size": 50},
            "encoding": {
                "y": _q("value", title="value", scale={"zero": False}),
                "tooltip": _tooltip("configuration metric trial:Q value:Q best:Q"),
            },
        },
        {
            "mark": {"type": "line", "interpolate": "step-after", "opacity": 0.6},
            "encoding": {"y": _q("best", title="value", scale={"zero": False})},
        },
    ],
}
