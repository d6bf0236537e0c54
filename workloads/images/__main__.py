"""``python -m workloads.images``: see docs/reference/workloads/images.md."""

from workloads.common import command

if __name__ == "__main__":
    command.main("workloads.images")
