"""Things that a run may put in its folder, and a folder of root that it aims at. Only root can make these."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

USER = "nobody"
DEEP = 1100
HUGE = 10 << 30
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")

PATHS = (
    "spec.json",
    "exit.json",
    "exit.json.new",
    "stop.json",
    "pid.json",
    "log",
    "reserve",
    "scratch",
    "work",
    "boot",
)
"""Every path in a run's folder that a node touches when the run has begun, but the half files of `rundirs.store`."""

_DIG = "import os, sys\nos.chdir(sys.argv[1])\nfor _ in range(int(sys.argv[2])): os.mkdir('d'); os.chdir('d')\n"


class Victim:
    """A folder and a file of root, which no other account may look into, and whether they are as they were."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "victim"
        self.file = self.folder / "shadow"
        self.folder.mkdir(mode=0o700)
        self.file.write_text("of root alone\n")
        self.file.chmod(0o600)
        self._before = self._look()

    def _look(self) -> list[object]:
        infos = [os.lstat(path) for path in (self.folder, self.file)]
        seen = [(info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode), info.st_ino) for info in infos]
        return [*seen, self.file.read_text(), sorted(path.name for path in self.folder.iterdir())]

    @property
    def untouched(self) -> bool:
        """Whether nothing of it was read into another place, written, given away or deleted."""
        return self._look() == self._before


def dig(folder: Path, depth: int = DEEP) -> None:
    """A tree of folders that deep, of the account of runs."""
    folder.mkdir()
    subprocess.run([sys.executable, "-c", _DIG, str(folder), str(depth)], check=True)
    subprocess.run(["chown", "-R", f"{USER}:", str(folder)], check=True)


def _nested(path: Path, _: Victim) -> None:
    path.write_text('{"state":' + "[" * 100_000 + "]" * 100_000 + "}")


def _sparse(path: Path, _: Victim) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE)


def _forged(path: Path, victim: Victim) -> None:
    odd = {"started": float("nan"), "mode": "unit", "plan": [1], "ranks": 7, "state": {"a": 1}, "release": "../../etc"}
    path.write_text(json.dumps({**odd, "framework": "\ud800\x1b[2J", "pid": 1, "temporary": str(victim.folder)}))


PLANTED: dict[str, Callable[[Path, Victim], None]] = {
    "a link to a file of root's": lambda path, victim: path.symlink_to(victim.file),
    "a link to a folder of root's": lambda path, victim: path.symlink_to(victim.folder),
    "a link to nothing, in a folder of root's": lambda path, victim: path.symlink_to(victim.folder / "new"),
    "a link to itself": lambda path, _: path.symlink_to(path),
    "a hard link": lambda path, victim: path.hardlink_to(victim.file),
    "a FIFO": lambda path, _: os.mkfifo(path),
    "a folder": lambda path, _: path.mkdir(),
    "a deep tree": lambda path, _: dig(path),
    "JSON that is nested deeply": _nested,
    "a huge file": _sparse,
    "JSON of other types": _forged,
}


def plant(folder: Path, name: str, kind: str, victim: Victim) -> None:
    """Put it there, in place of what there is."""
    path = folder / name
    subprocess.run(["rm", "-rf", "--", str(path)], check=True)
    PLANTED[kind](path, victim)
    if "hard link" not in kind:
        os.chown(path, *_ids(), follow_symlinks=False)


def _ids() -> tuple[int, int]:
    import pwd

    found = pwd.getpwnam(USER)
    return found.pw_uid, found.pw_gid


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A temporary folder that every account may look into, unlike those in a private temporary one."""
    folder = Path(tempfile.mkdtemp(prefix="regatta-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=False)
    subprocess.run(["rm", "-rf", "--one-file-system", "--", str(folder)], check=True)


def state(folder: Path, run: str) -> dict[str, object]:
    """A cluster's node with the folder of one run that has begun, as a place."""
    runs, (uid, gid) = folder / "state" / "runs", _ids()
    (folder / "root" / "releases").mkdir(parents=True)
    for made, owner, mode in ((folder / "state", 0, 0o750), (runs, 0, 0o750), (runs / run, uid, 0o750)):
        made.mkdir()
        made.chmod(mode)
        os.chown(made, owner, gid)
    began = {"id": run, "mode": "unit", "framework": "torch", "release": "ab12", "started": 1.0, "plan": {"label": "x"}}
    (runs / run / "spec.json").write_text(json.dumps(began))
    (runs / run / "log").write_text("0|hello\n")
    (runs / run / "scratch").mkdir()
    for path in (runs / run).iterdir():
        shutil.chown(path, uid, gid)
    place = {"root": str(folder / "root"), "state": str(folder / "state"), "user": USER}
    return {**place, "python": sys.executable, "cluster_address": "127.0.0.1"}
