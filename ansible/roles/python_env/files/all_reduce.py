"""A rank of the all-reduce of verify: its result, its speed between pairs of hosts, and the versions it ran with."""

import datetime
import importlib.metadata
import json
import platform
import time

import torch
import torch.distributed as dist

BYTES, TIMES, MOST_PARTNERS = 4 << 20, 3, 4

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
rank, size = dist.get_rank(), dist.get_world_size()
value = torch.tensor([float(rank + 1)])
cards = torch.tensor([float(torch.cuda.is_available() and dist.is_nccl_available())])
dist.all_reduce(value)
dist.all_reduce(cards, op=dist.ReduceOp.MIN)


def seconds(group: dist.ProcessGroup, device: str) -> float:
    """The fastest of some all-reduces of `BYTES`."""
    data, best = torch.zeros(BYTES // 4, device=device), float("inf")
    for _ in range(1 + TIMES):
        begun = time.monotonic()
        dist.all_reduce(data, group=group)
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.monotonic() - begun)
    return best


backend, device = ("nccl", "cuda") if cards.item() else ("gloo", "cpu")
pairs = {
    tuple(sorted((one, (one + far) % size))) for one in range(size) for far in range(1, min(size, MOST_PARTNERS + 1))
}
rates = {}
for pair in sorted(pairs):
    group = dist.new_group(pair, backend=backend)  # every rank makes each
    if rank in pair:
        rates[sum(pair) - rank] = BYTES / seconds(group, device)
versions = {
    "python": platform.python_version(),
    "torch": torch.__version__,
    "ray": importlib.metadata.version("ray"),
}
report = {"sum": value.item(), "expected": size * (size + 1) / 2, "versions": versions, "rates": rates}
print(f"@verify {json.dumps(report)}", flush=True)
dist.barrier()
dist.destroy_process_group()
