"""`make bundle`: everything that provisioning would download, in one archive; and provisioning from it."""

import os
import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regatta import files, paths
from regatta.environment import base as bases
from regatta.environment import build, bundled
from regatta.environment.resolve import Resolution
from regatta.errors import UsageError
from regatta.program import about_hosts, in_checkout, option
from regatta.provisioning import bundleapt
from regatta.provisioning.bundle import CONTROLLER, Archive, Bundle, BundleError, pack, unpack
from regatta.provisioning.flags import Options
from regatta.provisioning.wheels import made_here

if TYPE_CHECKING:
    from cyclonedx.model.component import Component

FOLDER_VARIABLE = "REGATTA_BUNDLE"
SOURCES_VARIABLE = "REGATTA_BUNDLE_SOURCES"
_DEFAULT = "regatta-bundle.tar"


@dataclass(frozen=True)
class Opened:
    """A bundle that was proven: where its files are, Ansible's variables, and its environment."""

    folder: Path
    words: Sequence[str]
    environment: Mapping[str, str]


def variables(options: Options) -> dict[str, object]:
    """Variables of the playbook `bundle`: for which hosts it is (default: like this machine), and what goes along."""
    suite = options.suite or _own_suite()
    known = bundleapt.choose(suite)
    out = options.out or Path(_DEFAULT)
    if not out.resolve().parent.is_dir():
        raise UsageError(f"{option(out=str(out))}: there is no folder {out.parent}: make it, or name another")
    projects = options.projects
    if missing := [str(one) for one in projects if not one.exists()]:
        raise UsageError(f"{option(project=missing[0])} is missing: name a folder, or a file of requirements")
    host = {"python": known.python, "glibc": known.glibc, "machine": options.machine or platform.machine()}
    return {
        "bundle_suite": suite,
        "bundle_host": host,
        "bundle_out": str(out.resolve()),
        "bundle_projects": [str(one.resolve()) for one in projects],
    }


@dataclass(frozen=True)
class Order:
    """The parts of a bundle, and its hosts: `python` X.Y.Z, `machine` as `uname -m` says it.

    `wheels` and `controller` are the wheelhouses of the nodes and of a controller with the same release. `packages`:
    Debian's, with commas between. `archives`: those of services, with the file of each. `projects`: see `variables`.
    """

    out: Path
    suite: str
    python: str
    machine: str
    glibc: str
    lock: Path
    torch_lock: Path | None
    wheels: Path
    controller: Path
    packages: str
    archives: Sequence[tuple[Archive, Path]] = ()
    projects: Sequence[Path] = ()

    def places(self) -> dict[str, Path]:
        """Return what is in the cache already, by its place in the bundle."""
        found = {f"locks/{path.name}": path for path in sorted((paths.PROJECT / "requirements").glob("*.lock"))}
        found |= {f"locks/{path.name}": path for path in (self.lock, self.torch_lock) if path}
        for house, inside in ((self.wheels, f"wheels/{self.wheels.name}"), (self.controller, CONTROLLER)):
            found |= {f"{inside}/{path.name}": path for path in sorted(house.iterdir()) if path.is_file()}
        return found | {archive.place: path for archive, path in self.archives}

    def content(self, places: Mapping[str, Path], lines: Sequence[str]) -> Bundle:
        """The bundle's own account of itself; `lines` are its sources for apt."""
        return Bundle(
            python=".".join(self.python.split(".")[:2]),
            machine=self.machine,
            suite=self.suite,
            lock=f"locks/{self.lock.name}",
            torch_lock=f"locks/{self.torch_lock.name}" if self.torch_lock else "",
            wheels=f"wheels/{self.wheels.name}",
            archives=tuple(archive for archive, _ in self.archives),
            sources=tuple(lines),
            files={name: files.sha256(path) for name, path in places.items()},
        )


def make(order: Order) -> list[str]:
    """Write the archive, and next to it the list of its parts; returns lines for a person.

    BundleError says what cannot be had.
    """
    from regatta.provisioning import sbom  # its library is slow to import, and each step imports this module

    out, places = order.out, order.places()
    with tempfile.TemporaryDirectory(prefix="regatta-bundle-", dir=out.parent) as work:
        folder = Path(work) / bundleapt.FOLDER
        chosen = bundleapt.sources(order.suite, bundleapt.own_sources())
        lines, debs = bundleapt.mirror(folder, order.packages.split(","), chosen, order.machine)
        places |= {str(path.relative_to(work)): path for path in sorted(folder.rglob("*")) if path.is_file()}
        packed = _packed(order, Path(work), places)
        content = order.content(places, lines)
        total = pack(content, places, out)
    made = {**made_here(order.controller), **made_here(order.wheels)}
    parts = (*_parts(content, debs, made), *(part for one in packed.values() for part in _of_layer(one.layer)))
    listed = out.with_name(f"{out.name}.cdx.json")
    _write(listed, sbom.document(out.name, total, parts))
    offline = f"{about_hosts('setup', bundle=str(out))}; " if in_checkout() else ""
    kinds = {kind: sum(name.startswith(f"{kind}/") and name.endswith(end) for name in places) for kind, end in _COUNTED}
    return [
        f"{out}: {out.stat().st_size / 1e6:,.0f} MB for hosts with {order.suite} on {order.machine}: "
        f"{kinds['wheels']} wheels, {kinds['apt']} Debian packages, "
        + "".join(f"{archive.title}, " for archive, _ in order.archives)
        + f"{kinds[CONTROLLER]} wheels for a controller with the same",
        *(f"{project}: {line}" for project, one in packed.items() for line in one.lines),
        f"SHA-256 {total}: compare it where you use the bundle (sha256sum)",
        f"{listed}: every wheel, package and archive in it, with version and sums (CycloneDX)",
        f"then: {offline}{about_hosts('provision', bundle=str(out))}",
    ]


def _packed(order: Order, work: Path, places: dict[str, Path]) -> dict[Path, bundled.Packed]:
    """The needs of the projects; the archives of their layers join `places`."""
    packed = {}
    base = bases.of_wheels(order.wheels, order.python, order.machine, order.glibc) if order.projects else None
    for project in order.projects:
        assert base
        packed[project] = bundled.pack(project, base, work, lambda _: None)
        places |= packed[project].files
    return packed


def _parts(content: Bundle, debs: Mapping[str, bundleapt.Package], made: Mapping[str, str]) -> "Iterator[Component]":
    """Every file of the bundle that others published. `made`: wheel -> SHA-256 of what it was made from."""
    from regatta.provisioning import sbom

    archives = {archive.place: archive for archive in content.archives}
    for path, sha256_ in content.files.items():
        if path.endswith(".whl"):
            yield sbom.wheel(path, sha256_, made.get(Path(path).name))
        elif archive := archives.get(path):
            yield sbom.application(archive, sha256_)
        elif deb := debs.get(path.removeprefix(f"{bundleapt.FOLDER}/")):
            yield sbom.debian(path, sha256_, deb.name, deb.version, deb.architecture, content.suite)


def _of_layer(layer: Resolution | None) -> "Iterator[Component]":
    """The packages that a project's layer is made of."""
    from regatta.provisioning import sbom

    for package in layer.packages if layer else ():
        path = f"{build.IN_BUNDLE}/{layer.key}.tar.gz" if layer else ""
        yield sbom.package(path, package.files[0].sha256, package.name, package.version)


def _write(path: Path, text: str) -> None:
    try:
        files.write(path, text)
    except OSError as error:
        raise BundleError(
            f"{path} cannot be written: choose another file by {option(out='FILE')} ({error.strerror or error})"
        ) from None


_COUNTED = (("wheels", ".whl"), ("apt", ".deb"), (CONTROLLER, ".whl"))


def open_(path: Path) -> Opened:
    """Prove a bundle, unpack it into the cache, and say how to provision from it."""
    content, folder = unpack(path)
    torch_lock = folder / content.torch_lock if content.torch_lock else ""
    words = ["-e", f"python_env_lock={folder / content.lock}", "-e", f"python_env_torch_lock={torch_lock}"]
    words += [word for archive in content.archives for word in archive.given(folder)]
    environment = {FOLDER_VARIABLE: str(folder), SOURCES_VARIABLE: "\n".join(content.sources)}
    return Opened(folder, words, environment)


def wheelhouse(name: str) -> Path | None:
    """Return where a bundle has the wheels of the environment `name`; None without one. BundleError where it has
    others.
    """
    if not (folder := os.environ.get(FOLDER_VARIABLE)):
        return None
    found = Path(folder) / "wheels" / name
    if not found.is_dir():
        others = ", ".join(sorted(path.name for path in (Path(folder) / "wheels").iterdir()))
        raise BundleError(
            f"the bundle has the wheels of another environment ({others}, not {name}): it was made for another Python, "
            f"machine or lock than these hosts have. '{about_hosts('bundle', suite='...')}' for them"
        )
    return found


def _own_suite() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        key, _, value = line.partition("=")
        if key == "VERSION_CODENAME":
            return value.strip('"')
    raise BundleError(f"say for which release of Debian or Ubuntu: {about_hosts('bundle', suite='bookworm')}")
