"""Ten pictures in which three words move to the middle, as a graph of tasks: see docs/reference/workloads/films.md."""
