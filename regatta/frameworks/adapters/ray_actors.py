"""Ray, items given to actors. How Ray takes a run: see `ray.py`."""

from regatta.frameworks.adapters.ray import Ray
from regatta.frameworks.plan import Plan


class RayActors(Ray):
    """Actors of Ray, one a rank."""

    name = "ray-actors"
    order = 6
    colour = "#1b4f9c"

    def headline(self, plan: Plan) -> str:
        """See `Framework`."""
        return "Ray (actors)"


FRAMEWORK = RayActors()
