"""Requirements and a base -> the packages that a layer has, each with the files that may be it. uv resolves.

The base is a part of what is resolved: its own packages' needs hold, and its versions are kept wherever the
requirements allow. So a layer never breaks what is below it. Another torch or Ray is only that run's.
"""

import contextlib
import re
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from regatta.environment import base as bases
from regatta.environment import companions, lists, locks, python_range, uv
from regatta.environment.base import Base, canonical
from regatta.environment.names import ELSEWHERE, Names
from regatta.environment.own import OwnPackage
from regatta.environment.pyproject import document
from regatta.environment.requirements import FOUND, UV_LOCK, Wanted, digest
from regatta.environment.sources import Index, Sources
from regatta.errors import EnvironmentFault
from regatta.frameworks import registry

FORMAT = 3
"""Raised when a layer of the same packages is made in another way."""
_HASH = re.compile(r"--hash[= ]\s*sha256:([0-9a-f]{64})")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
_EXPORT = ("export", "--quiet", "--frozen", "--no-dev", "--no-emit-local", "--no-annotate")
_CUDA = ("nvidia-", "cuda-")
_COMPANIONS = "regatta-companions"
"""The index that has only packages of the build of the nodes' own, such as torch's."""
_UNSATISFIABLE = "No solution found"


@dataclass(frozen=True)
class File:
    """A file that a package may be: where it is, and its SHA-256; `size` in bytes, 0: not known. `source`: no wheel."""

    url: str
    sha256: str
    size: int = 0
    source: bool = False


@dataclass(frozen=True)
class Pinned:
    """A package of a layer; `instead` is the version of the base's that it hides."""

    name: str
    version: str
    files: tuple[File, ...]
    instead: str | None = None


@dataclass(frozen=True)
class Resolution:
    """The content of a layer: `key` names it; `base` is that of the nodes, for the Python X.Y `minor` and the
    `platform`.
    """

    key: str
    base: str
    minor: str
    platform: str
    packages: tuple[Pinned, ...]
    own: tuple[OwnPackage, ...] = ()

    @property
    def size(self) -> int:
        """Bytes to download, as far as the index tells."""
        return sum(max((file.size for file in package.files), default=0) for package in self.packages)

    @property
    def versions(self) -> dict[str, str]:
        """The version of each package."""
        return {package.name: package.version for package in self.packages}

    def runs_on(self, platform: str) -> bool:
        """Whether its wheels run on a platform, `<machine>-manylinux_2_<n>` (C library 2.n)."""
        mine, theirs = (one.rpartition("_") for one in (self.platform, platform))
        return mine[0] == theirs[0] and int(mine[2]) <= int(theirs[2])

    def headline(self) -> str:
        """Return what is brought, in one line."""
        fresh = [f"{one.name} {one.version}" for one in self.packages if not one.instead]
        other = [f"{one.name} {one.version} for {one.instead}" for one in self.packages if one.instead]
        words = (
            [f"{len(fresh)} package{'s' if len(fresh) > 1 else ''} beyond the base ({_some(fresh)})"] if fresh else []
        )
        words += [f"{len(other)} in another version ({_some(other)})"] if other else []
        if own := [
            f"{one.name} {one.version}" for one in self.packages if one.instead and one.name in registry.packages()
        ]:
            words.insert(0, f"its own {' and '.join(own)}")
        size = f"{self.size / 1e6:.1f} MB" if self.size >= 1e5 else f"{max(1, self.size // 1000)} kB"
        if not all(any(file.size for file in one.files) for one in self.packages):
            size += " at least"
        return f"environment: {', '.join([*words, *([size] if self.size else []), f'layer {self.key}'])}"

    def hint(self) -> str:
        """Return how its own framework can be had smaller; empty where it is as the nodes' is."""
        indexes = {name: one.cpu_builds for one in registry.every() for name in one.packages if one.cpu_builds}
        large = next((one for one in self.packages if one.name in indexes and "+cpu" in (one.instead or "")), None)
        if large is None or not any(one.name.startswith(_CUDA) for one in self.packages):
            return ""
        return (
            f"environment: this {large.name} brings CUDA's libraries, which the nodes' own does without; for its build "
            f"for CPUs write '--extra-index-url {indexes[large.name]}' and '{large.name}=={large.version}+cpu' into "
            "requirements.txt"
        )

    def as_json(self) -> dict[str, Any]:
        """For `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Resolution":
        """Of what `as_json` gave. KeyError, TypeError where it is none."""
        packages = tuple(
            Pinned(**{**one, "files": tuple(File(**file) for file in one["files"])}) for one in value["packages"]
        )
        own = tuple(OwnPackage.from_json(one) for one in value["own"])
        return cls(**{**value, "packages": packages, "own": own})


def resolve(wanted: Wanted, base: Base, root: Path, say: Callable[[str], None]) -> Resolution | None:
    """The layer for what is wanted; None where the base has it all. EnvironmentFault explains."""
    base = base.beside(wanted.provided)
    try:
        return _resolution(wanted, base, root, say)
    except companions.OtherBuild as lacking:
        if not lacking.index:
            raise
        theirs = Index(({"index": _COMPANIONS},), ({"name": _COMPANIONS, "url": lacking.index},))
        taken = Sources(indexes=dict.fromkeys(lacking.names, theirs)).beside(wanted.sources)
        try:
            return _resolution(replace(wanted, sources=taken), base, root, say)
        except EnvironmentFault:
            raise lacking from None


def _resolution(wanted: Wanted, base: Base, root: Path, say: Callable[[str], None]) -> Resolution | None:
    chosen, allowed, entries, names = dict[str, str](), dict[tuple[str, str], set[str]](), {}, set[str]()
    if wanted.asks:
        with tempfile.TemporaryDirectory(prefix="regatta-environment-") as temporary:
            task = _Task(wanted, base, Path(temporary), root, say)
            bases.stubs(base, task.work / "base")
            hashes = task.read()
            found = task.found()
            names = {name for name in found if name in task.names.own}
            chosen = {
                name: version for name, version in found.items() if name not in names and not _is(base, name, version)
            }
            entries = task.files(chosen) if chosen else {}
        locked = _locked(wanted)
        allowed = {pin: hashes.get(pin[0], set()) | locked.get(pin, set()) for pin in sorted(chosen.items())}
    own = tuple(one for one in wanted.own if one.built or canonical(one.name) in names)
    if not chosen and not own:
        return None
    packages = tuple(
        Pinned(name, version, _allowed(name, version, entries, known), _instead(base, name))
        for (name, version), known in allowed.items()
    )
    identity: list[Any] = [FORMAT, base.id]
    identity += [[(p.name, p.version, sorted(file.sha256 for file in p.files)) for p in packages]]
    identity += [[(one.metadata, one.entry_points) for one in own]]
    return Resolution(digest(identity)[:12], base.id, base.minor, base.platform, packages, own)


class _Task:
    """The resolution of one list, in the empty folder `work`."""

    def __init__(self, wanted: Wanted, base: Base, work: Path, root: Path, say: Callable[[str], None]) -> None:
        self.wanted, self.base, self.work, self.root, self.say = wanted, base, work, root, say
        self.names = Names(wanted.own, wanted.sources, work)
        self._lists: list[str] = []
        self._words: list[str] = []

    @property
    def _merged(self) -> bool:
        """Whether a list names several indexes as pip does."""
        named = (line.split()[-1] for line in self.wanted.index if line.startswith("--extra-index-url"))
        return any(url not in self.wanted.sources.more for url in named)

    def read(self) -> dict[str, set[str]]:
        """Make the files that uv reads; gives the SHA-256 that a lock allows for each package."""
        wanted, hashes = self.wanted, dict[str, set[str]]()
        for text in wanted.more:
            try:
                Requirement(text)
            except InvalidRequirement as error:
                why = str(error).splitlines()[0]
                raise EnvironmentFault(f"'{text}' is no requirement: write NAME or NAME==VERSION ({why})") from None
        self._list("with.txt", [*wanted.index, *wanted.more])
        file = wanted.file
        if file is None:
            return hashes
        if file.name == UV_LOCK:
            python_range.fits(document(file).get("requires-python"), self.base.python, file)
            chosen = [word for one in wanted.extras for word in ("--extra", one)]
            chosen += [word for one in wanted.groups for word in ("--group", one)]
            words = [*_EXPORT, *chosen, "--project", str(file.parent)]
            told = uv.run(words, cwd=file.parent, what=f"reading {file}")
            self._list("uv-lock.txt", locks.of_uv(file, _without_hashes(told), self.names))
            return _hashes(told)
        if wanted.lines is None:
            table = document(file)
            python_range.fits(table.get("requires-python"), self.base.python, file)
            self._list("pylock.txt", locks.of_pylock(file, table, self.names, hashes))
            return hashes
        python_range.check(self.base.python, file.parent, file if file.name not in FOUND else None)
        self._list(f"listed-{file.stem}.txt", list(wanted.lines))
        return _hashes("\n".join(wanted.lines))

    def _list(self, name: str, lines: Sequence[str]) -> None:
        path = self.work / name
        path.write_text("".join(f"{self._in_utf8(line)}\n" for line in lines), encoding="utf-8")
        self._lists.append(str(path))
        self.names.ask({found for line in lines if (found := lists.name_of(line))})

    def _in_utf8(self, line: str) -> str:
        """Return a line; of a file of limits in an encoding that uv does not read it names a copy."""
        file = Path(line.removeprefix(lists.LIMITS))
        if not line.startswith(lists.LIMITS) or file.read_bytes().decode("utf-8", "ignore") == lists.text(file):
            return line
        copy = self.work / f"limits-{len(list(self.work.iterdir()))}.txt"
        copy.write_text(lists.text(file), encoding="utf-8")
        return f"{lists.LIMITS}{copy}"

    def found(self) -> dict[str, str]:
        """Return the version of each package of base and requirements together, each from where it may come."""
        while True:
            more, self._words = self.names.arrange()
            found = self._versions([*self._lists, *more])
            if not self.names.again(found):
                return found

    def _versions(self, listed: list[str]) -> dict[str, str]:
        """The versions in which large packages, and services, stay as they are where that is possible. If it is not,
        the run gets another one of its own, unless it is fixed.
        """
        wanted, base = self.wanted, self.base
        fixed = [name for name in (*registry.packages(), *wanted.provided) if name in base.packages]
        first: EnvironmentFault | None = None
        while True:
            try:
                found = self._resolved(listed, fixed)
                if ELSEWHERE in found.values():
                    return found

                def again(more: Sequence[str], kept: Collection[str] = tuple(fixed)) -> dict[str, str]:
                    companions_too = self.work / "companions.txt"
                    companions_too.write_text("".join(f"{line}\n" for line in (*wanted.index, *more)))
                    return self._resolved([*listed, str(companions_too)], kept)

                return companions.together(found, base, again)
            except EnvironmentFault as error:
                if _UNSATISFIABLE not in str(error):
                    raise
                first = first or error
                loose = next((name for name in fixed if name not in wanted.fixed), None)
                if loose is None:
                    self._explain(listed)
                    raise (first if wanted.fixed else error) from None
                fixed.remove(loose)

    def _resolved(self, listed: list[str], fixed: Collection[str]) -> dict[str, str]:
        """The versions, with those of `fixed` as the base has them; of other frameworks only what is asked for."""
        wanted, base = self.wanted, self.base
        roots, out = self.work / "roots.txt", self.work / "resolved.txt"
        own = {*registry.packages(), *wanted.provided, *self.names.own}
        roots.write_text("".join(f"{one.name}\n" for name, one in base.packages.items() if name not in own))
        pins = self.work / "pins.txt"
        kept = [name for name in fixed if name not in self.names.own]
        pins.write_text("".join(f"{base.packages[name].name}=={base.packages[name].version}\n" for name in kept))
        locked = [line for line in _without_hashes(_text(wanted.lock)).splitlines() if _PIN.match(line)]
        beyond = [line for line in locked if canonical(line.partition("==")[0]) not in base.packages]
        out.write_text("".join(f"{pin}\n" for pin in [*base.pins, *beyond]))  # what is there is kept where it can be
        return self._compiled([*listed, str(roots), str(pins)], out, self.work / "base")

    def _compiled(self, listed: list[str], out: Path, *links: Path) -> dict[str, str]:
        words = ["pip", "compile", "--quiet", "--annotation-style", "line", "--no-header", "--output-file", str(out)]
        words += [*_target(self.base), *self._words, *listed]
        self._uv(words, f"resolving {self.wanted.label}", links=[self.names.links, *links])
        found = {}
        for line in out.read_text().splitlines():
            name, pinned, version = line.partition("==")
            if pinned:
                found[canonical(name.strip())] = version.split()[0]
            elif "@" in line:
                raise EnvironmentFault(f"{self.wanted.label}: '{uv.PRIVATE.sub('//', line)}': {lists.NO_URL}")
        return found

    def _uv(self, words: Sequence[str], what: str, *, links: Sequence[Path] = (), first: str = "") -> None:
        """Run uv. In its EnvironmentFault, lists that were made here have the name of the person's own."""
        try:
            uv.run(words, links=links, cwd=self.root, what=what, say=self.say, merged=self._merged, first=first)
        except EnvironmentFault as error:
            made = re.compile(rf"`?({re.escape(str(self.work))}/[\w.-]+\.txt)(?::(\d+):\d+)?`?")
            told = made.sub(self._named, str(error))
            wrong = "" if told == str(error) else f"\nCorrect that line: {lists.A_LINE}"
            raise EnvironmentFault(told + wrong) from None

    def _named(self, found: re.Match[str]) -> str:
        """The list of a person in place of the one that was made of it, with the line that uv has named."""
        if not found[2]:
            return self.wanted.label
        lines = Path(found[1]).read_text(encoding="utf-8").splitlines()
        return f"{self.wanted.label}: '{lines[int(found[2]) - 1]}'"

    def _explain(self, listed: list[str]) -> None:
        """If only a fixed package contradicts, name it with both versions."""
        wanted, out = self.wanted, self.work / "resolved.txt"
        out.write_text("")
        try:
            found = self._compiled(listed, out)
        except EnvironmentFault:
            return  # contradicts itself: uv's explanation says how
        for name, version in found.items():
            mine = self.base.packages.get(name)
            if name not in wanted.fixed or mine is None:
                continue
            if version.partition("+")[0] != mine.version.partition("+")[0]:
                by = [one for one in _asking(name, out.read_text()) if canonical(one) not in wanted.fixed]
                for_it = f" for {', '.join(by)}" if by else ""
                what = f"take a version of {by[0]} that allows" if by else "let the requirement allow"
                raise EnvironmentFault(
                    f"{wanted.label} needs {mine.name} {version}{for_it}, and the cluster runs {mine.name} "
                    f"{mine.version}, which such a run has to have, too: {what} {mine.version}, run it under "
                    "another framework, or provision the cluster with its own lock "
                    "(docs/how-to/python-environment.md)"
                )

    def files(self, chosen: Mapping[str, str]) -> dict[str, tuple[File, ...]]:
        """The files of each package for the nodes' machine: its wheels, or where it has none its source.

        Of several indexes that are one to pip, uv takes a version from the first that has it: for a wheel of plain
        Python the others are asked, too, as they may have the one for this machine.
        """
        found = self._files(chosen)
        explicit = self.names.of(chosen)
        plain = {name: chosen[name] for name, files in found.items() if name not in explicit and _plain(files)}
        for index in uv.several(self._merged)[1:] if plain else ():
            with contextlib.suppress(EnvironmentFault):
                found |= {name: files for name, files in self._files(plain, index).items() if not _plain(files)}
        return found

    def _files(self, chosen: Mapping[str, str], first: str = "") -> dict[str, tuple[File, ...]]:
        exact, lock = self.work / "exact.txt", self.work / "pylock.layer.toml"
        lines = [*self.wanted.index, *(f"{name}=={version}" for name, version in chosen.items()), ""]
        exact.write_text("\n".join(lines))
        lock.unlink(missing_ok=True)
        words = ["pip", "compile", "--quiet", "--no-deps", "--format", "pylock.toml", "--output-file", str(lock)]
        words += [*_target(self.base), str(exact)]
        if elsewhere := self.names.of(chosen):
            words.append(str(self.names.pyproject(elsewhere)))
        self._uv(words, "looking for the packages' files", first=first)
        found = {}
        for package in document(lock).get("packages", []):
            wheels = [_file(one) for one in package.get("wheels", [])]
            source = [_file(package["sdist"], source=True)] if "sdist" in package else []
            found[canonical(package["name"])] = tuple(wheels or source)
        return found


def _plain(files: Sequence[File]) -> bool:
    """Whether none of these is a wheel for one kind of machine."""
    return all(file.source or file.url.endswith("-none-any.whl") for file in files)


def _asking(name: str, resolved: str) -> list[str]:
    """The packages that ask for one, in what uv has resolved."""
    found = re.search(rf"^{re.escape(name)}==.*# via (.*)$", resolved, re.M | re.I)
    return [one for one in found[1].split(", ") if not one.startswith("-")] if found else []


def _logical(text: str) -> list[str]:
    return re.sub(r"\\\r?\n", " ", text).splitlines()


def _without_hashes(text: str) -> str:
    return "".join(f"{_HASH.sub('', line).rstrip()}\n" for line in _logical(text))


def _hashes(text: str) -> dict[str, set[str]]:
    """The SHA-256 that a list names for its packages."""
    found: dict[str, set[str]] = {}
    for line in _logical(text):
        if (values := _HASH.findall(line)) and (name := re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", line)):
            found.setdefault(canonical(name[1]), set()).update(values)
    return found


def _locked(wanted: Wanted) -> dict[tuple[str, str], set[str]]:
    """The SHA-256 that the lock next to the list names, by package and version."""
    found: dict[tuple[str, str], set[str]] = {}
    for line in _logical(_text(wanted.lock)):
        if pin := _PIN.match(line):
            name = canonical(pin[1])
            found.setdefault((name, pin[2]), set()).update(_hashes(line).get(name, ()))
    return found


def _text(file: Path | None) -> str:
    return file.read_text(encoding="utf-8") if file else ""


def _file(table: Mapping[str, Any], *, source: bool = False) -> File:
    where = table.get("url") or f"file://{table.get('path')}"
    return File(str(where), str(table.get("hashes", {}).get("sha256", "")), int(table.get("size", 0)), source)


def _allowed(name: str, version: str, entries: Mapping[str, tuple[File, ...]], known: set[str]) -> tuple[File, ...]:
    """The files that may be the package: those whose SHA-256 the lock has, where it has any."""
    files = [file for file in entries.get(name, ()) if file.sha256]
    if not files:
        raise EnvironmentFault(
            f"the index tells no SHA-256 of {name} {version}, so that nothing would prove it: name another version"
        )
    if known and not (files := [file for file in files if file.sha256 in known]):
        raise EnvironmentFault(
            f"{name} {version}: the index has other files than the lock: none has a SHA-256 that the lock names. "
            "Either the file there was replaced, or the lock is not the right one: lock again"
        )
    return tuple(files)


def _target(base: Base) -> list[str]:
    """For whom is resolved. Source tells its needs by this Python's setuptools: in its own place it would find the
    stub of the base's."""
    own = ["--python", uv.BUILDER, "--no-build-isolation"]
    return [*own, "--python-version", base.minor, "--python-platform", base.platform]


def _is(base: Base, name: str, version: str) -> bool:
    mine = base.packages.get(name)
    return mine is not None and mine.version == version


def _instead(base: Base, name: str) -> str | None:
    return base.packages[name].version if name in base.packages else None


def _some(items: list[str]) -> str:
    return ", ".join(items[:4]) + (", ..." if len(items) > 4 else "")
