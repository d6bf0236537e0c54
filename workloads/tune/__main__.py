"""``python -m workloads.tune``: see docs/reference/workloads/searches.md."""

from workloads.common import command

if __name__ == "__main__":
    command.main("workloads.tune")
