"""A small training that ranks share: ``python sharing.py FRAMEWORK {json}``; the answer has all weights."""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workloads.common import events, framework, training
from workloads.common.networks.norm import GroupedNorm
from workloads.common.parallel import named
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder

ROWS, TESTS, SIDE, CLASSES = 100, 30, 8, 4
DEFAULTS = {
    "epochs": 2,
    "batch": 16,
    "learning_rate": 0.1,
    "scale_batch": None,
    "seed": 1,
    "checkpoint": None,
    "checkpoint_every": 0,
    "accumulate": 1,
    "staleness": 1,
    "microbatches": 4,
}
OWN = {"norm": False, "frozen": 0, "dies": None, "at": 5, "norm_groups": 1}


class Small:
    """Pictures of four classes by a few layers. `dies`: the rank that is killed when it makes its batch number `at`."""

    def __init__(self, given: dict[str, Any], ranks: Ranks) -> None:
        self._own = {name: given.get(name, value) for name, value in OWN.items()}
        asked = {name: value for name, value in given.items() if name not in OWN}
        self._schedule = named.Schedule(**{**DEFAULTS, **asked})
        self._ranks, self._batches = ranks, 0
        self._way = named.way(self._schedule)
        training.use_threads_of_environment()

    def load(self, folder: HostFolder | None) -> None:
        drawn = torch.Generator().manual_seed(0)
        self._labels = torch.randint(CLASSES, (ROWS + TESTS,), generator=drawn)
        patterns = torch.randn(CLASSES, 1, SIDE, SIDE, generator=drawn)
        self._inputs = patterns[self._labels] + 0.5 * torch.randn(ROWS + TESTS, 1, SIDE, SIDE, generator=drawn)

    def model(self) -> nn.Module:
        torch.manual_seed(2)
        groups = named.groups(self._schedule, self._own["norm_groups"], self._ranks.world)
        norm = GroupedNorm(6, groups) if self._own["norm"] else nn.Identity()
        made = nn.Sequential(
            nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), norm, nn.ReLU(inplace=True), nn.MaxPool2d(2)),
            nn.Flatten(),
            nn.Linear(6 * 16, 24),
            nn.ReLU(),
            nn.Linear(24, CLASSES),
        )
        for weight in [*made.parameters()][: self._own["frozen"]]:
            weight.requires_grad_(False)
        return made

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        self._batches += 1
        if self._own["dies"] == self._ranks.rank and self._batches == self._own["at"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._inputs[rows], self._labels[rows]

    def compute(self) -> None:
        model = self.model()
        given = [weight for weight in model.parameters() if weight.requires_grad]
        self._made = training.train_and_test(
            model,
            torch.optim.SGD(given, lr=self._schedule.learning_rate, momentum=0.9, fused=True),
            nn.functional.cross_entropy,
            lambda scores, labels: scores.argmax(1) == labels,
            (self.batch, ROWS),
            (lambda rows: (self._inputs[ROWS + rows], self._labels[ROWS + rows]), TESTS),
            self._schedule,
            self._ranks,
            test_rows=8,
            way=self._way,
        )
        self._state = {name: value.ravel().tolist() for name, value in model.state_dict().items() if not value.is_meta}
        self._kept = sum(value.nbytes for value in model.state_dict().values() if not value.is_meta)

    def answer(self) -> dict[str, Any]:
        return {**self._made, "kept": self._kept, "state": self._state}


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    from sharing import Small as Imported

    try:
        make = functools.partial(Imported, json.loads(sys.argv[2]))
        with framework.load(sys.argv[1]).answers(make, grouped="train", restarts=0) as answers:
            if answers is not None:
                answer, said = training.combine(answers, "pictures")
                state = {name: value for one in answers for name, value in one["state"].items()}
                events.result({**answer, "kept": [one["kept"] for one in answers], "state": state}, {}, said)
    except events.BadInput as error:
        events.bad_input(error)
