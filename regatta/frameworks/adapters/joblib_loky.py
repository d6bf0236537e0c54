"""joblib with its own pool of processes, loky, on one host."""

from regatta.frameworks.onehost import OneHost


class JoblibLoky(OneHost):
    """joblib's processes on the head."""

    name = "joblib-loky"
    order = 5
    colour = "#c79a1e"
    start_seconds = 4.0


FRAMEWORK = JoblibLoky()
