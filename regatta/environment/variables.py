"""Variables that a person gives the processes of a run: by word, by the project, or from a file of hidden values."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regatta.cards import project
from regatta.errors import UsageError
from regatta.frameworks import registry
from regatta.frameworks.plan import IMPORTS

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LINE = re.compile(r"(?:export\s+)?([^=\s]+)\s*=\s*(.*)\Z", re.S)
_OURS = re.compile(
    r"REGATTA_.*"
    r"|PATH|PYTHONUNBUFFERED|HOME|RANK|LOCAL_RANK|GROUP_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE"
    r"|MASTER_ADDR|MASTER_PORT"
)
MOST_BYTES = 100_000
"""Of all variables together: more does not fit with a program's arguments."""


@dataclass(frozen=True)
class Variables:
    """`public` values are in records; those of `hidden` in none, nor in a log, a list or a command line.

    `files`: where hidden values are from.
    """

    public: Mapping[str, str] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict, repr=False)
    files: tuple[Path, ...] = ()

    def beside(self, root: Path) -> "Variables":
        """These, and those that the project whose tree is `root` gives to all its runs. Typed ones come first."""
        own = project.read(root).environment.variables
        for name, value in own.items():
            _check(name, value, f"{root / project.FILE}: [environment.variables]")
        given = {**own, **self.public}
        size = sum(len(name) + len(value) for one in (given, self.hidden) for name, value in one.items())
        if size > MOST_BYTES:
            raise UsageError(
                f"the run's variables have {size:,} bytes, and {MOST_BYTES:,} are possible: let the program read a file"
            )
        return Variables({k: v for k, v in given.items() if k not in self.hidden}, self.hidden, self.files)

    def check_synced(self, root: Path, synced: Collection[str]) -> None:
        """Refuse a file of hidden values that would travel with the code: the paths `synced` of a tree. UsageError."""
        for file in self.files:
            inside = os.path.relpath(file.resolve(), root)
            if inside in synced:
                raise UsageError(
                    f"{file} would be put on all nodes with the code, and its values are to be hidden: let "
                    f".regattaignore leave it out ('/{inside}'), or keep the file outside of the tree"
                )


def typed(words: Sequence[str], files: Sequence[str]) -> Variables:
    """Of `--env NAME=VALUE` (or NAME: this shell's value, hidden) and `--env-file FILE`. UsageError."""
    public: dict[str, str] = {}
    hidden: dict[str, str] = {}
    for file in files:
        hidden |= _read(Path(file).expanduser())
    for word in words:
        name, given, value = word.partition("=")
        if not given and name not in os.environ:
            raise UsageError(f"--env {name}: this shell has no variable of that name; use --env {name}=VALUE")
        _check(name, value, "--env")
        if name == IMPORTS and not given:
            raise UsageError(f"--env {name} needs folders: say --env {name}=FOLDER; the shell's are of this machine")
        hidden.pop(name, None)
        (public if given else hidden)[name] = value if given else os.environ[name]
    return Variables(public, hidden, tuple(Path(file).expanduser() for file in files))


def _read(file: Path) -> dict[str, str]:
    """NAME=VALUE by line: blank lines, lines with #, `export` before it and quotes around a value are as in a shell."""
    try:
        mode = file.stat().st_mode
        if mode & 0o077:
            raise UsageError(f"--env-file {file}: others may read it (mode {mode & 0o777:04o}): chmod 600 {file}")
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"--env-file {file} cannot be read: give a file of lines NAME=VALUE ({reason})") from None
    found = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where = f"--env-file {file}: line {number}"
        match = _LINE.match(line.strip())
        if match is None:  # the line may be a value: it is not shown
            raise UsageError(f"{where}: is not NAME=VALUE")
        name, value = match[1], match[2].strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        _check(name, value, where)
        if name == IMPORTS:
            raise UsageError(f"{where}: {name} is no value to hide: say --env {name}=FOLDER")
        found[name] = value
    return found


def _check(name: str, value: str, where: str) -> None:
    if not _NAME.match(name):
        raise UsageError(f"{where}: '{name[:40]}' is no name of a variable: use letters, digits and _")
    if _OURS.fullmatch(name) or any(re.fullmatch(one.sets, name) for one in registry.every()):
        raise UsageError(f"{where}: {name} is set by Regatta for each process of a run, and cannot be given")
    if "\0" in value:
        raise UsageError(f"{where}: the value of {name} has a zero byte: take it out")
