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


def _tooltip(*fields: tuple[str, str]) -> list[dict[str, str]]:
    made = []
    for name, kind in fields:
        made.append({"field": name, "type": kind} | ({"format": ".3~f"} if kind == "quantitative" else {}))
    return made


_CONFIGURATION = {"field": "configuration", "type": "nominal", "title": None, "sort": None}
_WHOLE = "datum.value % 1 ? '' : format(datum.value, 'd')"
_TIMERS = {
    "title": None,
    "orient": "top",
    "labelExpr": f"{json.dumps(clocks.LABELS)}[datum.label]",
}
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
                "color": _frameworks(),
                "opacity": {
                    "field": "clock",
                    "type": "nominal",
                    "sort": ["total", "compute"],
                    "scale": {"domain": ["total", "compute"], "range": [0.95, 0.5]},
                    "legend": _TIMERS,
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

OVERVIEW: Spec = _WIDE | {
    "description": "Median seconds end to end of every case, and what others have published, on a logarithmic scale",
    "height": {"step": 22},
    "encoding": {
        "y": {
            "field": "what",
            "type": "nominal",
            "title": None,
            "sort": None,
            "axis": {"labelLimit": 360, "grid": True},
        },
        "color": _frameworks(columns=3),
    },
    "layer": [
        {
            "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
            "encoding": {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "size": 90, "filled": True},
            "encoding": {
                "x": {"field": "seconds", **_SECONDS, "scale": {"type": "log"}, "axis": {"format": "~s"}},
                "shape": {
                    "field": "whose",
                    "type": "nominal",
                    "scale": {"domain": ["measured", "published"], "range": ["circle", "diamond"]},
                    "legend": {"title": None, "orient": "top"},
                },
                "opacity": {"condition": {"test": "datum.whose === 'published'", "value": 0.5}, "value": 1},
                "tooltip": _tooltip(
                    ("what", "nominal"),
                    ("framework", "nominal"),
                    ("whose", "nominal"),
                    ("seconds", "quantitative"),
                    ("low", "quantitative"),
                    ("high", "quantitative"),
                ),
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
        "x": {"field": "seconds", **_SECONDS, "stack": "zero"},
        "color": _colour("phase", {phase: theme.PHASES[phase] for phase in PHASES}),
        "order": {"field": "place", "type": "quantitative"},
        "tooltip": _tooltip(("configuration", "nominal"), ("phase", "nominal"), ("seconds", "quantitative")),
    },
}

_PALE = {"condition": {"test": "datum.cores === 'shared'", "value": 0.3}, "value": 1}
"""The shapes of points whose ranks have their own cores, and of those whose ranks share them."""
_RANKS = {
    "field": "at",
    "type": "quantitative",
    "title": "ranks",
    "axis": {"labelExpr": _WHOLE, "grid": False},
    "scale": {"nice": False, "padding": 24},
}
_CLOCK = {
    "field": "clock",
    "type": "nominal",
    "scale": {"domain": ["total", "compute"], "range": ["circle", "diamond"]},
    "legend": _TIMERS,
}
_AT_ONE = {"mark": {"type": "rule", "strokeDash": [2, 3], "color": "#888888"}}
_ACROSS = {"x": {"value": 0}, "x2": {"value": "width"}}

SPEEDUPS: Spec = _WIDE | {
    "description": "Speed-up against one process by number of ranks; the rising line is as large as the ranks",
    "height": 220,
    "encoding": {"x": _RANKS},
    "layer": [
        {
            "mark": {"type": "line", "strokeDash": [4, 4], "opacity": 0.5, "color": "#888888"},
            "transform": [{"filter": "isValid(datum.ideal)"}],
            "encoding": {"y": {"field": "ideal", "type": "quantitative"}},
        },
        _AT_ONE | {"encoding": {"y": {"datum": 1}, **_ACROSS}},
        {
            "transform": [{"filter": "isValid(datum.speedup)"}],
            "mark": {"type": "point", "size": 80, "filled": True},
            "encoding": {
                "y": {"field": "speedup", "type": "quantitative", "title": "times as fast as one process"},
                "color": _frameworks(PARALLEL),
                "shape": _CLOCK,
                "opacity": _PALE,
                "tooltip": _tooltip(
                    ("framework", "nominal"),
                    ("workers", "quantitative"),
                    ("cores", "nominal"),
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
                "color": _frameworks(PARALLEL),
            },
        },
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "opacity": 0.7},
            "encoding": {
                "y": {"field": "low", "type": "quantitative"},
                "y2": {"field": "high"},
                "color": _frameworks(PARALLEL),
            },
        },
    ],
}

EFFICIENCY: Spec = _WIDE | {
    "description": "Speed-up against one process divided by the number of ranks; 1 is the ideal",
    "height": 180,
    "encoding": {
        "x": _RANKS,
        "y": {"field": "efficiency", "type": "quantitative", "title": "share of the ideal", "axis": {"format": "%"}},
        "color": _frameworks(PARALLEL),
    },
    "layer": [
        {
            "mark": {"type": "line", "opacity": 0.6},
            "encoding": {"detail": {"field": "clock"}},
        },
        {
            "mark": {"type": "point", "size": 80, "filled": True},
            "encoding": {
                "shape": _CLOCK,
                "opacity": _PALE,
                "tooltip": _tooltip(
                    ("framework", "nominal"),
                    ("workers", "quantitative"),
                    ("cores", "nominal"),
                    ("clock", "nominal"),
                    ("efficiency", "quantitative"),
                ),
            },
        },
        _AT_ONE | {"encoding": {"y": {"datum": 1}, **_ACROSS, "color": {"value": "#888888"}}},
    ],
}

_MILLISECONDS = {
    "field": "milliseconds",
    "type": "quantitative",
    "title": "milliseconds of a task",
    "scale": {"type": "log"},
    "axis": {"format": "~g"},
}

OVERHEAD: Spec = _WIDE | {
    "description": "The cost of a task beyond its own time, by its length, on logarithmic scales",
    "height": 220,
    "encoding": {
        "x": _MILLISECONDS,
        "y": {
            "field": "overhead",
            "type": "quantitative",
            "title": "milliseconds beyond it",
            "scale": {"type": "log"},
            "axis": {"format": "~g"},
        },
        "color": _frameworks(PARALLEL),
        "detail": {"field": "configuration"},
    },
    "layer": [
        {"mark": {"type": "line", "opacity": 0.6}},
        {
            "mark": {"type": "point", "size": 70, "filled": True},
            "encoding": {
                "opacity": _PALE,
                "tooltip": _tooltip(
                    ("configuration", "nominal"),
                    ("cores", "nominal"),
                    ("milliseconds", "quantitative"),
                    ("overhead", "quantitative"),
                ),
            },
        },
    ],
}

CROSSING: Spec = _WIDE | {
    "description": "Speed as a multiple of one process, by the length of a task, on logarithmic scales",
    "height": 220,
    "encoding": {
        "x": _MILLISECONDS,
        "y": {
            "field": "times",
            "type": "quantitative",
            "title": "times as fast as one process",
            "scale": {"type": "log"},
            "axis": {"format": "~g"},
        },
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
                "tooltip": _tooltip(
                    ("configuration", "nominal"),
                    ("cores", "nominal"),
                    ("clock", "nominal"),
                    ("milliseconds", "quantitative"),
                    ("times", "quantitative"),
                ),
            },
        },
        _AT_ONE | {"encoding": {"y": {"datum": 1}, **_ACROSS, "color": {"value": "#888888"}}},
    ],
}

THREADS: Spec = _WIDE | {
    "description": "Seconds end to end over ranks, compared with single threads that do the same work otherwise",
    "height": 240,
    "encoding": {
        "y": {
            "field": "seconds",
            "type": "quantitative",
            "title": "seconds end to end",
            "scale": {"type": "log"},
            "axis": {"format": "~g"},
        }
    },
    "layer": [
        {
            "transform": [{"filter": "isValid(datum.method)"}],
            "mark": {"type": "rule", "strokeDash": [6, 4], "color": "#888888"},
        },
        {
            "transform": [{"filter": "isValid(datum.method)"}],
            "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -3},
            "encoding": {"x": {"value": "width"}, "text": {"field": "method"}},
        },
        {
            "transform": [{"filter": "isValid(datum.workers)"}],
            "mark": {"type": "line", "opacity": 0.6},
            "encoding": {"x": {**_RANKS, "field": "workers"}, "color": _frameworks(PARALLEL)},
        },
        {
            "transform": [{"filter": "isValid(datum.workers)"}],
            "mark": {"type": "point", "size": 70, "filled": True},
            "encoding": {
                "x": {**_RANKS, "field": "workers"},
                "color": _frameworks(PARALLEL),
                "opacity": _PALE,
                "tooltip": _tooltip(
                    ("framework", "nominal"),
                    ("workers", "quantitative"),
                    ("cores", "nominal"),
                    ("seconds", "quantitative"),
                ),
            },
        },
    ],
}

_KIND = {
    "field": "batch",
    "type": "nominal",
    "scale": {"domain": ["shared batch", "growing batch"], "range": [[1, 0], [5, 4]]},
    "legend": {"title": None, "orient": "top", "symbolType": "stroke"},
}
_ALONE = {"condition": {"test": "datum.alone", "value": 1}, "value": 0}
"""A layer of every row, most of which it does not show: Vega warns of one that is empty."""
_OVER_RANKS = {"x": {**_RANKS, "field": "at"}, "color": _frameworks()}

SCALING: Spec = _WIDE | {
    "description": "Median seconds end to end over ranks, with a batch that they share and one that grows with them",
    "height": 240,
    "layer": [
        {
            "mark": {"type": "rule", "strokeDash": [2, 3], "strokeWidth": 1.5},
            "encoding": {"y": {"field": "level", "type": "quantitative"}, "color": _frameworks(), "opacity": _ALONE},
        },
        {
            "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -3},
            "encoding": {
                "x": {"value": "width"},
                "y": {"field": "level", "type": "quantitative"},
                "text": {"field": "configuration"},
                "opacity": _ALONE,
            },
        },
        {
            "transform": [{"filter": "isValid(datum.seconds)"}],
            "mark": {"type": "line", "opacity": 0.7},
            "encoding": {
                **_OVER_RANKS,
                "y": {"field": "seconds", "type": "quantitative", "title": "seconds end to end"},
                "strokeDash": _KIND,
                "detail": {"field": "series"},
            },
        },
        {
            "transform": [{"filter": "isValid(datum.seconds)"}],
            "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.7},
            "encoding": {**_OVER_RANKS, "y": {"field": "from", "type": "quantitative"}, "y2": {"field": "to"}},
        },
        {
            "transform": [{"filter": "isValid(datum.seconds)"}],
            "mark": {"type": "point", "size": 70, "filled": True},
            "encoding": {
                **_OVER_RANKS,
                "y": {"field": "seconds", "type": "quantitative"},
                "opacity": _PALE,
                "tooltip": _tooltip(
                    ("configuration", "nominal"),
                    ("series", "nominal"),
                    ("cores", "nominal"),
                    ("seconds", "quantitative"),
                    ("low", "quantitative"),
                    ("high", "quantitative"),
                    ("runs", "quantitative"),
                ),
            },
        },
    ],
}

LEARNING: Spec = _WIDE | {
    "description": "Accuracy over the seconds since the ranks were ready, of each configuration of a study",
    "height": 260,
    "mark": {"type": "line", "point": {"size": 30, "filled": True}},
    "encoding": {
        "x": {"field": "seconds", "type": "quantitative", "title": "seconds since ready"},
        "y": {
            "field": "accuracy",
            "type": "quantitative",
            "title": "accuracy",
            "axis": {"format": "%"},
            "scale": {"zero": False},
        },
        "color": {
            "field": "configuration",
            "type": "nominal",
            "sort": None,
            "legend": {"title": None, "orient": "top", "columns": 2, "labelLimit": 300},
        },
        "strokeDash": {"condition": {"test": "datum.single", "value": [5, 4]}, "value": [1, 0]},
        "detail": {"field": "run"},
        "tooltip": _tooltip(
            ("configuration", "nominal"), ("seconds", "quantitative"), ("accuracy", "quantitative"), ("run", "nominal")
        ),
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
        {"mark": {"type": "line", "interpolate": "linear"}, "encoding": {"y": {"field": "level", **_SECONDS}}},
        {
            "mark": {"type": "point", "filled": True, "size": 40},
            "encoding": {
                "y": {"field": "seconds", **_SECONDS},
                "tooltip": _tooltip(
                    ("configuration", "nominal"),
                    ("day", "temporal"),
                    ("seconds", "quantitative"),
                    ("runs", "quantitative"),
                ),
            },
        },
    ],
}

LAPS: Spec = _WIDE | {
    "description": "Seconds of each epoch or iteration",
    "height": 200,
    "encoding": {
        "x": {"field": "repetition", "type": "quantitative", "title": "repetition", "axis": {"labelExpr": _WHOLE}},
        "color": _frameworks(),
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
                    ("repetition", "quantitative"),
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
        "color": _frameworks(),
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

ACCURACY: Spec = PROGRESS | {
    "description": "Accuracy over the seconds since the rank was ready",
    "encoding": PROGRESS["encoding"]
    | {"y": {"field": "value", "type": "quantitative", "title": "accuracy", "scale": {"zero": False}}},
}

TIMELINE: Spec = _WIDE | {
    "description": "The work of each rank from the request to the end of the run",
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

ITERATIONS: Spec = _WIDE | {
    "description": "Mean seconds of an iteration as the computation continues",
    "height": 200,
    "mark": {"type": "line", "interpolate": "step-before", "point": {"size": 40, "filled": True}},
    "encoding": {
        "x": {"field": "iteration", "type": "quantitative", "title": "iteration", "axis": {"labelExpr": _WHOLE}},
        "y": {"field": "seconds", **_SECONDS},
        "color": _frameworks(),
        "detail": [{"field": "configuration"}],
        "tooltip": _tooltip(
            ("configuration", "nominal"), ("iteration", "quantitative"), ("seconds", "quantitative"), ("run", "nominal")
        ),
    },
}

SEARCH: Spec = _WIDE | {
    "description": "What each trial of a search came to, and the best until then",
    "height": 200,
    "encoding": {
        "x": {
            "field": "trial",
            "type": "quantitative",
            "title": "trial",
            "axis": {"labelExpr": _WHOLE},
            "scale": {"zero": False},
        },
        "color": _frameworks(),
        "detail": [{"field": "configuration"}],
    },
    "layer": [
        {
            "mark": {"type": "point", "filled": True, "size": 50},
            "encoding": {
                "y": {"field": "value", "type": "quantitative", "title": "value", "scale": {"zero": False}},
                "tooltip": _tooltip(
                    ("configuration", "nominal"),
                    ("metric", "nominal"),
                    ("trial", "quantitative"),
                    ("value", "quantitative"),
                    ("best", "quantitative"),
                ),
            },
        },
        {
            "mark": {"type": "line", "interpolate": "step-after", "opacity": 0.6},
            "encoding": {"y": {"field": "best", "type": "quantitative", "title": "value", "scale": {"zero": False}}},
        },
    ],
}
