"""The steps: each word moves on from where it was, and a picture is drawn when its words have their places."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.common import events, graphs
from workloads.common.pictures import Film, named

PACKAGE = "workloads.render_words"
WIDTH, HEIGHT, LETTERS = 320, 200, 26
SHOWN_MS = 200
FILE = Path("words.gif")
Place = tuple[float, float]
WORDS: Mapping[str, tuple[Place, Place]] = {
    "Data": ((20.0, 10.0), (160.0, 60.0)),
    "Value": ((300.0, 100.0), (160.0, 100.0)),
    "Consulting": ((20.0, 190.0), (160.0, 140.0)),
}
"""The middle of each at first, at an edge, and in the end."""


@dataclass(frozen=True)
class Options:
    """The parameters of a run: so many `pictures`; `seconds` of a step."""

    pictures: int
    seconds: float


@dataclass(frozen=True)
class Move:
    """Moves a word on, slowly."""

    seconds: float

    def __call__(self, at: Place, to: Place, left: int) -> Place:
        """The next of the `left` places that lead there from here, in equal steps."""
        time.sleep(self.seconds)
        return at[0] + (to[0] - at[0]) / left, at[1] + (to[1] - at[1]) / left


@dataclass(frozen=True)
class Draw:
    """Draws a picture, slowly."""

    seconds: float

    def __call__(self, *places: Place) -> bytes:
        """The picture, as rows of red, green and blue."""
        from PIL import Image, ImageDraw, ImageFont

        time.sleep(self.seconds)
        image = Image.new("RGB", (WIDTH, HEIGHT), "white")
        pen, font = ImageDraw.Draw(image), ImageFont.load_default(LETTERS)
        for word, place in zip(WORDS, places, strict=True):
            pen.text(place, word, fill="navy", font=font, anchor="mm")
        return bytes(image.tobytes())


def film(graph: graphs.Graph, options: Options) -> Film:
    """All pictures: a word's place needs the one before it, so that pictures are drawn while words move on."""
    move, draw = Move(options.seconds), Draw(options.seconds)
    places: list[Any] = [first for first, _ in WORDS.values()]
    drawn = []
    for left in range(options.pictures, 0, -1):
        places = [graph.submit(move, at, to, left) for at, (_, to) in zip(places, WORDS.values(), strict=True)]
        drawn.append(graph.submit(draw, *places))
    frames = []
    for picture in drawn:
        frames.append(graph.get(picture))
        events.progress("pictures", len(frames), len(drawn))
    return Film(WIDTH, HEIGHT, frames)


def main() -> None:
    """Run with the arguments of the process; bad input ends it with status 2."""
    graphs.main(PACKAGE, _run)


def _run(given: Mapping[str, Any], _: str, graph: graphs.Graph) -> None:
    options = Options(**given)
    events.ready()
    start = time.perf_counter()
    with events.phase("compute"):
        made = film(graph, options)
    took = time.perf_counter() - start
    with events.phase("write"):
        files = [made.gif(FILE, SHOWN_MS)]
    steps = (len(WORDS) + 1) * options.pictures
    show = [
        f"words: {steps} steps of {options.seconds:g} s after {took:.2f} s",
        f"{named(files)} of the run's working directory",
    ]
    graphs.told({"pictures": options.pictures, "digest": made.digest, "files": [*map(str, files)]}, show)
