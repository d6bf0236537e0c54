"""Whether the driver of NVIDIA's GPUs fits the build of torch: an older one means that all runs on processors."""

import re
from collections.abc import Callable, Mapping
from typing import Any

OLDEST = {11: 450, 12: 525, 13: 580}
"""CUDA's major version -> the oldest driver (docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility)."""
CUDA_OF_PYPI = "13.0"
"""CUDA of the build that the ordinary index has, as its lock has it."""
BUILDS = {"pypi": CUDA_OF_PYPI, "cu126": "12.6"}
"""Builds that a message names, with the version of their CUDA, the newest first."""


def cuda(build: str) -> str | None:
    """The version of CUDA in a build of torch; None where it has none of NVIDIA's."""
    if build in BUILDS:
        return BUILDS[build]
    found = re.fullmatch(r"cu(\d{2})(\d)", build)
    return f"{found[1]}.{found[2]}" if found else None


def oldest(version: str) -> int:
    """The oldest driver that runs a version of CUDA, by its first number."""
    major = int(version.partition(".")[0])
    return OLDEST.get(major, OLDEST[max(OLDEST)])


def fitting(driver: str) -> list[str]:
    """Builds of torch that a driver runs, the one without CUDA the last."""
    number = int(driver.partition(".")[0])
    return [*(build for build, version in BUILDS.items() if number >= oldest(version)), "cpu"]


def report(results: Mapping[str, Mapping[str, Any]], build: str) -> dict[str, list[str]]:
    """{problems, warnings}: a line a text, with all hosts that it is true of; of hosts that were examined."""
    found: dict[str, dict[str, list[str]]] = {"problems": {}, "warnings": {}}
    for host, result in results.items():
        gpus = result.get("nvidia") or {}
        if not gpus.get("cards") and not gpus.get("module"):
            continue
        kind, text = _judged(gpus, build)
        if text:
            found[kind].setdefault(text, []).append(host)
    return {kind: [f"{', '.join(hosts)}: {text}" for text, hosts in texts.items()] for kind, texts in found.items()}


def _judged(gpus: Mapping[str, Any], build: str) -> tuple[str, str]:
    wanted, driver, library, offered = cuda(build), str(gpus["module"]), str(gpus["library"]), gpus.get("offered")
    if offered == "":
        return "problems", (
            "has no driver of NVIDIA's in its apt sources (nvidia_packages): add the component that has it (Debian: "
            "non-free; Ubuntu: restricted) and run 'apt-get update' there, or install it yourself (a bundle has none), "
            "or set nvidia_enabled: false"
        )
    if wanted is None:
        known = driver or offered or "0"
        more = f": its driver {known} fits {' and '.join(fitting(known)[:-1])}" if fitting(known)[:-1] else ""
        text = f"has {_cards(gpus)}, which build '{build}' of torch does not use (python_env_torch_build){more}"
        return "warnings", text
    if not driver and offered:
        return _of_packages(offered, build, wanted)
    if not driver:
        return "problems", (
            f"has {_cards(gpus)}, and no driver of NVIDIA's is loaded: with build '{build}' of torch everything would "
            "run on the processors without a word. Install the driver (nvidia_enabled: true does it) and restart the "
            "host, or set python_env_torch_build: cpu"
        )
    if int(driver.partition(".")[0]) < oldest(wanted):
        return "problems", (
            f"has driver {driver} of NVIDIA's, and build '{build}' of torch is for CUDA {wanted}, which needs driver "
            f"{oldest(wanted)} or newer: everything would run on the processors without a word. Set "
            f"python_env_torch_build to one that fits ({', '.join(fitting(driver))}), or install a newer driver"
        )
    if library and library != driver:
        return "problems", (
            f"has driver {driver} of NVIDIA's loaded, and its libraries are of version {library}: no program can use "
            "the GPUs until the host is restarted"
        )
    return "warnings", ""


def _of_packages(offered: str, build: str, wanted: str) -> tuple[str, str]:
    """Judge the driver that is to be installed, or waits for a restart."""
    if int(offered.partition(".")[0]) < oldest(wanted):
        return "problems", (
            f"would get driver {offered} of NVIDIA's (nvidia_packages), and build '{build}' of torch is for CUDA "
            f"{wanted}, which needs driver {oldest(wanted)} or newer. Set python_env_torch_build to one that fits "
            f"({', '.join(fitting(offered))}), or name newer packages"
        )
    return "warnings", (
        f"has driver {offered} of NVIDIA's only after a restart: restart it once it is provisioned, and provision again"
    )


def _cards(gpus: Mapping[str, Any]) -> str:
    number = len(gpus["cards"])
    return f"{number} GPU{'s' if number > 1 else ''} of NVIDIA's" if number else "a GPU of NVIDIA's"


class FilterModule:
    """`results | preflight_gpus(build)` -> {problems, warnings}."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return what Ansible finds here."""
        return {"preflight_gpus": report}
