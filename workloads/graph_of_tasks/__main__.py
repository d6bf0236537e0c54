"""``python -m workloads.graph_of_tasks``: see docs/reference/workloads/graphs-of-tasks.md."""

from workloads.graph_of_tasks.work import main

if __name__ == "__main__":
    main()
