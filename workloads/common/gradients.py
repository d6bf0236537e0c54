"""How the ranks of a training exchange gradients: as they are, as bfloat16, or by PowerSGD, by torch's own hooks.

PowerSGD: T. Vogels, S. P. Karimireddy, M. Jaggi, "PowerSGD: practical low-rank gradient compression for distributed
optimization", 2019. What it leaves out of a step is added to the next one.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from workloads.common import events

NONE, BF16, POWERSGD = "none", "bf16", "powersgd"
RANK, WHOLE_STEPS = 2, 10
"""Of PowerSGD: the rank of the factors, and the first steps, in which gradients are sent as they are."""
TIMED = 10
"""One step of so many is timed, besides the first ten."""
WHOLE_MB = 1 << 20
"""Room for all gradients in one bucket: PowerSGD's three exchanges a bucket come in any order, and mix, where there are
two.
"""


class Exchanged(DistributedDataParallel):
    """A model of which each rank makes gradients of its own rows, and gets the mean of all ranks'."""

    def __init__(self, model: nn.Module, compress: str) -> None:
        super().__init__(model, forward_sync_buffers=False, bucket_cap_mb=WHOLE_MB if compress == POWERSGD else None)
        self._set_ddp_runtime_logging_sample_rate(TIMED)
        self._power: Any = None
        learning = [weight for weight in model.parameters() if weight.requires_grad]
        self._whole_bytes = sum(one.numel() * (2 if compress == BF16 else one.element_size()) for one in learning)
        if compress == BF16:
            # DDP knows the hook itself, and refuses it without NCCL; but gloo adds bfloat16, too.
            hook = default_hooks.bf16_compress_hook
            self.register_comm_hook(None, lambda state, bucket: hook(state, bucket))  # noqa: PLW0108
        elif compress == POWERSGD:
            from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

            self._power = powerSGD_hook.PowerSGDState(
                None, matrix_approximation_rank=RANK, start_powerSGD_iter=WHOLE_STEPS
            )
            self.register_comm_hook(self._power, powerSGD_hook.powerSGD_hook)

    def tell(self, exchanges: int) -> None:
        """Report what this rank has sent in so many exchanges, each as an all-reduce in a ring sends it.

        The phase `exchange` is the time in which it had nothing to compute but waited for them, from the steps that
        DDP has timed.
        """
        whole, compressed = exchanges, 0
        if self._power is not None:
            whole = min(exchanges, WHOLE_STEPS)
            compressed = 4 * self._power.total_numel_after_compression
        world = dist.get_world_size()
        events.exchanged((whole * self._whole_bytes + compressed) * 2 * (world - 1) // world, exchanges)
        told = self._get_ddp_logging_data()
        waited = told["avg_backward_comm_time"] - told["avg_backward_compute_comm_overlap_time"]
        events.spent("exchange", exchanges * max(0, waited) / 1e9)
