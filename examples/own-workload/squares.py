"""The sum of the squares of 0, 1, 2, ... below --numbers: one function, alone, under torch and under Ray.

`python squares.py` works by hand, too. Lines that begin with @regatta tell Regatta what came out and when.
"""

import argparse
import json
import os
import time


def part(rank: int, ranks: int, numbers: int) -> int:
    """What falls to one rank: every so many-th number."""
    return sum(number * number for number in range(rank, numbers, ranks))


def event(kind: str, rank: int, **fields: object) -> None:
    """Tell Regatta something."""
    print("@regatta " + json.dumps({"event": kind, "rank": rank, "t": time.time(), **fields}), flush=True)


def timed(rank: int, ranks: int, numbers: int) -> tuple[int, float]:
    """A part, and how many seconds it took."""
    began = time.perf_counter()
    return part(rank, ranks, numbers), time.perf_counter() - began


def alone(numbers: int) -> int:
    """One process does all of it."""
    event("ready", 0)
    found, seconds = timed(0, 1, numbers)
    event("phase", 0, name="compute", seconds=seconds)
    return found


def under_torch(numbers: int) -> int | None:
    """Each rank is a process, started by Regatta or torchrun; the first adds up what all have found."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    event("ready", rank)
    found, seconds = timed(rank, ranks, numbers)
    event("phase", rank, name="compute", seconds=seconds)
    gathered = [None] * ranks if rank == 0 else None
    dist.gather_object(found, gathered)
    dist.destroy_process_group()
    return sum(gathered) if gathered else None


def under_ray(numbers: int) -> int:
    """This process is the driver; the parts are tasks of the cluster."""
    import ray

    ray.init(log_to_driver=False)
    ranks = int(os.environ.get("REGATTA_WORKERS", "2"))
    event("ready", -1)
    task = ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(timed)
    done = ray.get([task.remote(rank, ranks, numbers) for rank in range(ranks)])
    for rank, (_, seconds) in enumerate(done):
        event("phase", rank, name="compute", seconds=seconds)
    return sum(found for found, _ in done)


def main() -> None:
    """Run under the framework that Regatta names; by hand, alone or with torchrun."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numbers", type=int, default=20_000_000)
    numbers = parser.parse_args().numbers
    usual = "torch" if "WORLD_SIZE" in os.environ else "single"
    run = {"single": alone, "torch": under_torch, "ray": under_ray}[os.environ.get("REGATTA_FRAMEWORK", usual)]
    found = run(numbers)
    if found is not None:
        show = [f"the squares of {numbers:,} numbers add up to {found:,}"]
        # Integers beyond 2 ** 53 are not the same in every reader of JSON: as text they are.
        rank = -1 if run is under_ray else 0
        event("result", rank, answer={"sum": str(found)}, tolerance={}, show=show)
        print(*show, sep="\n")


if __name__ == "__main__":
    main()
