"""A list of requirements as pip reads it, with all that it includes, and with names in place of folders of the tree."""

import codecs
import contextlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name as canonical

from regatta.environment import own
from regatta.errors import EnvironmentFault

_OPTION = re.compile(r"(-r|-c|--requirement|--constraint)(?:\s+|=|(?<=-[rc]))(\S+)")
_INDEX = re.compile(r"(-i|--index-url|--extra-index-url|-f|--find-links|--no-index)(?:\s+|=|$)(\S*)")
_EDITABLE = re.compile(r"(?:-e|--editable)(?:\s+|=)(.*)")
_REMOTE_SOURCE = re.compile(r"(\S+\s*@\s*)?(git|hg|svn|bzr)\+")
_URL = re.compile(r"(\S+\s*@\s*)?[a-z]+://")
_NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[^\]]*\])?\s*@\s*(.*)")
_FOLDER = re.compile(r"(?P<path>[^\s\[;]+)\s*(?P<extras>\[[^\]]*\])?[^;]*(?P<marker>;[^#]*)?")
_STARTS = (
    *((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32")),
    *((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")),
)
"""The marks of encodings, with which a file begins."""
LIMITS = "-c "
"""So a line begins that names a file of limits."""
A_LINE = "NAME, NAME==1.0, the path of a folder of the tree, or an option of pip"
NO_URL = "a file's URL is not taken: put the wheel into a folder that PIP_FIND_LINKS names, and name its version"

OF_CONDA = (
    "there is no such folder here, as where conda's 'pip freeze' has made the list: write a version instead, as in "
    "NAME==1.0; 'pip list --format=freeze > requirements.txt' writes all so"
)


@dataclass
class Listed:
    """A list: `files` with their texts, `lines` of requirements, `index` lines, and `folders` of the tree in it."""

    project: Path
    tree: Path
    files: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    index: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)

    def read(self, file: Path, *, limits: bool = False) -> None:
        """Add a file and all that it includes. `limits`: it only limits versions. EnvironmentFault names the line."""
        path = file.resolve()
        if str(path) in self.files:
            return
        self.files[str(path)] = text(file)
        for number, raw in enumerate(self.files[str(path)].splitlines(), start=1):
            line = raw.strip()
            where = f"{file}: line {number}: '{line[:80]}'"
            if included := _OPTION.match(line):
                if "://" in included[2]:
                    raise EnvironmentFault(f"{where}: a list from the network is not read: put it next to the project")
                beside = path.parent / included[2]
                limiting = included[1] in ("-c", "--constraint")
                self.read(beside, limits=limits or limiting)
                if limiting and not limits:
                    self.lines.append(f"{LIMITS}{beside}")
            elif option := _INDEX.match(line):
                word = option[2]
                there = path.parent / word
                if option[1] in ("-f", "--find-links") and "://" not in word and not there.exists():
                    raise EnvironmentFault(
                        f"{where}: there is no folder {there}: correct the path, or take out the line"
                    )
                self.index.append(f"{option[1]} {there if word and there.exists() else word}".rstrip())
                self.lines += [] if limits else [self.index[-1]]
            elif not limits:
                self.lines.append(self.plain(raw, where, path.parent))

    def plain(self, raw: str, where: str, start: Path) -> str:
        """Return a line with the name of a package of the tree in place of its folder. EnvironmentFault for a URL."""
        line = raw.strip()
        if not line or line.startswith("#"):
            return raw
        editable = _EDITABLE.match(line)
        said = editable[1].strip() if editable else line
        if _REMOTE_SOURCE.match(said):
            raise EnvironmentFault(
                f"{where}: only published packages are taken, no repository's source: name a version, or put its "
                "source into the tree and give its path"
            )
        named = _NAMED.match(said)
        target = named[2] if named else said
        if _is_path(target, start) or (editable and not _URL.match(target)):
            return self._own(target, (named[1] if named else "") or "", where, start)
        if editable or _URL.match(said):
            raise EnvironmentFault(f"{where}: {NO_URL}")
        return raw

    def _own(self, target: str, extras: str, where: str, start: Path) -> str:
        found = _FOLDER.match(target)
        if not found:
            raise EnvironmentFault(f"{where}: names no folder: write the path of one in the tree")
        path, _, egg = found["path"].partition("#")
        folder = _local(path, start, self.project)
        if not folder.is_dir():
            no_folder = OF_CONDA if path.startswith("file:///") else "there is no such folder: correct the path"
            raise EnvironmentFault(f"{where}: {NO_URL if folder.is_file() else no_folder}")
        if not folder.is_relative_to(self.tree):
            raise EnvironmentFault(
                f"{where}: {folder} is outside of {self.tree}, the tree that is synced, so the nodes would lack it: "
                "put it into the tree (as a git submodule, for example), or its wheel into a folder that "
                "PIP_FIND_LINKS names"
            )
        package = own.read(folder, self.tree)
        if package is None:
            raise EnvironmentFault(
                f"{where}: {folder} has no name of a package: give it a pyproject.toml with [project] name and version"
            )
        self.folders.append(folder)
        extras = extras or found["extras"] or "".join(re.findall(r"\[[^\]]*\]", egg))
        marker = (found["marker"] or "").strip()
        return f"{package.name}{extras}{f' {marker}' if marker.strip('; ') else ''}"


def text(file: Path) -> str:
    """Return the text of a list, in UTF-8, as PowerShell writes it, or in Latin-1 (a comment; names have no accents).

    EnvironmentFault where it cannot be read.
    """
    try:
        raw = file.read_bytes()
        named = next((name for mark, name in _STARTS if raw.startswith(mark)), None)
        if named or b"\0" in raw:
            return _wide(raw, named)
        with contextlib.suppress(UnicodeDecodeError):
            return raw.decode("utf-8")
        return raw.decode("latin-1")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise EnvironmentFault(f"{file}: cannot be read ({reason}); it should list the packages of the run") from None


def _wide(raw: bytes, named: str | None) -> str:
    """A text by the encoding that its mark names; of two bytes a letter where it has none. ValueError for no text."""
    found = raw.decode(named or ("utf-16-be" if raw.startswith(b"\0") else "utf-16-le"))
    if "\0" in found or not (named or found.isascii()):
        raise ValueError
    return found


def name_of(line: str) -> str:
    """Return the canonical name of the package that a line asks for; empty for an option and a comment."""
    line = line.strip()
    if not line or line.startswith(("-", "#")):
        return ""
    try:
        return canonical(Requirement(line).name)
    except InvalidRequirement:
        return canonical(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0])


def extras_of(line: str) -> set[str]:
    """Return the extras that a line asks for."""
    try:
        return set(Requirement(line).extras)
    except InvalidRequirement:
        return set()


def _is_path(target: str, start: Path) -> bool:
    first = re.split(r"[\s\[;#]", target, maxsplit=1)[0]
    if target.startswith(("./", "../", "/", "file:")) or first in (".", ".."):
        return True
    return "/" in first and "://" not in first and (start / first).exists()


def _local(path: str, start: Path, project: Path) -> Path:
    """The folder that a path or a `file:` URL names; relative to its list, or as pip has it, to the project."""
    path = path.replace("${PROJECT_ROOT}", str(project))
    if path.startswith("file:"):
        path = unquote(urlsplit(path).path) if path.startswith("file://") else unquote(path.removeprefix("file:"))
        path = "/" + path.lstrip("/") if path.startswith("/") else path
    there = (start / path).resolve()
    return there if there.exists() else Path(os.path.normpath(project / path)).resolve()
