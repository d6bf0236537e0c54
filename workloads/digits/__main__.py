"""``python -m workloads.digits``: see docs/reference/workloads/training.md."""

from workloads.common import command

if __name__ == "__main__":
    command.main("workloads.digits")
