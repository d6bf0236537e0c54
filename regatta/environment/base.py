"""The nodes' own packages: the base that a layer is made for."""

import email
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from regatta.environment.requirements import digest
from regatta.errors import EnvironmentFault
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.program import about_hosts
from regatta_protocol.operations.launch import Inspected
from regatta_protocol.operations.layers import AskBase, LayerState

INSTALLER = "uv"
"""The package that installs the others on a node, and is not installed itself."""
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
_GLIBC = (17, 28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40)
"""The C libraries, 2.x, that uv has platforms for."""


@dataclass(frozen=True)
class Package:
    """A package of the base: its name as others ask for it, and what it needs itself."""

    name: str
    version: str
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()


@dataclass(frozen=True)
class Base:
    """An environment of nodes. `id` changes with its Python and packages; `python` is X.Y.Z, `glibc` 2.x."""

    id: str
    python: str
    machine: str
    glibc: str
    packages: Mapping[str, Package]

    @property
    def minor(self) -> str:
        """X.Y of its Python."""
        return ".".join(self.python.split(".")[:2])

    @property
    def platform(self) -> str:
        """Return what uv calls the machine and its C library. EnvironmentFault where no wheels are known for it."""
        major, _, number = self.glibc.partition(".")
        known = [one for one in _GLIBC if number.isdecimal() and one <= int(number)]
        if major != "2" or not known or self.machine not in ("x86_64", "aarch64"):
            raise EnvironmentFault(
                f"no wheels are known for {self.machine} with C library '{self.glibc}': --no-environment runs without"
            )
        return f"{self.machine}-manylinux_2_{known[-1]}"

    def beside(self, provided: Mapping[str, str]) -> "Base":
        """Return it with packages that a service has, by their versions: as if they were in it."""
        more = {canonical(name): Package(name, version) for name, version in provided.items()}
        return replace(self, packages={**more, **self.packages}) if more else self

    @property
    def pins(self) -> list[str]:
        """`name==version` of all packages."""
        return [f"{package.name}=={package.version}" for package in self.packages.values()]


def canonical(name: str) -> str:
    """A package's name as comparisons take it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def ask(remote: Remote, node: Node) -> Base:
    """The base of a node. RemoteError where it cannot tell."""
    said = remote.call(node, AskBase(), timeout=60)
    packages = {canonical(item.name): Package(**vars(item)) for item in said.packages}
    return Base(said.id, said.python, said.machine, said.glibc, packages)


def of_wheels(folder: Path, python: str, machine: str, glibc: str) -> Base:
    """The base that nodes have once these wheels are installed there. EnvironmentFault names a wheel that is none."""
    packages = {}
    for path in sorted(path for path in folder.glob("*.whl") if not path.name.startswith(f"{INSTALLER}-")):
        try:
            with zipfile.ZipFile(path) as wheel:
                inside = next(name for name in wheel.namelist() if _METADATA.fullmatch(name))
                told = email.message_from_bytes(wheel.read(inside))
        except (OSError, StopIteration, zipfile.BadZipFile) as error:
            raise EnvironmentFault(f"{path} is no wheel: delete it and try again ({error or 'no METADATA'})") from None
        needs, extras = (tuple(told.get_all(name) or ()) for name in ("Requires-Dist", "Provides-Extra"))
        packages[canonical(told["Name"])] = Package(told["Name"], told["Version"], needs, extras)
    identity = [python, machine, sorted((name, package.version) for name, package in packages.items())]
    return Base(digest(identity)[:16], python, machine, glibc, packages)


def states(answers: Mapping[str, Inspected]) -> dict[str, LayerState]:
    """The answer of each node about the layer that it was asked for."""
    return {name: answer.layer for name, answer in answers.items() if answer.layer}


def same(answers: Mapping[str, Inspected]) -> str:
    """The base that all nodes have, by what each has said. EnvironmentFault names two that differ."""
    known = states(answers)
    first = next(iter(known))
    for name, said in known.items():
        if said.base != known[first].base:
            raise EnvironmentFault(
                f"{name} has another Python environment than {first}: one layer would not fit both. "
                f"'{about_hosts('provision')}' "
                "gives all nodes the same; --no-environment runs without a layer"
            )
    return known[first].base


def stubs(base: Base, folder: Path) -> None:
    """Wheels of no content in place of the base's packages: they say what each is and needs, for uv to resolve with."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in base.packages.values():
        lines = ["Metadata-Version: 2.1", f"Name: {package.name}", f"Version: {package.version}"]
        lines += [f"Provides-Extra: {extra}" for extra in package.extras]
        lines += [f"Requires-Dist: {one}" for one in package.requires]
        stub(folder, package.name, package.version, "\n".join([*lines, "", ""]))


def stub(folder: Path, name: str, version: str, metadata: str) -> None:
    """Make a wheel that has only its METADATA."""
    stem = f"{re.sub('[-_.]+', '_', name)}-{version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{stem}.dist-info/METADATA", metadata)
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
