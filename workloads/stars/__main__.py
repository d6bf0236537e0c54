"""``python -m workloads.stars``: see docs/reference/workloads/training.md."""

from workloads.common import command

if __name__ == "__main__":
    command.main("workloads.stars")
