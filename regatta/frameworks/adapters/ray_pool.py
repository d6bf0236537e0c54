"""Ray, items given to its multiprocessing.Pool. How Ray takes a run: see `ray.py`."""

from regatta.frameworks.adapters.ray import Ray
from regatta.frameworks.plan import Plan


class RayPool(Ray):
    """The pool of actors of ray.util.multiprocessing."""

    name = "ray-pool"
    order = 7
    colour = "#6a5acd"

    def headline(self, plan: Plan) -> str:
        """See `Framework`."""
        return "Ray (its Pool)"


FRAMEWORK = RayPool()
