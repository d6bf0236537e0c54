"""One archive from which hosts are provisioned while the controller is offline too, each file proven by SHA-256.

A tar: first `bundle.json`, which says what is in it, then the files. `pack` writes it; `unpack` proves all of it and
unpacks it into the cache; `python3 -m regatta.provisioning.bundle FILE` does so for `make setup`, which has no package
of Python yet.
"""

import hashlib
import io
import json
import shutil
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from regatta import paths
from regatta.errors import RegattaError
from regatta.files import beside, locked, replacing, sha256
from regatta.program import about_hosts, option
from regatta.provisioning import progress
from regatta.terminal import screen

FORMAT = 5
INDEX = "bundle.json"
CONTROLLER = "controller"
"""Folder of the wheels that `make setup` needs."""
_LARGEST_INDEX = 16 << 20


class BundleError(RegattaError):
    """The bundle cannot be made or read, or it is not what was made."""


@dataclass(frozen=True)
class Archive:
    """The parts of a service: `place` in the bundle, its package URL, and its SHA-512 where that is known.

    `variables`: of Ansible, for a host that is set up from the bundle; {path} in them is where the archive is then.
    """

    title: str
    place: str
    purl: str
    sha512: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    def given(self, folder: Path) -> list[str]:
        """Return these variables as options of ansible-playbook; `folder` has what was unpacked."""
        path = str(folder / self.place)
        return [part for name, value in self.variables.items() for part in ("-e", f"{name}={value.format(path=path)}")]


@dataclass(frozen=True)
class Bundle:
    """The content of an archive. Paths are within it; `sources` are lines for apt, see `bundleapt`.

    `torch_lock` is '' where `lock` has torch itself. `archives` are those of services. `files` are the SHA-256 of all
    files.
    """

    python: str
    machine: str
    suite: str
    lock: str
    torch_lock: str
    wheels: str
    archives: tuple[Archive, ...]
    sources: tuple[str, ...]
    files: Mapping[str, str]


def pack(content: Bundle, places: Mapping[str, Path], target: Path) -> str:
    """Write the archive, each of its files from its place here; returns the archive's SHA-256."""
    text = json.dumps({"format": FORMAT, **asdict(content)}, indent=1).encode()
    try:
        total = sum(progress.size(places[name]) for name in content.files)
        with (
            replacing(target) as new,
            tarfile.open(new, "w") as archive,
            progress.telling(lambda: ("the bundle", progress.size(new), total)),
        ):
            archive.addfile(_entry(INDEX, len(text)), io.BytesIO(text))
            for name in content.files:
                with places[name].open("rb") as file:
                    archive.addfile(_entry(name, places[name].stat().st_size), file)
    except OSError as error:
        raise BundleError(
            f"the bundle {target} cannot be written: choose another file by {option(out='FILE')} "
            f"({error.strerror or error})"
        ) from None
    return sha256(target)


def unpack(path: Path) -> tuple[Bundle, Path]:
    """Prove every file of an archive; returns what it holds and the folder of the cache where that is now.

    Raises BundleError, which names the first file that is not what was packed. Earlier bundles leave the cache.
    """
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r|") as archive:
            first = archive.next()
            if first is None or first.name != INDEX or first.size > _LARGEST_INDEX:
                raise BundleError(f"{path} is no bundle: '{about_hosts('bundle')}' writes one")
            text = _content(archive, first).read()
            content = _parse(path, text)
            base = paths.cache_dir() / "bundle"
            folder = base / hashlib.sha256(text).hexdigest()[:16]
            with locked(base / ".lock"):
                _unpack(path, archive, content, folder)
    except FileNotFoundError:
        raise BundleError(f"there is no bundle {path}: '{about_hosts('bundle')}' makes one") from None
    except (OSError, tarfile.TarError, EOFError) as error:
        raise BundleError(f"the bundle {path} cannot be read: {error}; copy it again") from None
    return content, folder


def _unpack(path: Path, archive: tarfile.TarFile, content: Bundle, folder: Path) -> None:
    """Prove it; only a bundle that is whole takes the place of an earlier one, another leaves nothing."""
    new = not folder.exists()
    try:
        _prove(path, archive, content, folder)
    except BaseException:
        if new:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    for other in folder.parent.glob("*/"):
        if other != folder:
            shutil.rmtree(other)


def _prove(path: Path, archive: tarfile.TarFile, content: Bundle, folder: Path) -> None:
    seen = set()
    while entry := archive.next():
        expected = content.files.get(entry.name)
        if expected is None or entry.name in seen or not entry.isreg():
            raise BundleError(f"{path}: {entry.name} does not belong in it; nothing was changed. Copy it again")
        seen.add(entry.name)
        target = folder / entry.name
        target.parent.mkdir(parents=True, exist_ok=True)
        there = target.is_file() and target.stat().st_size == entry.size and sha256(target) == expected
        with beside(target) as new:
            with Path("/dev/null" if there else new).open("wb") as out:
                found = _copy(_content(archive, entry), out)
            if found != expected:
                raise BundleError(
                    f"{path}: {entry.name} in it is not the file that was packed (its SHA-256 differs); "
                    "nothing was changed. Copy the bundle again from where it was made"
                )
            if not there:
                new.replace(target)
    if missing := sorted(content.files.keys() - seen):
        raise BundleError(f"{path}: {missing[0]} is missing in it: it is cut off. Copy the bundle again")


def _parse(path: Path, text: bytes) -> Bundle:
    try:
        found: dict[str, Any] = json.loads(text)
        if found.pop("format") != FORMAT:
            raise BundleError(f"{path} was made by another version of Regatta: make it again with this one")
        archives = tuple(Archive(**one) for one in found["archives"])
        content = Bundle(**{**found, "sources": tuple(found["sources"]), "archives": archives})
        names = [PurePosixPath(name) for name in content.files]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BundleError(f"{path}: its {INDEX} cannot be read ({error}); copy the bundle again") from None
    if bad := [str(name) for name in names if name.is_absolute() or ".." in name.parts]:
        raise BundleError(f"{path}: {bad[0]} leads out of the bundle; nothing was changed. Copy it again")
    return content


def _copy(source: IO[bytes], target: IO[bytes]) -> str:
    """Copy; returns the SHA-256 of what it was."""
    digest = hashlib.sha256()
    while block := source.read(1 << 20):
        digest.update(block)
        target.write(block)
    return digest.hexdigest()


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    found = archive.extractfile(entry)
    if found is None:
        raise BundleError(f"{entry.name} is no file, so this is no bundle: '{about_hosts('bundle')}' makes one")
    return found


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry


def main() -> int:
    """Prove and unpack the bundle that is named; prints the folder of the controller's wheels."""
    screen.install()
    try:
        print(unpack(Path(sys.argv[1]).expanduser())[1] / CONTROLLER)
    except BundleError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
