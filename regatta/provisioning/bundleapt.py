"""Debian packages for a bundle: a part of the repositories that this machine's apt knows, signatures and all.

It is a closure from nothing, so that a host's own apt finds whatever *it* lacks, and verifies it against the keys that
it has, as it would from the repositories themselves.
"""

import gzip
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote

from regatta.node import siteproxy
from regatta.node.aptcache import BUNDLE_HOST
from regatta.program import option
from regatta.provisioning import progress
from regatta.provisioning.bundle import BundleError

FOLDER = "apt"
_TIMEOUT = 60.0
_WAITS = (1.0, 5.0, 15.0)
"""Seconds before a download is tried again."""
_AT_A_TIME = 8
_POCKETS = ("", "-updates", "-security")
_FIELDS = ("Package", "Version", "Architecture", "SHA256", "Filename")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Suite:
    """The versions of a release of Debian or Ubuntu, and its public repositories."""

    python: str
    glibc: str
    components: str
    main: str
    security: str


_DEBIAN = ("http://deb.debian.org/debian", "http://deb.debian.org/debian-security")
_UBUNTU = ("http://archive.ubuntu.com/ubuntu", "http://security.ubuntu.com/ubuntu")
SUITES = {
    "bookworm": Suite("3.11.2", "2.36", "main", *_DEBIAN),
    "jammy": Suite("3.10.12", "2.35", "main universe", *_UBUNTU),
    "noble": Suite("3.12.3", "2.39", "main universe", *_UBUNTU),
    "resolute": Suite("3.14.3", "2.43", "main universe", *_UBUNTU),
}


@dataclass(frozen=True)
class Source:
    """A repository: `uri`, the release in it, its components."""

    uri: str
    release: str
    components: tuple[str, ...]

    def line(self, uri: str | None = None) -> str:
        """As sources.list has it."""
        return f"deb {uri or self.uri} {self.release} {' '.join(self.components)}"


@dataclass(frozen=True)
class Package:
    """A package as its repository's list has it."""

    name: str
    version: str
    architecture: str
    sha256: str


def choose(suite: str) -> Suite:
    """Return what is known of a release; BundleError names those that are."""
    if suite not in SUITES:
        raise BundleError(f"{option(suite=suite)}: a bundle can be made for {', '.join(SUITES)}")
    return SUITES[suite]


def sources(suite: str, own: Sequence[tuple[str, str, str]]) -> list[Source]:
    """The release's repositories: this machine's `own` (URI, release, component) where it has them, else the public."""
    known = choose(suite)
    found = []
    for pocket in _POCKETS:
        release = suite + pocket
        named = [uri.rstrip("/") for uri, its, part in own if its == release and part == "main"]
        public = known.security if pocket == "-security" else known.main
        found.append(Source(named[0] if named else public, release, tuple(known.components.split())))
    return found


def own_sources() -> list[tuple[str, str, str]]:
    """The repositories of this machine's apt."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    out = _apt(["indextargets", "--format", form, "Created-By: Packages"], "asking apt for its repositories")
    return [(words[0], words[1], words[2]) for line in out.splitlines() if len(words := line.split()) == 3]


def mirror(
    folder: Path, wanted: Iterable[str], chosen: Sequence[Source], machine: str
) -> tuple[list[str], dict[str, Package]]:
    """Fill `folder` with what `wanted` packages need; returns the lines for apt on a host, and the packages by their
    places in `folder`. Raises BundleError."""
    if machine not in _ARCHITECTURES:
        raise BundleError(f"MACHINE={machine}: a bundle can be made for {', '.join(_ARCHITECTURES)}")
    architecture = _ARCHITECTURES[machine]
    known: dict[str, Package] = {}
    for number, source in enumerate(chosen):
        known |= _indexes(folder / str(number), source, architecture)
    found = closure(folder.with_name("work"), wanted, [source.line() for source in chosen], architecture)
    told = progress.telling(lambda: (f"{len(found)} Debian packages,", progress.size(folder), None))
    with told, ThreadPoolExecutor(_AT_A_TIME) as pool:
        packages = dict(done.result() for done in [pool.submit(_package, folder, chosen, url, known) for url in found])
    return [source.line(f"http://{BUNDLE_HOST}/{number}") for number, source in enumerate(chosen)], packages


def closure(work: Path, wanted: Iterable[str], lines: Iterable[str], architecture: str) -> list[str]:
    """URLs of all packages that a host without any would need."""
    shutil.rmtree(work, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    (work / "sources.list").write_text("".join(f"{line}\n" for line in lines))
    (work / "status").touch()
    settings = {
        "Dir::Etc::SourceList": f"{work}/sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State": str(work),
        "Dir::State::Lists": f"{work}/lists",
        "Dir::State::status": f"{work}/status",
        "Dir::Cache": f"{work}/cache",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "false",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "true",
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    try:
        _apt([*options, "update"], "reading the repositories")
        names = [_first(name, options) for name in wanted]
        out = _apt([*options, "--print-uris", "--yes", "install", *names], "resolving the packages")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return re.findall(r"^'([^']+)' ", out, re.M)


def _first(name: str, options: Sequence[str]) -> str:
    """A package; of `one|other` the first that the repositories have."""
    among = name.split("|")
    if len(among) == 1:
        return name
    said = _apt([*options, "policy", *among], "looking for packages", "apt-cache")
    has = set(re.findall(r"^(\S+):\n(?:  .*\n)*?  Candidate: (?!\(none\))", said, re.M))
    for one in among:
        if one in has:
            return one
    raise BundleError(f"the repositories have none of {', '.join(among)}: make the bundle for another suite")


def _indexes(folder: Path, source: Source, architecture: str) -> dict[str, Package]:
    """InRelease, and the lists of packages that it names, as they are in the repository; the packages by URL."""
    base = f"{source.uri}/dists/{source.release}"
    there = folder / "dists" / source.release
    signed = _download(f"{base}/InRelease", there / "InRelease").read_text(errors="replace")
    sums = {name: sha256 for sha256, _, name in (line.split() for line in _section(signed, "SHA256"))}
    found = {}
    for component in source.components:
        name = f"{component}/binary-{architecture}/Packages"
        packed = next((f"{name}{end}" for end in (".xz", ".gz") if f"{name}{end}" in sums), None)
        if packed is None:
            raise BundleError(
                f"{base} has no packages of {component} for {architecture}: make the bundle for another suite"
            )
        listed = _download(f"{base}/{packed}", there / packed, sums[packed])
        with (lzma if packed.endswith(".xz") else gzip).open(listed, "rt") as packages:
            for paragraph in packages.read().split("\n\n"):
                fields = dict(re.findall(rf"^({'|'.join(_FIELDS)}): (\S+)$", paragraph, re.M))
                if len(fields) == len(_FIELDS):
                    *described, place = (fields[name] for name in _FIELDS)
                    found[f"{source.uri}/{place}"] = Package(*described)
    return found


def _section(text: str, name: str) -> list[str]:
    found = re.search(rf"^{name}:\n((?: .*\n)+)", text, re.M)
    return found[1].splitlines() if found else []


def _package(folder: Path, chosen: Sequence[Source], url: str, known: Mapping[str, Package]) -> tuple[str, Package]:
    path = unquote(url)
    for number, source in enumerate(chosen):
        if path in known and path.startswith(f"{source.uri}/"):
            place = f"{number}/{path.removeprefix(f'{source.uri}/')}"
            _download(url, folder / place, known[path].sha256)
            return place, known[path]
    uris = ", ".join(source.uri for source in chosen)
    raise BundleError(f"{url} is promised by none of the repositories {uris}: try again")


def _download(url: str, target: Path, sha256: str = "") -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    body = _body(url)
    if sha256 and hashlib.sha256(body).hexdigest() != sha256:
        raise BundleError(f"{url} is not what its repository promises (its SHA-256 differs); try again")
    target.write_bytes(body)
    return target


def _body(url: str) -> bytes:
    """What is there. A connection that fails is tried again: a bundle takes hundreds."""
    for seconds in (*_WAITS, None):
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
                body: bytes = answer.read()
                return body
        except (OSError, HTTPException) as error:
            refused = isinstance(error, urllib.error.HTTPError) and error.code < 500
            if refused or seconds is None:
                raise BundleError(f"{url} cannot be downloaded{siteproxy.shown(url)} ({error}); try again") from None
            time.sleep(seconds)
    raise AssertionError


def _apt(words: Sequence[str], what: str, program: str = "apt-get") -> str:
    try:
        env = os.environ | {"LC_ALL": "C"}
        done = subprocess.run([program, *words], capture_output=True, text=True, errors="replace", env=env, check=False)
    except FileNotFoundError:
        raise BundleError("make the bundle on a Debian or Ubuntu machine: this one has no apt-get") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")] or done.stderr.splitlines()
        raise BundleError(f"{what} failed; try again: {' / '.join(errors[-4:]) or 'apt-get gave no message'}")
    return done.stdout
