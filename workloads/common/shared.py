"""One copy of a run's input on a host: the first rank makes it, all of them map it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from workloads.common.events import BadInput

Made = TypeVar("Made")


@dataclass(frozen=True)
class HostFolder:
    """A folder that `users` ranks of a host share; `discard`: it goes when all of them have opened what is in it."""

    path: Path
    users: int
    discard: bool

    @classmethod
    def of_run(cls, users: int, token: str) -> HostFolder:
        """Give ``REGATTA_SCRATCH``, or a private temporary folder named by a `token` that all ranks of the run know."""
        scratch = os.environ.get("REGATTA_SCRATCH")
        if scratch:
            return cls(Path(scratch), users, discard=False)
        return cls(Path(tempfile.gettempdir()) / f"regatta-{os.getuid()}-{token}", users, discard=True)

    def once(self, name: str, make: Callable[[Path], None], open_made: Callable[[Path], Made]) -> Made:
        """Let one rank of the host `make` the folder `name`, the others wait for it, and all `open_made` it.

        `make` fills an empty folder that appears under its name only when it is complete. Where it raises
        :class:`BadInput`, every rank raises the same; after any other failure the next rank tries.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        made, refused = self.path / name, self.path / f"{name}.refused"
        with self._locked(name):
            try:
                if refused.exists():
                    raise BadInput(refused.read_text())
                if not made.exists():
                    self._make(make, made, refused)
                return open_made(made)
            finally:
                self._leave()

    def _make(self, make: Callable[[Path], None], made: Path, refused: Path) -> None:
        unfinished = Path(tempfile.mkdtemp(prefix=f"{made.name}.", dir=self.path))
        try:
            make(unfinished)
            unfinished.rename(made)
        except BaseException as error:
            shutil.rmtree(unfinished)
            if isinstance(error, BadInput):
                refused.write_text(str(error))
            raise

    def _leave(self) -> None:
        if not self.discard:
            return
        with (self.path / "opened").open("a") as opened:
            opened.write(".")
            opened.flush()
            users = opened.tell()
        if users == self.users:
            shutil.rmtree(self.path)

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with (self.path / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
