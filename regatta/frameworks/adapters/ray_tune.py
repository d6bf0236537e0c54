"""Ray Tune: trials in actors, as many at a time as there are ranks. How Ray takes a run: see `ray.py`."""

from regatta.frameworks.adapters.ray import Ray
from regatta.frameworks.plan import Plan


class RayTune(Ray):
    """Searches of ray.tune."""

    name = "ray-tune"
    order = 12
    colour = "#17989c"
    rank_bytes = 700 << 20

    def headline(self, plan: Plan) -> str:
        """See `Framework`."""
        return "Ray Tune"


FRAMEWORK = RayTune()
