"""The parts of a bundle, as a CycloneDX list (SBOM): name, version, package URL and sums of every part."""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.utils import parse_wheel_filename

from regatta.provisioning.bundle import Archive

_PATH = "regatta:path"
_SUMS = {"SHA-256": HashAlgorithm.SHA_256, "SHA-512": HashAlgorithm.SHA_512}


def wheel(path: str, sha256: str, made_from: str | None = None) -> Component:
    """A wheel, whose file name says what it is; `made_from`: SHA-256 of the source that it was made from."""
    name, version, _, _ = parse_wheel_filename(PurePosixPath(path).name)
    notes = {"regatta:source-sha256": made_from} if made_from else {}
    return package(path, sha256, name, str(version), notes)


def package(path: str, sha256: str, name: str, version: str, notes: Mapping[str, str] | None = None) -> Component:
    """A package of Python, or what a file of the bundle has of it."""
    return _part(PackageURL("pypi", None, name, version), path, {"SHA-256": sha256}, notes=notes)


def debian(path: str, sha256: str, name: str, version: str, architecture: str, suite: str) -> Component:
    """A Debian or Ubuntu package."""
    vendor = "ubuntu" if suite in ("jammy", "noble") else "debian"
    purl = PackageURL("deb", vendor, name, version, {"arch": architecture, "distro": suite})
    return _part(purl, path, {"SHA-256": sha256})


def application(archive: Archive, sha256: str) -> Component:
    """The archive of a service."""
    sums = {"SHA-256": sha256} | ({"SHA-512": archive.sha512} if archive.sha512 else {})
    return _part(PackageURL.from_string(archive.purl), archive.place, sums, ComponentType.APPLICATION)


def document(subject: str, sha256: str, parts: Iterable[Component]) -> str:
    """The list as JSON. `subject` is the archive's file name; a file that is there twice is one part of two places."""
    places: dict[str, Component] = {}
    for part in parts:
        known = places.setdefault(str(part.bom_ref.value), part)
        known.properties.update(part.properties)
    bom = Bom(components=places.values())
    bom.metadata.component = Component(name=subject, type=ComponentType.FILE, hashes=_hashes({"SHA-256": sha256}))
    bom.register_dependency(bom.metadata.component, bom.components)
    bom.metadata.tools.components.add(Component(name="regatta", type=ComponentType.APPLICATION))
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _part(
    purl: PackageURL,
    path: str,
    sums: Mapping[str, str],
    kind: ComponentType = ComponentType.LIBRARY,
    notes: Mapping[str, str] | None = None,
) -> Component:
    return Component(
        name=purl.name,
        version=purl.version,
        purl=purl,
        type=kind,
        bom_ref=f"{purl}#{sums['SHA-256']}",
        hashes=_hashes(sums),
        properties=[Property(name=name, value=value) for name, value in {_PATH: path, **(notes or {})}.items()],
    )


def _hashes(sums: Mapping[str, str]) -> list[HashType]:
    return [HashType(alg=_SUMS[name], content=value) for name, value in sums.items()]
