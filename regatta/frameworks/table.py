"""Frameworks without an adapter: words for several frameworks, and those that are another one by their own name.

Of the latter the workloads' side differs, and here little else.
"""

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regatta.frameworks.api import Framework

ALL, BOTH = "all", "both"
OF_BOTH = ("torch", "ray")
"""The frameworks compared with the single process where no others are named."""
USUAL = "torch"
"""The framework of a script where a program names none."""
MIB = 1 << 20
TENSORFLOW = ("tensorflow-cpu>=2.21,<2.22",)
"""The needs of all frameworks of TensorFlow beyond the nodes' environment."""


@dataclass(frozen=True)
class Named:
    """The framework that it is, its title where that is not its name, and other attributes that differ."""

    framework: str
    title: str = ""
    differs: Mapping[str, Any] = field(default_factory=dict)

    def of(self, framework: "Framework", name: str) -> "Framework":
        """That framework by this name. AttributeError where something differs that frameworks have not."""
        made = copy.copy(framework)
        for attribute, value in {"name": name, "title": self.title or name, **self.differs}.items():
            if attribute != "name":
                getattr(made, attribute)
            setattr(made, attribute, value)
        return made


NAMED = {
    "processes": Named("multiprocessing"),
    "joblib-loky": Named("multiprocessing", differs={"start_seconds": 4.0}),
    "ray-actors": Named("ray", "Ray (actors)"),
    "ray-pool": Named("ray", "Ray (its Pool)", {"own_cores": True}),
    "joblib-ray": Named("ray", "joblib (Ray)", {"own_cores": True}),
    "ray-tune": Named("ray", "Ray Tune", {"rank_bytes": 700 * MIB}),
    "ray-tensorflow": Named(
        "ray",
        "Ray (TensorFlow)",
        {
            "backend": "tensorflow",
            "walled": True,
            "requirements": TENSORFLOW,
            "rank_bytes": 900 * MIB,
            "driver_bytes": 700 * MIB,
            "start_seconds": 25.0,
        },
    ),
}


def usual(frameworks: Collection[str]) -> str:
    """The word for what of these is compared where no others are named."""
    return BOTH if {*OF_BOTH} <= {*frameworks} else ALL
