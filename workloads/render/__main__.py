"""``python -m workloads.render``: see docs/reference/workloads/films.md."""

from workloads.common import command

if __name__ == "__main__":
    command.main("workloads.render")
