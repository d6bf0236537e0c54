"""Input that a person names, or that a workload makes where none is named, put where runs read it, outside the timers;
and what a record says of it.
"""

import fnmatch
import functools
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from regatta import paths
from regatta.cards.card import Input, Made, Value, Workload, flag
from regatta.errors import DataError, UsageError
from regatta.experiments import checked
from regatta.hdfs import client as hdfs
from regatta.release import inputs, objects
from regatta.run.session import Session

Look = Callable[[Mapping[str, inputs.DataFile]], None]
"""Looks at files before they leave this machine."""
_MOST_BELOW = 64


def stage(
    session: Session, workload: Workload, asked: str | None, values: Mapping[str, Value]
) -> tuple[list[str], dict[str, object]]:
    """Put the input on every node, or find it in HDFS: the program's words for it, and what it is.

    Data in an object store are looked up only by the nodes, which know the run's credentials.

    `asked`: as a person gave it; None: what the card says; `values`: of the other options. DataError where
    it is not there.
    """
    given = workload.card.input
    if given is None:
        return [], {}
    look = functools.partial(_check, session, workload, given, _words(given, values))
    place, described = (_file if given.kind == "file" else _files)(session, workload, given, asked, look)
    return ([f"{flag(given.option)}={place}"] if place else []), described


def _file(
    session: Session, workload: Workload, given: Input, asked: str | None, look: Look
) -> tuple[str | None, dict[str, object]]:
    name = given.option
    empty = f"is empty; {given.empty or f'give {given.what}'}"
    if asked is not None and hdfs.is_address(asked):
        return asked, _in_hdfs(session, name, asked, empty, folders=False)
    if asked is not None and (asked in given.made or objects.is_address(asked)):
        return asked, {name: asked}
    path = Path(asked).expanduser() if asked is not None else _default(workload)
    if path is None:
        return None, {}
    if path.is_dir():
        raise DataError(f"{asked} is a folder; give {given.what}")
    if not path.is_file():
        raise DataError(f"there is no {name} file {asked}; give {given.what}")
    file = inputs.identify(path)
    if file.size == 0:
        raise DataError(f"{asked or file.path} {empty}")
    if asked is not None:
        look({asked: file})
    found = _on_all(session, [file])
    return found, {name: file.path.name, f"{name}_sha256": file.sha256}


def _files(
    session: Session, workload: Workload, given: Input, asked: str | None, look: Look
) -> tuple[str | None, dict[str, object]]:
    name = given.option
    if asked is not None and hdfs.is_address(asked):
        return asked, _in_hdfs(session, name, asked, f"has no data; give {given.what}", folders=True)
    if asked is None or asked in given.made or objects.is_address(asked):
        usual = given.made[0] if given.made else None
        return asked, {name: asked or usual} if asked or usual else {}
    path = Path(asked).expanduser()
    if not path.exists():
        raise DataError(f"there is no file or folder {asked}; give {given.what}")
    inside = _inside(path)
    files = [inputs.identify(file) for file in inside]
    if not files:
        raise DataError(f"the folder {asked} has no files; give {given.what}")
    look({str(one) if path.is_dir() else asked: file for one, file in zip(inside, files, strict=True)})
    return _on_all(session, files), {name: {file.path.name: file.sha256 for file in files}}


def _in_hdfs(session: Session, name: str, asked: str, empty: str, *, folders: bool) -> dict[str, object]:
    """What a record says of a file in HDFS, or of a folder where one may be given. DataError where it is empty."""
    info = hdfs.ask(session.remote, "identify", asked, folders=folders)
    if info["length"] == 0:
        raise DataError(f"{asked} {empty}")
    known = {f"{name}_checksum": info["checksum"]} if info["checksum"] else {}
    return {name: asked, f"{name}_bytes": info["length"]} | known


def _inside(path: Path) -> list[Path]:
    """The files of a folder; where it has only folders, the files in these, if they are few."""
    if not path.is_dir():
        return [path]
    found = [file for file in sorted(path.iterdir()) if file.is_file() and file.name[0] != "."]
    below = [] if found else [file for file in sorted(path.rglob("[!.]*")) if file.is_file()]
    return found or (below if len(below) <= _MOST_BELOW else [])


def _words(given: Input, values: Mapping[str, Value]) -> list[str]:
    """The options that the card's program takes for its look, as words."""
    chosen = {name: values[name] for name in given.check_options if values.get(name)}
    return [flag(name) if value is True else f"{flag(name)}={value}" for name, value in chosen.items()]


def _check(
    session: Session, workload: Workload, given: Input, words: Sequence[str], files: Mapping[str, inputs.DataFile]
) -> None:
    """Say what the card's program finds in files, by what a person calls them. DataError where it refuses them."""
    if given.check is None:
        return
    found, trouble = checked.look(workload, given.check, files, words)
    session.console.note(trouble or f"{', '.join(files)}: {found}")


def _on_all(session: Session, files: list[inputs.DataFile]) -> str:
    """Put files on all nodes; where they are there, with commas between."""
    nodes = session.cluster.nodes
    if len({node.state for node in nodes}) > 1:
        raise UsageError("the nodes have different folders as regatta_state: give all of them the same one for data")
    for file in files:
        if sent := inputs.bring(session.remote, file, nodes):
            session.console.note(f"{file.path.name} ({file.size / 1e6:.1f} MB) put on {', '.join(sent)}")
    return ",".join(file.on(nodes[0]) for file in files)


def _default(workload: Workload) -> Path | None:
    """The input that the card's program makes, once for each state of what it is made from; None where it names none.

    DataError where it cannot be made.
    """
    given = workload.card.input
    if given is None or given.default is None:
        return None
    made = given.default
    target = paths.cache_dir() / made.name.format(state=_state(workload, made))
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", made.module, str(target)],
        cwd=workload.root,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise DataError(said[-1] if said else f"{made.about} could not be made; give {flag(given.option)} FILE")
    return target


def _state(workload: Workload, made: Made) -> str:
    """Hash of the names, sizes and times of what it is made of, and of the program that makes it."""
    program = workload.root / f"{made.module.replace('.', '/')}.py"
    digest = hashlib.sha256(program.read_bytes())
    for folder in made.reads:
        for base, _, files in os.walk(folder):
            for name in sorted(files):
                if any(fnmatch.fnmatchcase(name, pattern) for pattern in made.files):
                    info = (Path(base) / name).stat()
                    digest.update(f"{base}/{name}\0{info.st_size}\0{info.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]
