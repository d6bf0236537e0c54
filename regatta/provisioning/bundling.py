"""`make bundle`: everything that provisioning would download, in one archive; and provisioning from it."""

import os
import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regatta import files, paths
from regatta.environment import base as bases
from regatta.environment import build, bundled
from regatta.environment.resolve import Resolution
from regatta.errors import UsageError
from regatta.program import about_hosts, in_checkout, option
from regatta.provisioning import bundleapt, sbom
from regatta.provisioning.bundle import CONTROLLER, Bundle, BundleError, pack, unpack
from regatta.provisioning.flags import Options
from regatta.provisioning.wheels import made_here

FOLDER_VARIABLE = "REGATTA_BUNDLE"
SOURCES_VARIABLE = "REGATTA_BUNDLE_SOURCES"
_DEFAULT = "regatta-bundle.tar"
SPARK = "spark"
"""Folder of a bundle with Spark's archive, by its key."""


@dataclass(frozen=True)
class Opened:
    """A bundle that was proven: where its files are, what Ansible is told, and with what environment."""

    folder: Path
    words: Sequence[str]
    environment: Mapping[str, str]


def wish(options: Options) -> dict[str, object]:
    """Variables of the playbook `bundle`: for which hosts it is (default: like this machine), and what goes along."""
    suite = options.suite or _own_suite()
    known = bundleapt.choose(suite)
    out = options.out or Path(_DEFAULT)
    if not out.resolve().parent.is_dir():
        raise UsageError(f"{option(out=str(out))}: there is no folder {out.parent}")
    projects = options.projects
    if missing := [str(one) for one in projects if not one.exists()]:
        raise UsageError(f"{option(project=missing[0])}: there is no such folder, nor a file of requirements")
    host = {"python": known.python, "glibc": known.glibc, "machine": options.machine or platform.machine()}
    return {
        "bundle_suite": suite,
        "bundle_host": host,
        "bundle_out": str(out.resolve()),
        "bundle_projects": [str(one.resolve()) for one in projects],
    }


def make(
    out: Path,
    suite: str,
    python: str,
    machine: str,
    glibc: str,
    *,
    lock: Path,
    torch_lock: Path | None,
    wheels: Path,
    controller: Path,
    hadoop: str,
    sha512: str,
    packages: str,
    spark: str = "",
    projects: Sequence[Path] = (),
) -> list[str]:
    """Write the archive, and beside it the list of its parts; returns lines for a person.

    BundleError says what cannot be had.

    `wheels` and `controller` are the wheelhouses of the nodes and of a controller with the same release. `spark`: the
    archive that `regatta.provisioning.spark` made. `projects`: see `requirements`.
    """
    places = {f"locks/{path.name}": path for path in sorted((paths.PROJECT / "requirements").glob("*.lock"))}
    places |= {f"locks/{path.name}": path for path in (lock, torch_lock) if path}
    for house, inside in ((wheels, f"wheels/{wheels.name}"), (controller, CONTROLLER)):
        places |= {f"{inside}/{path.name}": path for path in sorted(house.iterdir()) if path.is_file()}
    tarball = f"hadoop/{Path(hadoop).name}" if hadoop else ""
    if tarball:
        places[tarball] = Path(hadoop)
    if spark_archive := f"{SPARK}/{Path(spark).parent.name}/{Path(spark).name}" if spark else "":
        places[spark_archive] = Path(spark)
    with tempfile.TemporaryDirectory(prefix="regatta-bundle-", dir=out.parent) as work:
        folder = Path(work) / bundleapt.FOLDER
        chosen = bundleapt.sources(suite, bundleapt.own_sources())
        lines, debs = bundleapt.mirror(folder, packages.split(","), chosen, machine)
        places |= {str(path.relative_to(work)): path for path in sorted(folder.rglob("*")) if path.is_file()}
        layers = []
        base = bases.of_wheels(wheels, python, machine, glibc) if projects else None
        for project in projects:
            assert base
            layer, more = bundled.pack(project, base, Path(work), lambda _: None)
            places |= more
            layers.append((project, layer))
        content = Bundle(
            python=".".join(python.split(".")[:2]),
            machine=machine,
            suite=suite,
            lock=f"locks/{lock.name}",
            torch_lock=f"locks/{torch_lock.name}" if torch_lock else "",
            wheels=f"wheels/{wheels.name}",
            hadoop=tarball,
            hadoop_sha512=sha512 if tarball else "",
            spark=spark_archive,
            sources=tuple(lines),
            files={name: files.sha256(path) for name, path in places.items()},
        )
        total = pack(content, places, out)
    listed = out.with_name(f"{out.name}.cdx.json")
    _write(
        listed,
        sbom.document(
            out.name,
            total,
            (
                *_parts(content, debs, {**made_here(controller), **made_here(wheels)}),
                *(part for _, layer in layers for part in _of_layer(layer)),
            ),
        ),
    )
    offline = f"{about_hosts('setup', bundle=str(out))}; " if in_checkout() else ""
    kinds = {kind: sum(name.startswith(f"{kind}/") and name.endswith(end) for name in places) for kind, end in _COUNTED}
    return [
        f"{out}: {out.stat().st_size / 1e6:,.0f} MB for hosts with {suite} on {machine}: {kinds['wheels']} wheels, "
        f"{kinds['apt']} Debian packages, {'Hadoop' if tarball else 'no Hadoop'}, {'Spark' if spark else 'no Spark'}, "
        f"{kinds[CONTROLLER]} wheels for a controller with the same",
        *(f"{project}: {layer.headline() if layer else 'the nodes have it all'}" for project, layer in layers),
        f"SHA-256 {total}: compare it where you use the bundle (sha256sum)",
        f"{listed}: every wheel, package and archive in it, with version and sums (CycloneDX)",
        f"then: {offline}{about_hosts('provision', bundle=str(out))}",
    ]


def _parts(content: Bundle, debs: Mapping[str, bundleapt.Package], made: Mapping[str, str]) -> Iterator[sbom.Component]:
    """Every file of the bundle that somebody else published. `made`: wheel -> SHA-256 of what it was made from."""
    for path, sha256_ in content.files.items():
        if path.endswith(".whl"):
            yield sbom.wheel(path, sha256_, made.get(Path(path).name))
        elif path == content.hadoop:
            yield sbom.hadoop(path, sha256_, content.hadoop_sha512)
        elif path == content.spark:
            yield sbom.spark(path, sha256_, (paths.PROJECT / "requirements/spark.lock").read_text())
        elif deb := debs.get(path.removeprefix(f"{bundleapt.FOLDER}/")):
            yield sbom.debian(path, sha256_, deb.name, deb.version, deb.architecture, content.suite)


def _of_layer(layer: Resolution | None) -> Iterator[sbom.Component]:
    """The packages that a project's layer is made of."""
    for package in layer.packages if layer else ():
        path = f"{build.IN_BUNDLE}/{layer.key}.tar.gz" if layer else ""
        yield sbom.package(path, package.files[0].sha256, package.name, package.version)


def _write(path: Path, text: str) -> None:
    try:
        files.write(path, text)
    except OSError as error:
        raise BundleError(f"{path} cannot be written: {error.strerror or error}") from None


_COUNTED = (("wheels", ".whl"), ("apt", ".deb"), (CONTROLLER, ".whl"))


def open_(path: Path) -> Opened:
    """Prove a bundle, unpack it into the cache, and say how to provision from it."""
    content, folder = unpack(path)
    torch_lock = folder / content.torch_lock if content.torch_lock else ""
    words = ["-e", f"python_env_lock={folder / content.lock}", "-e", f"python_env_torch_lock={torch_lock}"]
    if content.hadoop:
        words += ["-e", f"hdfs_tarball={folder / content.hadoop}", "-e", f"hdfs_tarball_sha512={content.hadoop_sha512}"]
    environment = {FOLDER_VARIABLE: str(folder), SOURCES_VARIABLE: "\n".join(content.sources)}
    return Opened(folder, words, environment)


def wheelhouse(name: str) -> Path | None:
    """Where a bundle has the wheels of the environment `name`; None without one. BundleError where it has others."""
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
