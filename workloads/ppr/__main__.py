"""``python -m workloads.ppr``: see docs/reference/workloads/pagerank.md."""

from workloads.common import command

if __name__ == "__main__":
    command.main("workloads.ppr")
