"""A multiprocessing.Process for each chunk of items, on one host."""

from regatta.frameworks.onehost import OneHost


class Processes(OneHost):
    """Processes of the head that do one chunk each, so many at a time."""

    name = "processes"
    order = 4
    colour = "#8fbf5a"


FRAMEWORK = Processes()
