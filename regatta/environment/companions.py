"""Packages that are compiled for one build of another: torchvision of the index fails with a torch `+cpu`."""

from collections.abc import Callable, Mapping, Sequence

from regatta.environment.base import Base
from regatta.errors import EnvironmentFault
from regatta.frameworks import registry
from regatta.frameworks.api import Framework


class OtherBuild(EnvironmentFault):
    """Packages of another build than the nodes', by their names; `index` may have the right ones."""

    def __init__(self, message: str, index: str, names: Sequence[str]) -> None:
        super().__init__(message)
        self.index, self.names = index, tuple(names)


def together(found: Mapping[str, str], base: Base, again: Callable[[Sequence[str]], dict[str, str]]) -> dict[str, str]:
    """Return resolved versions in which companions have the build of the nodes' package, where a run keeps that.

    `again` resolves with further requirements. OtherBuild names what cannot be had so.
    """
    for framework in registry.every():
        for name in framework.packages:
            if name not in base.packages or found.get(name, "") != base.packages[name].version:
                continue
            label = found[name].partition("+")[2]
            if wrong := _wrong(found, framework, label):
                return _right(wrong, framework, f"{name} {found[name]}", label, again)
    return dict(found)


def _right(
    wrong: Mapping[str, str],
    framework: Framework,
    beside: str,
    label: str,
    again: Callable[[Sequence[str]], dict[str, str]],
) -> dict[str, str]:
    needed = [f"{name}=={version.partition('+')[0]}{'+' if label else ''}{label}" for name, version in wrong.items()]
    index = framework.cpu_builds if label == "cpu" else ""
    name, version = next(iter(wrong.items()))
    refused = OtherBuild(
        f"{name} {version} is compiled for another build than the nodes' {beside}, with which it fails. What fits is "
        f"'{needed[0]}', which the indexes of this machine lack: "
        + (f"write '--extra-index-url {index}' into requirements.txt, or " if index else "")
        + "put its wheel into a folder that PIP_FIND_LINKS names",
        index,
        [*wrong],
    )
    try:
        found = again(needed)
    except EnvironmentFault:
        raise refused from None
    if _wrong(found, framework, label):
        raise refused
    return found


def _wrong(found: Mapping[str, str], framework: Framework, label: str) -> dict[str, str]:
    mine = {name: version for name, version in found.items() if name in framework.companions}
    return {name: version for name, version in mine.items() if version.partition("+")[2] != label}
