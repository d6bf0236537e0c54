"""``python -m workloads.tf_digits``: see docs/reference/workloads/tensorflow.md."""

from workloads.common import command

if __name__ == "__main__":
    command.main("workloads.tf_digits")
