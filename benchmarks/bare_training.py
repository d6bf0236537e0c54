"""Training loops that people write, for comparison, with the workloads' models and batches, under torchrun.

`python -m benchmarks.bare_training sliced stars|digits|cifar ROWS EPOCHS`: DDP over tensors that are sliced into
batches beforehand: the least that a step of DDP can cost. `... pandas stars ROWS 1`: a Dataset that reads a row of a
pandas DataFrame for each sample, as the students' program did. Rank 0 prints rows a second over all ranks, of all
epochs and of those after the first.
"""

import os
import sys
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from workloads.common.networks import named
from workloads.digits import model as perceptron

FEATURES = 15
BATCH = {"stars": 128, "digits": 64, "cifar": 120}


def setting(workload: str) -> tuple[nn.Module, torch.optim.Optimizer, nn.Module]:
    """Model, optimizer and loss as the workload has them."""
    if workload == "stars":
        linear = nn.Linear(FEATURES, 1)
        return linear, torch.optim.Adam(linear.parameters(), lr=0.01), nn.BCEWithLogitsLoss()
    if workload == "cifar":
        resnet = named.make("resnet18", 10, small=False)
        return resnet, torch.optim.SGD(resnet.parameters(), 0.05, 0.9, weight_decay=5e-4), nn.CrossEntropyLoss()
    network = perceptron.make("perceptron")
    return network, torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9), nn.CrossEntropyLoss()


def sliced(workload: str, rows: int) -> list[tuple[Tensor, Tensor]]:
    """Batches that are ready."""
    batch = BATCH[workload]
    if workload == "stars":
        return [(torch.randn(batch, FEATURES), torch.randint(0, 2, (batch, 1)).float()) for _ in range(rows // batch)]
    shape = (3, 32, 32) if workload == "cifar" else (1, 28, 28)
    return [(torch.randn(batch, *shape), torch.randint(0, 10, (batch,))) for _ in range(rows // batch)]


class RowByRow:
    """Batches of a DataLoader whose Dataset takes a row of a DataFrame at a time."""

    def __init__(self, rows: int) -> None:
        import pandas as pd

        columns = [f"c{number}" for number in range(FEATURES)]
        frame = pd.DataFrame(torch.randn(rows, FEATURES).numpy(), columns=columns)
        frame["label"] = torch.randint(0, 2, (rows,)).numpy()

        class Rows(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
            def __len__(self) -> int:
                return len(frame)

            def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
                row = frame.iloc[index]
                values = torch.tensor(row[columns].values.astype("float32"))
                return values, torch.tensor([row["label"]], dtype=torch.float32)

        self._loader = torch.utils.data.DataLoader(Rows(), batch_size=BATCH["stars"], shuffle=True)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(self._loader)


def main() -> None:
    """Train and print the rate."""
    how, workload, rows, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    network, optimizer, loss_of = setting(workload)
    trained = DistributedDataParallel(network) if world > 1 else network
    batches = sliced(workload, rows // world) if how == "sliced" else RowByRow(rows // world)
    count, began, first = 0, time.perf_counter(), (0, 0.0)
    for epoch in range(epochs):
        for inputs, targets in batches:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(trained(inputs), targets)
            loss.backward()
            optimizer.step()
            count += len(targets) * world
        first = first if epoch else (count, time.perf_counter() - began)
    if int(os.environ.get("RANK", "0")) == 0:
        seconds = time.perf_counter() - began
        print("rows a second:", count / seconds, flush=True)
        if epochs > 1:
            print("after the first epoch:", (count - first[0]) / (seconds - first[1]), flush=True)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
