"""Names that are taken from where a project's tables say, and from nowhere else, while uv resolves.

A package of the tree is there as a wheel of no content, in a version that no index may have. A package from an
index of its own goes to uv as its own file has it. All else that has a source is not taken.
"""

from collections.abc import Collection, Mapping
from fnmatch import fnmatch
from pathlib import Path

from regatta.environment import base as bases
from regatta.environment import own, sources
from regatta.environment.own import OwnPackage
from regatta.environment.sources import Index
from regatta.errors import EnvironmentFault

ELSEWHERE = "0+elsewhere"
"""The version of a stub for a name that may not come from any other index."""


class Names:
    """The names of one list: files for uv in the folder `work`. `direct`: names that the list itself asks for."""

    def __init__(self, wanted_own: tuple[OwnPackage, ...], taken: sources.Sources, work: Path) -> None:
        self._taken, self._work = taken, work
        self.own = own.by_name(wanted_own)
        self.indexes: dict[str, Index] = {}
        self.direct = set[str]()
        self.links = work / "own"

    def index(self, name: str, index: Index) -> None:
        """Take a package from an index, as a lock says."""
        self._taken = self._taken.beside(sources.Sources(indexes={name: index}))

    def ask(self, names: Collection[str]) -> None:
        """Add names that a list asks for. EnvironmentFault for one that comes from where runs take none."""
        for name in names:
            if name in self._taken.refused and name not in self.own:
                raise EnvironmentFault(self._taken.refused[name])
            self.direct.add(name)

    def arrange(self) -> tuple[list[str], list[str]]:
        """Return lists and words for uv; stubs are in the folder `links`."""
        self.links.mkdir(exist_ok=True)
        for package in self.own.values():
            bases.stub(self.links, package.name, package.stub_version, package.stub)
        self.indexes = self.of(self.direct)
        held = {*self._taken.refused, *(name for name in self._taken.indexes if "*" not in name)}
        held -= {*self.own, *self.indexes}
        for name in held:
            bases.stub(self.links, name, ELSEWHERE, f"Metadata-Version: 2.1\nName: {name}\nVersion: {ELSEWHERE}\n\n")
        fixed = [f"{one.name}=={one.stub_version}" for one in self.own.values() if one.known]
        instead = [f"{one.name}=={one.stub_version}" for one in self.own.values() if not one.known]
        instead += [f"{name}=={ELSEWHERE}" for name in sorted(held)]
        lists = [str(self._written("names/fixed.txt", f"-c {self._written('names/limits.txt', _lines(fixed))}\n"))]
        if self.indexes:
            lists.append(str(self.pyproject(self.indexes)))
        return lists, ["--override", str(self._written("names/instead.txt", _lines(instead)))] if instead else []

    def of(self, names: Collection[str]) -> dict[str, Index]:
        """Return those of the names that come from indexes of their own."""
        known = self._taken.indexes
        patterns = {name: index for name, index in known.items() if "*" in name}
        found = {name: known[name] for name in names if name in known and name not in self.own}
        for name in names:
            for pattern, index in patterns.items():
                if fnmatch(name, pattern) and name not in known:
                    found[name] = index
        return found

    def again(self, found: Mapping[str, str]) -> bool:
        """Whether others ask for names with an index, which counts from now on. EnvironmentFault for a refused one."""
        for name in found:
            if name in self._taken.refused and name not in self.own:
                raise EnvironmentFault(self._taken.refused[name])
        more = {*self.of(found)} - {*self.indexes}
        self.direct |= more
        return bool(more)

    def pyproject(self, indexes: Mapping[str, Index]) -> Path:
        """Return a file by which uv takes packages from their indexes."""
        return self._written("names/pyproject.toml", sources.as_pyproject(indexes))

    def _written(self, name: str, text: str) -> Path:
        path = self._work / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
