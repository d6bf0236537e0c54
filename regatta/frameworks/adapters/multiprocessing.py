"""multiprocessing.Pool, of the standard library, on one host."""

from regatta.frameworks.onehost import OneHost


class Multiprocessing(OneHost):
    """A pool of processes of the head."""

    name = "multiprocessing"
    order = 3
    colour = "#3f9b63"


FRAMEWORK = Multiprocessing()
