"""A Keras model learns handwritten digits: in one process, under torch, and under Spark's TorchDistributor.

`python digits.py` and `torchrun --nproc-per-node 2 digits.py` work by hand, too, with `KERAS_BACKEND=torch` in the
environment. Keras's model is a torch module there: DistributedDataParallel takes it as it is. Lines that begin with
@regatta tell Regatta what came out and when.
"""

import argparse
import contextlib
import fcntl
import json
import os
import socket
import struct
import time

HELD_OUT = 6
"""Every sixth digit is there to test."""
TOLERANCE = {"accuracy": 0.05, "loss": 0.05}
"""Sums of more ranks are rounded otherwise."""
SIOCGIFADDR = 0x8915


def event(kind: str, rank: int, **fields: object) -> None:
    """Tell Regatta something."""
    print("@regatta " + json.dumps({"event": kind, "rank": rank, "t": time.time(), **fields}), flush=True)


def network():
    """Convolutions and dense layers of Keras, from pictures (n, 8, 8, 1) to scores (n, 10)."""
    import keras

    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def learn(rank: int, ranks: int, epochs: int, batch: int) -> dict:
    """Train a part of the digits with the other ranks, and test: accuracy, loss and seconds. All ranks end alike."""
    import keras
    import torch
    from sklearn.datasets import load_digits

    began = time.perf_counter()
    keras.utils.set_random_seed(0)
    digits = load_digits()
    pictures = torch.tensor(digits.images[..., None] / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    tests = torch.arange(len(labels)) % HELD_OUT == HELD_OUT - 1
    model = network()
    trained = torch.nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    own = (~tests).nonzero().ravel()
    own = own[: len(own) // ranks * ranks]
    for epoch in range(epochs):
        shuffled = own[torch.randperm(len(own), generator=torch.Generator().manual_seed(epoch))]
        for rows in shuffled[rank::ranks].split(batch):
            optimizer.zero_grad()
            loss = loss_of(labels[rows], trained(pictures[rows], training=True))
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        scores = model(pictures[tests], training=False)
        right = scores.argmax(1) == labels[tests]
        loss = float(loss_of(labels[tests], scores))
    accuracy = float(right.float().mean())
    return {"accuracy": accuracy, "loss": loss, "seconds": time.perf_counter() - began}


def interface(address: str) -> str | None:
    """The network interface by which this host reaches an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        own = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                found = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(found[20:24]) == own:
                    return name
    return None


def rank_of_group(epochs: int, batch: int) -> dict:
    """What each rank does, whoever has started it: in torch's process group, which its variables describe."""
    import torch.distributed as dist

    if name := interface(os.environ["MASTER_ADDR"]):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
    dist.init_process_group("gloo")
    if os.environ.get("REGATTA_FRAMEWORK") != "spark":
        event("ready", dist.get_rank())
    made = learn(dist.get_rank(), dist.get_world_size(), epochs, batch)
    dist.barrier()
    dist.destroy_process_group()
    return made


def under_spark(epochs: int, batch: int) -> dict:
    """This process is Spark's driver; TorchDistributor starts the ranks, and gives what rank 0 has made."""
    from pyspark.ml.torch.distributor import TorchDistributor
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    event("ready", -1)
    ranks = int(os.environ["REGATTA_WORKERS"])
    made = TorchDistributor(num_processes=ranks, local_mode=False, use_gpu=False).run(rank_of_group, epochs, batch)
    session.stop()
    return made


def main() -> None:
    """Run under the framework that Regatta names; by hand, alone or with torchrun."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32)
    given = parser.parse_args()
    usual = "torch" if "WORLD_SIZE" in os.environ else "single"
    framework = os.environ.get("REGATTA_FRAMEWORK", usual)
    rank = -1 if framework == "spark" else int(os.environ.get("RANK", "0"))
    if framework == "single":
        event("ready", rank)
        made = learn(0, 1, given.epochs, given.batch)
    else:
        made = (under_spark if framework == "spark" else rank_of_group)(given.epochs, given.batch)
    event("phase", rank, name="compute", seconds=made.pop("seconds"))
    if rank <= 0:
        show = [f"{100 * made['accuracy']:.1f} % of the digits that were held out are right, loss {made['loss']:.3f}"]
        event("result", rank, answer=made, tolerance=TOLERANCE, show=show)
        print(*show, sep="\n")


if __name__ == "__main__":
    main()
