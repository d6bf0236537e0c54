"""Data-parallel training of a model on tensors, by the same function under every framework.

The data are whole on every host, or have at least the rows that it is shown, and are sliced by batch. Each epoch is
shuffled again over all ranks by the seed, so the same seed and number of ranks give the same weights, whoever started
the ranks.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from workloads.common import eager, events, gradients, storage
from workloads.common.events import BadInput
from workloads.common.ranks import Ranks

eager.without_compiler()

Batch = Callable[[Tensor], "tuple[Tensor, Tensor]"]
"""Rows int64 (k,) -> the inputs (k, ...) and targets (k, ...) of these rows, ready for the model and the loss."""

TOLERANCE = {"accuracy": 0.01, "right": 1e9, "test_loss": 0.01, "losses": 0.01, "weights": 0.1}
"""Differences that are allowed between runs of equal global batches; where the number of ranks is equal too, nothing
does.
"""

_APPROXIMATE = {"accuracy": 0.1, "test_loss": 0.3, "losses": 0.3, "weights": 1.0}
"""Where gradients are approximated: 0.07 of a loss of 1.1 was seen."""
_SEED_STRIDE = 1_000_003
_BATCHES_AT_ONCE = 32
TEST_ROWS = 4096
"""The number of rows that are tested at once, where a workload says nothing else."""


@dataclass(frozen=True)
class Schedule:
    """`batch`: rows a rank and batch; a step has `accumulate` batches and one exchange of gradients.

    `checkpoint`: where rank 0 writes its state every `checkpoint_every` epochs.

    `scale_batch`: grow the learning rate to as many times its value, 0: times the ranks, in equal steps over the first
    epoch (P. Goyal et al., "Accurate, large minibatch SGD", 2017); None: leave it.

    `elastic`: the number of ranks that `batch` is meant for, whose checkpoints any number of ranks takes over; 0: any,
    and only as many ranks do.

    `test_every`: after so many epochs the model is tested, and not only at the end; 0: it is not.

    `compress`: how gradients are sent (:mod:`workloads.common.gradients`).
    """

    epochs: int
    batch: int
    learning_rate: float
    scale_batch: int | None
    seed: int
    checkpoint: str | None
    checkpoint_every: int
    accumulate: int
    elastic: int = field(default=0, kw_only=True)
    test_every: int = field(default=0, kw_only=True)
    compress: str = field(default=gradients.NONE, kw_only=True)


def tolerance(schedule: Schedule, own: Mapping[str, float]) -> dict[str, float]:
    """Return what may differ between two runs, where `own` may if gradients are sent as they are."""
    if schedule.compress != gradients.POWERSGD:
        return dict(own)
    return {**own, **{name: max(own.get(name, 0.0), least) for name, least in _APPROXIMATE.items()}}


def use_threads_of_environment() -> None:
    """Let torch use ``OMP_NUM_THREADS`` threads, also where another library set its number first."""
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads:
        torch.set_num_threads(int(threads))


def device(ranks: Ranks) -> torch.device:
    """The GPU of this rank where its host has one for each of its ranks, else the CPU.

    There cuDNN and cuBLAS take algorithms that always give the same weights: with the others two runs of cifar ended
    with losses of 0.87 and 1.12.
    """
    if ranks.local_world > torch.cuda.device_count():
        return torch.device("cpu")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.deterministic = True
    torch.cuda.set_device(ranks.local_rank)
    return torch.device("cuda", ranks.local_rank)


def growth(schedule: Schedule, ranks: Ranks) -> int:
    """Return how many times the learning rate grows over the first epoch; 1: it does not."""
    return 1 if schedule.scale_batch is None else schedule.scale_batch or schedule.elastic or ranks.world


def shared_out(schedule: Schedule, ranks: Ranks) -> Schedule:
    """The schedule of one rank where there are more or fewer than it is meant for: as many rows a step as whole rows
    allow."""
    if not schedule.elastic:
        return schedule
    return replace(schedule, batch=max(1, round(schedule.batch * schedule.elastic / ranks.world)))


def check_rows(rows: int, ranks: Ranks) -> None:
    """Raise :class:`BadInput` for more ranks than rows."""
    if rows < ranks.world:
        raise BadInput(f"{ranks.world} ranks for {rows} rows to train on: take fewer --workers or more rows")


def rows_of_rank(rows: int, epoch: int, seed: int, ranks: Ranks) -> Tensor:
    """This rank's rows of an epoch in their order, int64 (rows // world,): up to world - 1 rows wait for another."""
    random = torch.Generator().manual_seed(seed * _SEED_STRIDE + epoch)
    return torch.randperm(rows, generator=random)[ranks.rank :: ranks.world][: rows // ranks.world]


def rows_shown(rows: int, schedule: Schedule, ranks: Ranks) -> NDArray[np.bool_]:
    """Which of the rows to train on this rank needs in any epoch of :func:`fit`, (rows,)."""
    shown = torch.zeros(rows, dtype=torch.bool)
    for epoch in range(schedule.epochs):
        if shown.all():
            break
        shown[rows_of_rank(rows, epoch, schedule.seed, ranks)] = True
    made: NDArray[np.bool_] = shown.numpy()
    return made


def tests_of_rank(rows: int, ranks: Ranks) -> Tensor:
    """The rows of a test that are this rank's, int64."""
    return torch.arange(ranks.rank, rows, ranks.world)


@dataclass(frozen=True)
class Work:
    """One rank's training: model, rows and steps.

    `loss_of` takes scores and targets of a batch and gives their mean loss, (). `rows`: how many there are to train on,
    numbered from 0; `batch_of` gives them. Model and batches are on one device.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss_of: Callable[[Tensor, Tensor], Tensor]
    batch_of: Batch
    rows: int
    schedule: Schedule
    ranks: Ranks


Loss = Callable[[Tensor, Tensor], Tensor]
"""Takes scores and targets of k rows; gives their mean loss, ()."""
Right = Callable[[Tensor, Tensor], Tensor]
"""Takes scores and targets of k rows; gives k truths, of any shape."""
After = Callable[[int], object]
"""Is called with the number of each epoch that has ended, from 1."""


def fit(work: Work, after: After | None = None) -> list[float]:
    """Train; gives the mean loss of each epoch over all ranks. Raises :class:`BadInput` for more ranks than rows.

    Continues after the epochs that the checkpoint has; raises :class:`BadInput` where that is of another run or no
    checkpoint. Its process group, where there are ranks, must be ready.
    """
    model, optimizer, batch_of, rows = work.model, work.optimizer, work.batch_of, work.rows
    schedule, ranks = work.schedule, work.ranks
    check_rows(rows, ranks)
    losses = _resume(model, optimizer, schedule, ranks)
    own = shared_out(schedule, ranks)
    trained = gradients.Exchanged(model, schedule.compress) if ranks.world > 1 else model
    model.train()
    exchanges = 0
    if ranks.world > 1 and len(losses) < schedule.epochs:
        # After its first step DDP reorders gradients for their exchange, and their order decides how sums of more than
        # two ranks are rounded. So one step that teaches nothing comes first, also where a training continues.
        inputs, targets = batch_of(rows_of_rank(rows, 0, schedule.seed, ranks)[: own.batch])
        before = [buffer.clone() for buffer in model.buffers()]
        work.loss_of(trained(inputs), targets).backward()
        for buffer, value in zip(model.buffers(), before, strict=True):
            buffer.copy_(value)
        exchanges = 1
    times = growth(schedule, ranks)
    for epoch in range(len(losses), schedule.epochs):
        with events.phase("epoch"):
            order = rows_of_rank(rows, epoch, schedule.seed, ranks)
            total = torch.zeros((), dtype=torch.float64, device=next(model.parameters()).device)
            begun = 0
            for step in steps(batch_of, order, own):
                begun += sum(len(targets) for _, targets in step)
                if times > 1:
                    warm = min(1.0, epoch + begun / len(order))
                    for group in optimizer.param_groups:
                        group["lr"] = schedule.learning_rate * (1 + (times - 1) * warm)
                optimizer.zero_grad(set_to_none=True)
                for number, (inputs, targets) in enumerate(step, 1):
                    with nullcontext() if number == len(step) else _alone(trained):
                        loss = work.loss_of(trained(inputs), targets)
                        (loss if len(step) == 1 else loss / len(step)).backward()
                    total.add_(loss.detach(), alpha=len(targets))
                optimizer.step()
                exchanges += 1
            share_buffers(model, ranks)
            losses.append(summed(total, ranks) / (len(order) * ranks.world))
        events.progress("epochs", epoch + 1, schedule.epochs, loss=losses[-1])
        if after is not None:
            after(epoch + 1)
        if schedule.checkpoint_every and (epoch + 1) % schedule.checkpoint_every == 0:
            _save(model, optimizer, losses, schedule, ranks)
    if isinstance(trained, gradients.Exchanged):
        trained.tell(exchanges)
    return losses


def batches(inputs: NDArray[Any], labels: NDArray[np.uint8], shown: Callable[[Tensor], Tensor]) -> Batch:
    """Rows -> what `shown` makes of their inputs for the model, and labels int64 (k,)."""
    every, classes = (torch.from_numpy(np.require(array, requirements="W")) for array in (inputs, labels))

    def batch(rows: Tensor) -> tuple[Tensor, Tensor]:
        return shown(every[rows]), classes[rows].long()

    return batch


def steps(batch_of: Batch, order: Tensor, schedule: Schedule) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """The batches of each step of one rank, whose rows `order` has.

    Rows are fetched for many batches at a time: fetching costs less than saying so.
    """
    at_once = schedule.batch * max(_BATCHES_AT_ONCE // schedule.accumulate, 1) * schedule.accumulate
    for chosen in order.split(at_once):
        inputs, targets = batch_of(chosen)
        batches = list(zip(inputs.split(schedule.batch), targets.split(schedule.batch), strict=True))
        for first in range(0, len(batches), schedule.accumulate):
            yield batches[first : first + schedule.accumulate]


def _alone(trained: nn.Module) -> AbstractContextManager[None]:
    """Within it gradients stay on this rank, and are exchanged with those of the next batch outside it."""
    return trained.no_sync() if isinstance(trained, gradients.Exchanged) else nullcontext()


class Way:
    """The way in which ranks share a training. This one: each has the whole model and a part of the rows of a step, and
    they exchange gradients at each."""

    def fit(self, work: Work, after: After | None = None) -> list[float]:
        """See :func:`fit`."""
        return fit(work, after)

    def evaluate(
        self, model: nn.Module, measures: tuple[Loss, Right], test: tuple[Batch, int], ranks: Ranks, at_once: int
    ) -> tuple[int, float]:
        """See :func:`evaluate`."""
        found: tuple[int, float] = evaluate(model, measures, test, ranks, at_once)
        return found

    def weighed(self, model: nn.Module) -> tuple[float, str]:
        """:func:`norm` and :func:`checksum`, the same on all ranks."""
        return norm(model), checksum(model)

    def answer(self) -> dict[str, Any]:
        """Return what else the answer of rank 0 says, once all is done."""
        return {}

    def said(self) -> list[str]:
        """Lines for a person, of rank 0."""
        return []


def train_and_test(  # noqa: PLR0913 (all that a training is made of)
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_of: Loss,
    right_of: Right,
    train: tuple[Batch, int],
    test: tuple[Batch, int],
    schedule: Schedule,
    ranks: Ranks,
    test_rows: int = TEST_ROWS,
    way: Way | None = None,
) -> dict[str, Any]:
    """:func:`fit`, then :func:`evaluate`, on (batches, rows) each: {"answer", "checksum" of the weights, "said"}.

    `answer`: ``tests`` and ``right`` in rows, ``accuracy`` 0 to 1, ``test_loss``: the mean of the test rows,
    ``losses`` of the epochs, ``weights``: their norm.
    `way`: how the ranks share the training, where they do not exchange gradients at each step.
    """
    place, way = device(ranks), way or Way()
    model.to(place)

    def on(batch_of: Batch) -> Batch:
        def there(rows: Tensor) -> tuple[Tensor, Tensor]:
            inputs, targets = batch_of(rows)
            return inputs.to(place), targets.to(place)

        return batch_of if place.type == "cpu" else there

    def tested() -> tuple[int, float]:
        return way.evaluate(model, (loss_of, right_of), (on(test[0]), test[1]), ranks, test_rows)

    def after(epoch: int) -> None:
        """Tell how good the model is by now."""
        if schedule.test_every and epoch % schedule.test_every == 0:
            with events.phase("test"):
                right, _ = tested()
            model.train()
            events.progress("accuracy", epoch, schedule.epochs, accuracy=right / test[1])

    losses = way.fit(Work(model, optimizer, loss_of, on(train[0]), train[1], schedule, ranks), after)
    right, loss = tested()
    weights, seal = way.weighed(model)
    answer = {"tests": test[1], "right": right, "accuracy": right / test[1], "test_loss": loss, "losses": losses}
    answer["weights"] = weights
    return {"answer": {**answer, **way.answer()}, "checksum": seal, "said": way.said()}


@torch.no_grad()
def evaluate(
    model: nn.Module,
    measures: tuple[Loss, Right],
    test: tuple[Batch, int],
    ranks: Ranks,
    at_once: int = TEST_ROWS,
) -> tuple[int, float]:
    """Return how many of the rows the model gets right, and their mean loss, over all ranks.

    `test`: batches, of `at_once` rows at most, and how many rows there are. Each row counts once, on one of the ranks.
    """
    model.eval()
    (loss_of, right_of), (batch_of, rows) = measures, test
    found = torch.zeros(2, dtype=torch.float64, device=next(model.parameters()).device)
    for chosen in tests_of_rank(rows, ranks).split(at_once):
        inputs, targets = batch_of(chosen)
        scores = model(inputs)
        found[0] += right_of(scores, targets).sum()
        found[1] += loss_of(scores, targets) * len(targets)
    right, loss = summed_all(found, ranks)
    return round(right), loss / rows


def norm(model: nn.Module) -> float:
    """Euclidean norm of all weights together, and of what else the model keeps as state but counts, in float64."""
    kept = [tensor for tensor in model.state_dict().values() if tensor.is_floating_point()]
    return float(torch.cat([tensor.detach().double().ravel() for tensor in kept]).norm())


def size(model: nn.Module) -> int:
    """Return how many weights are trained."""
    return sum(weight.numel() for weight in model.parameters())


def checksum(model: nn.Module) -> str:
    """SHA-256 of all weights, each as its name and its bytes, in the order of their names; hexadecimal."""
    total = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        total.update(name.encode())
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def unpacked(content: bytes) -> Any:
    """Return what torch has saved: only weights, numbers and texts, as anyone may have written it. Raises as torch
    does.
    """
    # Before torch 2.14 only `weights_only` takes sparse tensors whose indices are outside of them, and reading these
    # reads memory that is not theirs.
    with torch.sparse.check_sparse_tensor_invariants():
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def combine(parts: Sequence[dict[str, Any]], what: str) -> tuple[dict[str, Any], list[str]]:
    """The one answer of all ranks, and what to say of the training. Raises RuntimeError where their weights differ."""
    answer, checksum = parts[0]["answer"], parts[0]["checksum"]
    if any(part["checksum"] != checksum for part in parts):
        raise RuntimeError("the ranks ended with different weights")
    epochs = [f"  epoch {epoch}: loss {loss:.4f}" for epoch, loss in enumerate(answer["losses"], 1)]
    right = (
        f"{answer['right']:,} of {answer['tests']:,} test {what} are right: {100 * answer['accuracy']:.2f} %; "
        f"test loss {answer['test_loss']:.4f}"
    )
    return answer, [*epochs, right, *parts[0]["said"], f"weights {checksum}"]


@torch.no_grad()
def share_buffers(model: nn.Module, ranks: Ranks) -> None:
    """Give all ranks the mean of what each has seen of its own rows: a network's running statistics."""
    learning = (module for module in model.modules() if module.training)
    own = [buffer for module in learning for buffer in module.buffers(recurse=False) if buffer.is_floating_point()]
    if ranks.world == 1 or not own:
        return
    every = torch.cat([buffer.ravel() for buffer in own])
    dist.all_reduce(every)
    for buffer, shared in zip(own, (every / ranks.world).split([buffer.numel() for buffer in own]), strict=True):
        buffer.copy_(shared.view_as(buffer))


def summed(value: Tensor, ranks: Ranks) -> float:
    """The sum of all ranks' values, ()."""
    return summed_all(value.reshape(1), ranks)[0]


def summed_all(values: Tensor, ranks: Ranks) -> list[float]:
    """The sum of all ranks' values, (k,), for each of the k."""
    here = values.cpu()
    if ranks.world > 1:
        dist.all_reduce(here)
    return [float(one) for one in here]


def _identity(model: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule, ranks: Ranks) -> dict[str, Any]:
    learning = [weight.requires_grad for weight in model.parameters()]
    frozen = "" if all(learning) else f" of {sum(learning)} of {len(learning)} weights"
    return {
        "weights": {name: list(tensor.shape) for name, tensor in model.state_dict().items()},
        "optimizer": f"{type(optimizer).__name__}{frozen}",
        "batch": [schedule.batch, schedule.accumulate],
        **({} if schedule.compress == gradients.NONE else {"compress": schedule.compress}),
        "learning rate": [schedule.learning_rate, growth(schedule, ranks)],
        "seed": schedule.seed,
        "ranks": schedule.elastic or ranks.world,
    }


def _save(
    model: nn.Module, optimizer: torch.optim.Optimizer, losses: list[float], schedule: Schedule, ranks: Ranks
) -> None:
    """Write the checkpoint in one step: a run that is killed leaves the last whole one."""
    if ranks.rank != 0 or schedule.checkpoint is None:
        return
    state = {
        "identity": _identity(model, optimizer, schedule, ranks),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "losses": losses,
    }
    kept = io.BytesIO()
    torch.save(state, kept)
    storage.replace(schedule.checkpoint, kept.getvalue())


def _resume(model: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule, ranks: Ranks) -> list[float]:
    """Take over rank 0's checkpoint, if there is one, on all ranks; gives the losses of the epochs it has."""
    found: list[Any] = [None]
    if ranks.rank == 0 and schedule.checkpoint is not None and storage.exists(schedule.checkpoint):
        with storage.open(schedule.checkpoint) as file:
            found = [file.read()]
    if ranks.world > 1:
        dist.broadcast_object_list(found, src=0)
    if found[0] is None:
        return []
    try:
        state = unpacked(found[0])
        identity = dict(state["identity"])
    except Exception as error:
        raise BadInput(f"{schedule.checkpoint}: not a checkpoint of this program; name another ({error})") from error
    wanted = _identity(model, optimizer, schedule, ranks)
    for name, value in wanted.items():
        if identity.get(name) != value:
            raise BadInput(
                f"{schedule.checkpoint}: the checkpoint of another run: {name} is {identity.get(name)}, here {value}; "
                "move it away or name another with --checkpoint"
            )
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return list(state["losses"])
