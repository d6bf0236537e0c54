"""Checkpoints are read from where any run may write: what is in them is believed only as far as it can be checked."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from workloads.common import training
from workloads.common.events import BadInput
from workloads.common.ranks import Ranks

ALONE = Ranks(0, 1, 0, 1)


def train(checkpoint: Path, epochs: int) -> list[float]:
    torch.manual_seed(1)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = training.Schedule(epochs, 4, 0.1, None, 1, str(checkpoint), 1, 1)

    def batch(rows: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ones(len(rows), 3), torch.zeros(len(rows), 2)

    return training.fit(training.Work(model, optimizer, nn.functional.mse_loss, batch, 8, schedule, ALONE))


def crafted(layout: str) -> Tensor:
    """A sparse tensor of 2 x 3 whose index says that it has far more columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if layout == "coo":
            return torch.sparse_coo_tensor(
                torch.tensor([[0], [900_000]]), torch.ones(1), (2, 3), check_invariants=False
            )
        rows, columns = torch.tensor([0, 1, 1]), torch.tensor([900_000])
        return torch.sparse_csr_tensor(rows, columns, torch.ones(1), (2, 3), check_invariants=False)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_a_crafted_sparse_tensor_is_refused(tmp_path: Path, layout: str, zipped: bool) -> None:
    checkpoint = tmp_path / "saved.pt"
    losses = train(checkpoint, 1)
    state = torch.load(checkpoint, weights_only=True)
    state["model"]["weight"] = crafted(layout)
    kept = io.BytesIO()
    torch.save(state, kept, _use_new_zipfile_serialization=zipped)
    checkpoint.write_bytes(kept.getvalue())
    assert torch.load(checkpoint, weights_only=True)["model"]["weight"].layout != torch.strided
    with pytest.raises(BadInput, match=f"{re.escape(str(checkpoint))}: not a checkpoint"):
        train(checkpoint, 2)
    assert losses and not torch.sparse.check_sparse_tensor_invariants.is_enabled()
