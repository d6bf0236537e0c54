"""Which points are in a circle: a network of one hidden layer, in plain Python."""

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

SHAPES = {
    "tanh": (math.tanh, lambda given: 1 - given * given),
    "relu": (lambda x: max(x, 0.0), lambda given: float(given > 0)),
}


def train(rate: float, width: int, shape: str, points: int, seed: int, folder: Path) -> Iterator[dict[str, float]]:
    """Go through the points again and again; what was learned is in the folder after each time."""
    numbers = random.Random(seed)
    data = [(numbers.uniform(-1, 1), numbers.uniform(-1, 1)) for _ in range(points)]
    bend, slope = SHAPES[shape]
    state = folder / "weights.json"
    if state.exists():  # of an earlier part of this trial, or under pbt of another one
        kept = json.loads(state.read_text())
    else:
        kept = [[numbers.gauss(0, 1) for _ in range(4)] for _ in range(width)]
    while True:
        right = 0
        for x, y in data:
            hidden = [bend(a * x + b * y + c) for a, b, c, _ in kept]
            said = 1 / (
                1 + math.exp(-max(-50.0, min(50.0, sum(h * unit[3] for h, unit in zip(hidden, kept, strict=True)))))
            )
            inside = x * x + y * y < 0.5
            right += (said > 0.5) == inside
            error = rate * (said - inside)
            for h, unit in zip(hidden, kept, strict=True):
                back = error * unit[3] * slope(h)
                unit[:] = [unit[0] - back * x, unit[1] - back * y, unit[2] - back, unit[3] - error * h]
        state.write_text(json.dumps(kept))
        yield {"accuracy": right / points}
