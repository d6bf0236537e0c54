"""Rules of `.gitignore` where git is not asked, and of `.regattaignore`."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regatta.errors import SyncError

FILE = ".regattaignore"
_END = re.compile(r"(?<!\\) +\Z")


@dataclass(frozen=True)
class Line:
    """A line of a `.gitignore`: `include` is False for `!`; without a slash within it is about names, not paths."""

    pattern: "re.Pattern[str]"
    include: bool
    folders: bool
    names: bool

    def matches(self, path: str, folder: bool) -> bool:
        """Whether the line is about this very path, relative to the line's folder; not only one that it is below."""
        if self.folders and not folder:
            return False
        text = (path.rpartition("/")[2] if self.names else path) + "/" * self.folders
        found = self.pattern.search(text)
        if found is None:
            return False
        end = found.span("ps_d")[1] if "ps_d" in self.pattern.groupindex else -1
        return end in (-1, len(text))


@dataclass(frozen=True)
class Level:
    """The lines of one `.gitignore`, in a folder whose path within the tree is `prefix` (with `/`, or empty)."""

    prefix: str
    lines: tuple[Line, ...]


def level(folder: Path, prefix: str) -> Level | None:
    """The `.gitignore` of a folder, where there is one. As git, it takes no link and passes over bad lines."""
    file = folder / ".gitignore"
    if file.is_symlink() or not file.is_file():
        return None
    return Level(prefix, tuple(line for text in _read(file) if (line := _line(text))))


def ignored(levels: Sequence[Level], path: str, *, folder: bool) -> bool:
    """Whether a path is ignored: the nearest file that says something decides, in it the last line."""
    for one in reversed(levels):
        relative = path[len(one.prefix) :]
        for line in reversed(one.lines):
            if line.matches(relative, folder):
                return line.include
    return False


class Own:
    """The `.regattaignore` of a tree: what it leaves out, and what it takes in (`!pattern`)."""

    def __init__(self, root: Path) -> None:
        file = root / FILE
        lines = [line for line in _read(file) if line and not line.startswith("#")]
        self.takes = any(line.startswith("!") for line in lines)
        self._spec = None
        if lines:
            import pathspec

            try:
                self._spec = pathspec.GitIgnoreSpec.from_lines(lines)
            except ValueError as error:
                raise SyncError(f"{file}: {error}: correct this pattern") from None

    def out(self, paths: Iterable[str]) -> set[str]:
        """The paths that are left out."""
        return set(self._spec.match_files(paths)) if self._spec else set()

    def taken(self, path: str) -> bool:
        """Whether the last line about a path takes it in."""
        return self._spec is not None and self.takes and self._spec.check_file(path).include is False


def _read(file: Path) -> list[str]:
    try:
        text = file.read_text("utf-8", "surrogateescape").removeprefix("\ufeff")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SyncError(
            f"{file} cannot be read ({error.strerror}): it lists what is not synced; correct or remove it"
        ) from None
    return [line.removesuffix("\r") for line in text.split("\n")]


def _line(text: str) -> Line | None:
    import pathspec

    try:
        made = list(pathspec.GitIgnoreSpec.from_lines([text]).patterns)
    except ValueError:
        return None
    if not made or made[0].include is None or made[0].regex is None:
        return None
    bare = _END.sub("", text)
    folders = bare.endswith("/")
    return Line(made[0].regex, made[0].include, folders, names="/" not in bare.rstrip("/"))
