"""Colours of charts on a light and on a dark page."""

import zlib
from collections.abc import Iterable
from typing import Any

from regatta.frameworks import registry

SPARE = ("#8e5bd1", "#17a2a2", "#c2387e", "#8a9a1b", "#a8703a", "#4a5fb5")
"""Of frameworks that bring no colour: the name says which."""
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


def of_frameworks(names: Iterable[str]) -> dict[str, str]:
    """A colour for each framework, in their order; one that brings none has a spare one, always the same by itself."""
    found: dict[str, str] = {}
    for name in registry.ordered(names):
        first = zlib.crc32(name.encode()) % len(SPARE)
        spare = (SPARE[(first + step) % len(SPARE)] for step in range(len(SPARE)))
        own = registry.of_run(name).colour
        found[name] = own or next((colour for colour in spare if colour not in found.values()), SPARE[first])
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
