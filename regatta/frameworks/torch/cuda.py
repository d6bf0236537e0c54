"""Whether torch in an environment can use NVIDIA's GPUs."""

from collections.abc import Mapping

from regatta.frameworks.plan import Program

_PACKAGES = ("nvidia-cuda-runtime", "cuda-toolkit")
"""Packages that a torch without a local label has if it is built with CUDA."""


def without(packages: Mapping[str, str]) -> str | None:
    """Why torch finds no GPU in an environment of these packages (version by name); None where it finds those there."""
    version = packages.get("torch")
    if version is None:
        return "its packages have no torch"
    label = version.partition("+")[2]
    built = label.startswith("cu") if label else any(name.startswith(_PACKAGES) for name in packages)
    return None if built else f"torch {version} has no CUDA (python_env_torch_build)"


def without_in_workload(program: Program, packages: Mapping[str, str]) -> str | None:
    """The same of a workload; empty where it computes on processors, or asks for GPUs itself."""
    return without(packages) if program.gpus and not program.any_node else ""
