"""Ray, with TensorFlow beside it: Ray Train's TensorflowTrainer. How Ray takes a run: see `ray.py`."""

from regatta.frameworks.adapters.ray import Ray
from regatta.frameworks.adapters.tensorflow import REQUIREMENTS
from regatta.frameworks.plan import Plan


class RayTensorFlow(Ray):
    """Workers of Ray Train that talk by the collectives of TensorFlow."""

    name = "ray-tensorflow"
    order = 15
    colour = "#859900"
    backend = "tensorflow"
    walled = True
    requirements = REQUIREMENTS
    rank_bytes = 900 << 20
    driver_bytes = 700 << 20
    start_seconds = 25.0

    def headline(self, plan: Plan) -> str:
        """See `Framework`."""
        return "Ray (TensorFlow)"


FRAMEWORK = RayTensorFlow()
