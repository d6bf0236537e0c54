"""Input that is looked at before it goes to the nodes, by the program that a card names; once for each content."""

import hashlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from regatta import paths
from regatta.cards.card import Workload
from regatta.errors import DataError
from regatta.files import write
from regatta.release.inputs import DataFile

REFUSED = 2
"""The status with which a program says that the nodes would refuse the input."""


def look(
    workload: Workload, module: str, files: Mapping[str, DataFile], words: Sequence[str] = ()
) -> tuple[str | None, str | None]:
    """Return what the `files`, by what a person calls them, hold in the words of the card's program; and a note, for a
    person. `words`: options of that program.

    Files found good are remembered by content and program. A program that fails refuses nothing: the note says why.
    DataError where it refuses them, with its last line, in which the files are called as the person does.
    """
    memory = paths.cache_dir() / "checked" / f"{_key(workload, module, files, words)}.txt"
    try:
        return memory.read_text(encoding="utf-8"), None
    except (OSError, ValueError):
        pass
    given = {str(Path(name).expanduser().absolute()): name for name in files}
    done = subprocess.run(
        [sys.executable, "-m", module, *words, *given],
        cwd=workload.root,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
    )
    said = [line for line in (done.stdout if done.returncode in (0, REFUSED) else done.stderr).splitlines() if line]
    last = said[-1] if said else ""
    for path, name in given.items():
        last = last.replace(path, name)
    if done.returncode == REFUSED:
        raise DataError(last or f"{', '.join(files)}: refused by {module}, which does not say why")
    if done.returncode:
        return None, f"{', '.join(files)} could not be checked here: {last or f'{module} has ended'}"
    memory.parent.mkdir(parents=True, exist_ok=True)
    write(memory, last)
    return last, None


def _key(workload: Workload, module: str, files: Mapping[str, DataFile], words: Sequence[str]) -> str:
    """Hash of the content of the files, of the options, and of the program and all that is next to it."""
    digest = hashlib.sha256("\0".join([module, *words, *(file.sha256 for file in files.values())]).encode())
    folder = workload.root.joinpath(*module.split(".")[:-1])
    for source in sorted(folder.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()
