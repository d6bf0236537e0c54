"""``python -m workloads.tf_digits``: see docs/workloads.md."""

from workloads.common import command

if __name__ == "__main__":
    command.main("workloads.tf_digits")
