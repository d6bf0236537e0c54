"""Colours of charts on a light and on a dark page."""

import zlib
from collections.abc import Iterable
from typing import Any

FRAMEWORKS = {
    "single": "#8d96a3",
    "torch": "#e0632a",
    "ray": "#2f7fe0",
    "multiprocessing": "#3f9b63",
    "processes": "#8fbf5a",
    "joblib-loky": "#c79a1e",
    "ray-actors": "#1b4f9c",
    "ray-pool": "#6a5acd",
    "joblib-ray": "#a14fb5",
    "zeromq": "#d0567a",
    "dask": "#f2a65a",
    "mpi": "#7f6bb3",
    "ray-tune": "#17989c",
    "spark": "#c2553d",
    "tensorflow": "#b58900",
    "ray-tensorflow": "#859900",
}
"""Colours of frameworks, in the order in which they are shown. Others come behind them, by name, in spare colours."""
_PLACES = {name: place for place, name in enumerate(FRAMEWORKS)}
SPARE = ("#8e5bd1", "#17a2a2", "#c2387e", "#8a9a1b", "#a8703a", "#4a5fb5")
"""Of other frameworks: the name says which."""
PHASES = {
    "sync": "#a9b4c2",
    "launch": "#7b8794",
    "rendezvous": "#b277a6",
    "load": "#4fa3d9",
    "compute": "#2c9e64",
    "wait": "#d8c9a3",
    "collect": "#e2a03f",
}
"""Chosen to differ in lightness too, so that they can be told apart without colour."""

_LIGHT = {"ink": "#1c2128", "muted": "#57606a", "grid": "#e4e8ed"}
_DARK = {"ink": "#e4e8ee", "muted": "#9aa5b1", "grid": "#2c333d"}
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def order(framework: str) -> tuple[int, str]:
    """A framework's place among others: to sort by."""
    return _PLACES.get(framework, len(_PLACES)), framework


def ordered(frameworks: Iterable[str]) -> list[str]:
    """Frameworks, each once, in the order in which they are shown."""
    return sorted(set(frameworks), key=order)


def of_frameworks(names: Iterable[str]) -> dict[str, str]:
    """A colour for each framework, in their order; one that has none has a spare one, always the same by itself."""
    found: dict[str, str] = {}
    for name in ordered(names):
        first = zlib.crc32(name.encode()) % len(SPARE)
        spare = (SPARE[(first + step) % len(SPARE)] for step in range(len(SPARE)))
        found[name] = FRAMEWORKS.get(name) or next(
            (colour for colour in spare if colour not in found.values()), SPARE[first]
        )
    return found


def config(*, dark: bool) -> dict[str, Any]:
    """Vega-Lite's configuration for one of the two."""
    colours = _DARK if dark else _LIGHT
    text = {"labelColor": colours["muted"], "titleColor": colours["muted"], "labelFontSize": 12, "titleFontSize": 12}
    return {
        "font": _FONT,
        "background": "transparent",
        "view": {"stroke": None},
        "axis": text
        | {
            "gridColor": colours["grid"],
            "domainColor": colours["grid"],
            "tickColor": colours["grid"],
            "titleFontWeight": "normal",
            "labelLimit": 160,
            "labelSeparation": 6,
        },
        "legend": text
        | {"titleFontWeight": "normal", "symbolType": "square", "labelLimit": 160}
        | {"symbolBaseFillColor": colours["muted"], "symbolBaseStrokeColor": colours["muted"], "symbolOpacity": 1},
        "header": {"labelColor": colours["ink"], "labelFontSize": 12, "labelFontWeight": "bold", "titleFontSize": 0},
        "rule": {"color": colours["ink"]},
        "text": {"color": colours["ink"]},
        "title": {"color": colours["ink"], "subtitleColor": colours["muted"]},
    }
