"""The work of one rank: map the prepared rows, train a linear model with the others, count what it gets right."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workloads.common import storage, training
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder
from workloads.stars import csvfile, prepare

_MANIFEST = "made-of.json"


@dataclass(frozen=True)
class Options(training.Schedule):
    """The parameters of a run. `data`: a CSV file, a prepared folder, or ``generated`` with its `size`."""

    data: str
    size: int
    least_correlation: float
    most_correlation: float
    label: str | None = None
    bad_rows: str = csvfile.REFUSE


class Part:
    """One rank of the training."""

    def __init__(self, options: Options, ranks: Ranks) -> None:

        self._options, self._ranks = options, ranks
        training.use_threads_of_environment()

    def load(self, folder: HostFolder | None) -> None:
        """Prepare the rows, or map what another rank of this host has prepared."""
        import tempfile

        if folder is None:
            with tempfile.TemporaryDirectory() as made:
                self._build(Path(made))
                self._open(Path(made))
            return
        name = hashlib.sha256(repr(self._options).encode()).hexdigest()
        folder.once(f"rows-{name[:16]}", self._build, self._open)

    def _build(self, empty: Path) -> None:
        options = self._options
        ready = Path(options.data)
        if not storage.is_remote(options.data) and (ready / prepare.MANIFEST).is_file():
            made = ready
        else:
            choice = prepare.Choice(options.least_correlation, options.most_correlation, options.seed)
            if options.data == "generated":
                prepare.prepare(prepare.blocks_made_up(options.size, options.seed), empty, choice, options.data)
            else:
                prepare.of_csv(options.data, empty, choice, options.label, options.bad_rows)
            made = empty
        shutil.copy(made / prepare.MANIFEST, empty / _MANIFEST)
        for part in ("train", "test"):
            prepare.unpack(made, part, empty)

    def _open(self, folder: Path) -> None:
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="c")
            for name in ("train-features", "train-labels", "test-features", "test-labels")
        }
        self._manifest = json.loads((folder / _MANIFEST).read_text())
        self._train = arrays["train-features"], arrays["train-labels"]
        self._test = arrays["test-features"], arrays["test-labels"]

    def compute(self) -> None:
        """Train, then test."""
        options, ranks = self._options, self._ranks
        torch.manual_seed(options.seed)
        classes = len(self._manifest.get("classes", prepare.CLASSES))
        two = classes == 2
        model = torch.nn.Linear(self._train[0].shape[1], 1 if two else classes)
        optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate, fused=True)
        rows = len(self._train[1])
        made = training.train_and_test(
            model,
            optimizer,
            torch.nn.functional.binary_cross_entropy_with_logits if two else torch.nn.functional.cross_entropy,
            _right_of_two if two else lambda scores, labels: scores.argmax(1) == labels,
            (_batches(*self._train, two=two), rows),
            (_batches(*self._test, two=two), len(self._test[1])),
            options,
            ranks,
        )
        self._made = {
            **made,
            "left": prepare.said(self._manifest),
            "answer": {"rows": rows, "features": model.in_features, **made["answer"]},
        }

    def answer(self) -> dict[str, Any]:
        """Sizes, how many test rows are right, loss of each epoch, norm of the weights; next to it their checksum."""
        return self._made


def _right_of_two(scores: Tensor, labels: Tensor) -> Tensor:
    return (scores > 0) == (labels > 0.5)


def _batches(features: NDArray[np.float32], labels: NDArray[np.uint8], *, two: bool) -> training.Batch:
    """Rows -> features (k, f) and labels: of `two` classes (k, 1), float, else (k,), int64."""
    every, classes = torch.from_numpy(features), torch.from_numpy(labels)

    def batch(rows: Tensor) -> tuple[Tensor, Tensor]:
        return every[rows], classes[rows].float()[:, None] if two else classes[rows].long()

    return batch


def combine(parts: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The ranks' answers, which are one and the same, and lines for a person."""
    answer, said = training.combine(parts, "rows")
    return answer, [f"stars: {answer['rows']:,} rows of {answer['features']} features", *parts[0]["left"], *said]


def tolerance(options: Options) -> dict[str, float]:
    """See :func:`training.tolerance`."""
    return training.tolerance(options, training.TOLERANCE)
