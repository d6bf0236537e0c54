"""``python -m workloads.graph_of_tasks``: see docs/workloads.md."""

from workloads.graph_of_tasks.work import main

if __name__ == "__main__":
    main()
