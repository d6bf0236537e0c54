"""`.venv-node/bin/python -m benchmarks.cifar`: ResNet-18 by DDP, by Ray Train and in a bare DDP loop, interleaved.

Two ranks of one thread each on this machine, 120 synthetic pictures a rank and batch, the stem of ImageNet. Each way
loads its data untimed; an exchange of gradients comes before it in Regatta's, and within the first epoch in
the bare loop, so rates after the first epoch are given next to those of all.
"""

import argparse
import statistics
from collections.abc import Mapping

from benchmarks import rows
from benchmarks.rows import Row
from benchmarks.said import events
from benchmarks.training import TORCHRUN, python, rate

PICTURES, EPOCHS, RANKS = 1_920, 4, 2
WORDS = ("-m", "workloads.cifar", f"--size={PICTURES}", f"--epochs={EPOCHS}", "--stem=large", "--batch=120")
BARE = ("-m", "benchmarks.bare_training", "sliced", "cifar", str(PICTURES), str(EPOCHS))
WAYS = {"torchrun": "DDP under torchrun", "ray": "Ray Train"}


def epochs(output: str) -> list[float]:
    """Seconds of each epoch, of the rank that took longest."""
    ranks: dict[int, list[float]] = {}
    for one in events(output, "phase"):
        if one["name"] == "epoch":
            ranks.setdefault(one["rank"], []).append(one["seconds"])
    return [max(each) for each in zip(*ranks.values(), strict=True)]


def taken(way: str) -> Mapping[str, float]:
    """Seconds of all epochs, and of those after the first."""
    if way == "bare":
        said = python(*TORCHRUN, *BARE)
        per_epoch = PICTURES * EPOCHS / rate(said), PICTURES * (EPOCHS - 1) / rate(said, "after the first epoch")
        return dict(zip(("all", "later"), per_epoch, strict=True))
    if way == "ray":
        found = epochs(python(*WORDS, "--framework=ray", REGATTA_WORKERS=str(RANKS)))
    else:
        found = epochs(python(*TORCHRUN, *WORDS))
    return {"all": sum(found), "later": sum(found[1:])}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cifar", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    seen: dict[tuple[str, str], list[float]] = {}
    for _ in range(parser.parse_args().repeats):
        for way in ("bare", *WAYS):
            for which, seconds in taken(way).items():
                seen.setdefault((way, which), []).append(seconds)
    found = []
    for which, name in (("all", f"{EPOCHS} epochs"), ("later", "epochs after the first")):
        for way, what in WAYS.items():
            ours, bare = seen[way, which], seen["bare", which]
            share = statistics.median(bare) / statistics.median(ours)
            target = f"95 % of a bare DDP loop: {100 * share:.0f} %"
            found.append(Row(f"cifar: {name} of {PICTURES:,} pictures, {what}", ours, bare, target, share >= 0.95))
    rows.publish("cifar", found)


if __name__ == "__main__":
    main()
