"""One stage of a pipeline: the layers that a rank has, and what goes to and fro between it and its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle
from torch.nn.modules.batchnorm import _BatchNorm

from workloads.common import training
from workloads.common.events import BadInput
from workloads.common.parallel import layers
from workloads.common.ranks import Ranks

Loss = Callable[[Tensor, Tensor], Tensor]


class Stage:
    """One rank's part of a model: some of its layers. Of the others neither it nor `model` keeps any memory.

    `inputs`: a row, (1, ...), on the model's device. Raises :class:`BadInput` for more ranks than layers.
    """

    def __init__(self, model: nn.Module, inputs: Tensor, optimizer: torch.optim.Optimizer, ranks: Ranks) -> None:
        found = layers.of(model, inputs)
        if ranks.world > len(found):
            raise BadInput(
                f"--parallel pipeline: {ranks.world} ranks for the {len(found)} layers of this network "
                f"({', '.join(layer.name for layer in found)}), and each needs at least one; take fewer --workers"
            )
        stages = layers.cut([layer.cost for layer in found], ranks.world)
        own = stages[ranks.rank]
        self.said = [_words(rank, [found[place] for place in stage], found) for rank, stage in enumerate(stages)]
        self.module = nn.Sequential(*(module for place in own for module in found[place].modules))
        self._ranks = ranks
        self._first, self._last = ranks.rank == 0, ranks.rank == ranks.world - 1
        learns = [any(one.requires_grad for module in layer.modules for one in module.parameters()) for layer in found]
        self._takes = (inputs[:0] if self._first else found[own.start - 1].gives, any(learns[: own.start]))
        self._gives = (found[own.stop - 1].gives, any(learns[: own.stop]))
        self._passes: dict[tuple[int, int], PipelineScheduleSingle] = {}
        self._norms = [Norm(one) for one in self.module.modules() if isinstance(one, _BatchNorm)]
        self._owners = _owners(model, [[found[place] for place in stage] for stage in stages])
        mine = {id(one) for one in self.module.parameters()}
        for group in optimizer.param_groups:
            group["params"] = [one for one in group["params"] if id(one) in mine]
        for place in {*range(len(found))} - {*own}:
            for module in found[place].modules:
                module.to("meta")

    def learn(self, rows: Tensor, parts: int, batch_of: training.Batch, loss_of: Loss) -> Tensor:
        """Make the gradients of the mean loss of these rows, which go through in so many equal parts.

        Gives the sum of their losses, (), on the last rank, and 0 on the others.
        """
        self.module.train()
        if (key := (len(rows), parts)) not in self._passes:
            self._passes[key] = self._made(len(rows) // parts, parts, loss_of)
        for norm in self._norms:
            norm.begin(parts)
        losses: list[Tensor] = []
        given: tuple[Tensor, ...] = ()
        targets = None
        if self._first or self._last:
            inputs, targets = batch_of(rows.view(-1, parts).T.ravel())
            given = (inputs,) if self._first else ()
        self._passes[key].step(
            *given,
            target=targets if self._last else None,
            losses=losses if self._last else None,
            return_outputs=False,
        )
        kept = torch.zeros((), dtype=torch.float64)
        for loss in losses:
            kept += loss.detach().cpu()
        return kept * len(rows) / parts

    @torch.no_grad()
    def scores(self, rows: Tensor, batch_of: training.Batch) -> Tensor | None:
        """Return what the whole model gives for rows, on the last rank; None elsewhere. Leaves the module in
        eval mode.
        """
        self.module.eval()
        if self._first:
            given = batch_of(rows)[0]
        else:
            given = self._takes[0].new_empty((len(rows), *self._takes[0].shape[1:]))
            dist.recv(given, self._ranks.rank - 1)
        made: Tensor = self.module(given)
        if self._last:
            return made
        dist.send(made.contiguous(), self._ranks.rank + 1)
        return None

    def shown(self, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
        """All that the model keeps as state, by name, on the CPU of each rank: a tensor at a time, from who has it."""
        for name, tensor in sorted(model.state_dict().items()):
            owner = self._owners[name]
            here = owner == self._ranks.rank
            held = tensor.detach().cpu().contiguous() if here else torch.empty(tensor.shape, dtype=tensor.dtype)
            dist.broadcast(held, owner)
            yield name, held

    def _made(self, rows: int, parts: int, loss_of: Loss) -> PipelineScheduleSingle:
        """Return what takes a step through the stages, so many rows a part."""
        (takes, takes_learn), (gives, gives_learn) = self._takes, self._gives
        stage = PipelineStage(
            self.module,
            self._ranks.rank,
            self._ranks.world,
            takes.device,
            input_args=takes.new_empty((rows, *takes.shape[1:]), device="meta", requires_grad=takes_learn),
            output_args=gives.new_empty((rows, *gives.shape[1:]), device="meta", requires_grad=gives_learn),
        )
        kind = Schedule1F1B if parts >= self._ranks.world else ScheduleGPipe
        return kind(stage, parts, loss_fn=loss_of)


class Norm:
    """A batch normalisation whose step comes in parts: what it remembers of them all together is what it would of one.

    Of M parts each counts momentum / M: so the j-th takes momentum / M / (1 - (M - 1 - j) x momentum / M) of what is
    there by then.
    """

    def __init__(self, module: _BatchNorm) -> None:
        self._momentum = module.momentum or 0.0
        self._parts = self._left = 1
        module.register_forward_pre_hook(self._next)

    def begin(self, parts: int) -> None:
        """A step of so many parts begins."""
        self._parts = self._left = parts

    def _next(self, module: nn.Module, given: object) -> None:
        if module.training:
            self._left -= 1
            share = self._momentum / self._parts
            module.momentum = share / (1 - self._left * share)


def _owners(model: nn.Module, stages: list[list[layers.Layer]]) -> dict[str, int]:
    """The rank that has each tensor of the model's state, by name."""
    found = {
        id(tensor): rank
        for rank, stage in enumerate(stages)
        for layer in stage
        for module in layer.modules
        for tensor in (*module.parameters(), *module.buffers())
    }
    return {name: found[id(one)] for name, one in model.state_dict(keep_vars=True).items()}


def _words(rank: int, own: list[layers.Layer], every: list[layers.Layer]) -> str:
    share = sum(layer.cost for layer in own) / sum(layer.cost for layer in every)
    return f"rank {rank} has {', '.join(layer.name for layer in own)}: {100 * share:.0f} % of the work"
