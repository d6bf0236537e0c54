"""joblib with Ray behind it. How Ray takes a run: see `ray.py`."""

from regatta.frameworks.adapters.ray import Ray
from regatta.frameworks.plan import Plan


class JoblibRay(Ray):
    """The pool of actors behind joblib."""

    name = "joblib-ray"
    order = 8
    colour = "#a14fb5"

    def headline(self, plan: Plan) -> str:
        """See `Framework`."""
        return "joblib (Ray)"


FRAMEWORK = JoblibRay()
