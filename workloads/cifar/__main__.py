"""``python -m workloads.cifar``: see docs/reference/workloads/training.md."""

from workloads.common import command

if __name__ == "__main__":
    command.main("workloads.cifar")
