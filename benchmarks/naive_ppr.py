"""A first program as people write it, for comparison: a Python loop over lines, ids as they are, torch-ppr as
published.

`python -m benchmarks.naive_ppr GRAPH SOURCE,SOURCE..` under torchrun: each rank takes its share of the sources, as in
the students' programs that this project grew out of.
"""

import os
import sys

import torch
from torch_ppr import personalized_page_rank


def main() -> None:
    """Print the best node of each source of this rank."""
    edges = []
    with open(sys.argv[1]) as file:  # noqa: PTH123
        for line in file:
            if not line.startswith("#"):
                source, target = line.split()
                edges.append((int(source), int(target)))
    mine = [int(source) for source in sys.argv[2].split(",")][int(os.environ["RANK"]) :: int(os.environ["WORLD_SIZE"])]
    scores = personalized_page_rank(edge_index=torch.tensor(edges).t(), indices=torch.tensor(mine), device="cpu")
    print(mine, scores.argmax(dim=1).tolist(), flush=True)


if __name__ == "__main__":
    main()
