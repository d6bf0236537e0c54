"""``python -m workloads.pi``: see docs/reference/workloads/items.md."""

from workloads.common import command

if __name__ == "__main__":
    command.main("workloads.pi")
