"""A package that is published as source for a compiler: built once on the first node, kept as a wheel in the cache."""

import base64
import hashlib
import tarfile
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from regatta import files, paths
from regatta.environment import uv
from regatta.environment.pyproject import document
from regatta.environment.resolve import File, Pinned
from regatta.errors import EnvironmentFault, RemoteError
from regatta.hosts import rsync
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta_protocol.operations.layers import BeginLayer, BuildWheel, BuiltWheel
from regatta_protocol.operations.releases import Abandon

SECONDS = 1300.0
_DEFAULT: dict[str, Any] = {"requires": ["setuptools", "wheel"], "build-backend": "setuptools.build_meta:__legacy__"}


class Compiler:
    """Builds on one node, for all that have the Python X.Y `minor` and the `platform`."""

    def __init__(self, remote: Remote, node: Node, say: Callable[[str], None]) -> None:
        self._remote, self._node, self._say = remote, node, say

    def wheel(self, package: Pinned, minor: str, platform: str, work: Path) -> File:
        """The package's wheel; `work` is an empty folder. EnvironmentFault says why there is none."""
        source = package.files[0]
        kept = paths.cache_dir() / "built" / f"{source.sha256[:32]}-{minor}-{platform}"
        if not [*kept.glob("*.whl")]:
            self._say(f"environment: building {package.name} {package.version} from source on {self._node.name}")
            name, content = self._built(package, minor, platform, work)
            kept.mkdir(parents=True, exist_ok=True)
            with files.replacing(kept / name) as new:
                new.write_bytes(content)
        (path,) = kept.glob("*.whl")
        return File(path.as_uri(), files.sha256(path), path.stat().st_size)

    def _built(self, package: Pinned, minor: str, platform: str, work: Path) -> tuple[str, bytes]:
        source = download(package.files[0], work)
        system = {**_DEFAULT, **_build_system(source)}
        needs = _needs(system["requires"], minor, platform, work, package)
        sent = [source, *([needs] if needs else [])]
        try:
            said = self._ask(package, sent, source, needs, system)
        except RemoteError as error:
            raise EnvironmentFault(f"{package.name} {package.version} cannot be built: {error}") from None
        if said.error:
            lines = "\n".join(f"  {line}" for line in said.error.splitlines())
            raise EnvironmentFault(
                f"{package.name} {package.version} is published as source for a compiler, and {self._node.name} cannot "
                f"build it:\n{lines}\nInstall there what it lacks (gcc and python3-dev at least), name a version that "
                "has a wheel, or put a wheel into a folder that PIP_FIND_LINKS names"
            )
        return Path(said.name).name, base64.b64decode(said.content)

    def _ask(
        self, package: Pinned, sent: list[Path], source: Path, needs: Path | None, system: dict[str, Any]
    ) -> BuiltWheel:
        remote, node = self._remote, self._node
        size = 10 * sum(path.stat().st_size for path in sent)
        incoming = remote.call(node, BeginLayer(f"build-{package.files[0].sha256[:12]}", size)).incoming
        try:
            rsync.rsync(remote, node, source.parent, [path.name for path in sent], incoming)
            asked = BuildWheel(
                incoming=incoming,
                source=source.name,
                sha256=package.files[0].sha256,
                needs=needs.name if needs else None,
                backend=system["build-backend"],
                backend_path=tuple(system.get("backend-path", ())),
            )
            return remote.call(node, asked, timeout=SECONDS)
        finally:
            remote.gather([node], lambda _: remote.call(node, Abandon(incoming), timeout=5))


def download(file: File, folder: Path) -> Path:
    """The file, proven by its SHA-256. EnvironmentFault says what came instead."""
    target = folder / Path(unquote(urlsplit(file.url).path)).name
    request = urllib.request.Request(file.url)
    for index in uv.indexes():
        there = urlsplit(index)
        if there.username and there.hostname == urlsplit(file.url).hostname:
            word = f"{unquote(there.username)}:{unquote(there.password or '')}"
            request.add_unredirected_header("Authorization", f"Basic {b64encode(word.encode()).decode()}")
    digest = hashlib.sha256()
    try:
        with urllib.request.urlopen(request, timeout=60) as answer, target.open("wb") as out:
            while block := answer.read(1 << 20):
                digest.update(block)
                out.write(block)
    except (OSError, urllib.error.URLError) as error:
        raise EnvironmentFault(f"{_plain(file.url)} cannot be downloaded: start the run again ({error})") from None
    if digest.hexdigest() != file.sha256:
        raise EnvironmentFault(f"{_plain(file.url)} has another SHA-256 than the index says: name another version")
    return target


def _plain(url: str) -> str:
    """A URL without a password in it."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _build_system(source: Path) -> dict[str, Any]:
    """`[build-system]` of a source archive; {} where it says nothing."""
    try:
        with tarfile.open(source) as archive:
            for entry in archive:
                if entry.name.count("/") == 1 and entry.name.endswith("/pyproject.toml") and entry.isreg():
                    opened = archive.extractfile(entry)
                    said = source.with_name("pyproject.toml")
                    said.write_bytes(opened.read() if opened else b"")
                    return dict(document(said).get("build-system", {}))
    except (OSError, tarfile.TarError) as error:
        raise EnvironmentFault(f"{source.name} is a damaged archive: name another version ({error})") from None
    return {}


def _needs(requires: list[str], minor: str, platform: str, work: Path, package: Pinned) -> Path | None:
    """Return what the package is built with, as an archive."""
    if not requires:
        return None
    tree = work / "needs"
    words = ["pip", "install", "--quiet", "--link-mode", "copy", "--only-binary", ":all:", "--target", str(tree)]
    words += ["--python-version", minor, "--python-platform", platform, *requires]
    uv.run(words, cwd=work, what=f"downloading what {package.name} is built with")
    target = work / "needs.tar.gz"
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for path in sorted(tree.iterdir()):
            archive.add(path, path.name)
    return target
