"""Ray, with TensorFlow beside it: Ray Train's TensorflowTrainer. How Ray takes a run: see `ray.py`."""

from regatta.frameworks.adapters.ray import Ray
from regatta.frameworks.adapters.tensorflow import REQUIREMENTS, listen_on_cluster_address
from regatta.frameworks.plan import Plan
from regatta.frameworks.spec import Spec
from regatta.hosts.cluster import Cluster


class RayTensorFlow(Ray):
    """Workers of Ray Train that talk by the collectives of TensorFlow."""

    name = "ray-tensorflow"
    order = 15
    colour = "#859900"
    backend = "tensorflow"
    requirements = REQUIREMENTS
    rank_bytes = 900 << 20
    driver_bytes = 700 << 20
    start_seconds = 25.0

    def headline(self, plan: Plan) -> str:
        """See `Framework`."""
        return "Ray (TensorFlow)"

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        made = super().specs(plan, cluster)
        for one in made.values():
            listen_on_cluster_address(one)
        return made


FRAMEWORK = RayTensorFlow()
