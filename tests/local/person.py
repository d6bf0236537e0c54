"""A person without privileges, on this machine only: a fresh clone in their own home, real commands typed in it.

As root, the person is an unused user id, without an entry in /etc/passwd (as containers run programs); else it
is the one who runs the tests, kept from sudo. The clone holds what is not committed yet, too.
"""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
MARK = "REGATTA_TEST_PERSON"
KEPT = ("LANG", "LC_ALL", "TERM")
KEPT_BEGINNINGS = ("PIP_", "UV_", "http", "HTTP", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY")


class Person:
    """Types commands; `base` holds all that is theirs, `clone` the project, `home` has a space in its name."""

    def __init__(self, base: Path, uid: int | None) -> None:
        self.base = base
        self.uid = uid
        self.home = base / "my home"
        self.clone = base / "regatta"
        self.mark = f"{MARK}={secrets.token_hex(8)}"
        programs = base / "bin"
        for folder in (self.home, programs):
            folder.mkdir()
        for name in ("sudo", "doas"):
            (programs / name).write_text("#!/bin/sh\necho not for you >&2\nexit 1\n")
            (programs / name).chmod(0o755)
        path = "/usr/local/bin:/usr/bin:/bin" if uid is not None else os.environ["PATH"]
        self.env = {name: os.environ[name] for name in os.environ if name in KEPT or name.startswith(KEPT_BEGINNINGS)}
        self.env |= pip_settings()
        self.env |= {"PATH": f"{programs}:{path}", "HOME": str(self.home), MARK: self.mark.partition("=")[2]}
        self.env |= {"REGATTA_INVENTORY": "inventory/local"}

    def start(self, *command: str | Path, cwd: Path | None = None, **env: str | None) -> "subprocess.Popen[str]":
        """Start a command in its own process group; standard error goes to standard output."""
        merged = {name: value for name, value in (self.env | env).items() if value is not None}
        drop = {"user": self.uid, "group": self.uid, "extra_groups": []} if self.uid is not None else {}
        return subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd or self.clone,
            env=merged,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            **drop,  # type: ignore[arg-type]
        )

    def type(self, *command: str | Path, cwd: Path | None = None, **env: str | None) -> tuple[int, str]:
        """Type a command and wait: its exit code and what it printed."""
        process = self.start(*command, cwd=cwd, **env)
        text, _ = process.communicate()
        return process.returncode, text

    @property
    def fab(self) -> Path:
        return self.clone / ".venv/bin/fab"

    @property
    def regatta(self) -> Path:
        return self.clone / ".venv/bin/regatta"

    def write(self, path: Path, text: str) -> Path:
        """A file of theirs."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if self.uid is not None:
            for owned in (path, path.parent):
                os.chown(owned, self.uid, self.uid)
        return path

    def processes(self) -> dict[int, list[str]]:
        """The words of their processes that are there, by id."""
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and self._theirs(entry):
                    words = os.fsdecode((entry / "cmdline").read_bytes()).rstrip("\0").split("\0")
                    if words != [""]:
                        found[int(entry.name)] = words
        return found

    def _theirs(self, entry: Path) -> bool:
        if self.uid is not None:
            return entry.stat().st_uid == self.uid
        return self.mark.encode() in (entry / "environ").read_bytes().split(b"\0")

    def temporary(self) -> list[Path]:
        """Return what of theirs is in /tmp, next to `base` and what uv and pytest leave there."""
        return [path for path in self._in_tmp() if not path.name.startswith(("uv-", "pytest-of-"))]

    def _in_tmp(self) -> list[Path]:
        found = []
        for entry in Path("/tmp").iterdir():
            with contextlib.suppress(OSError):
                owner = entry.lstat().st_uid
                ours = (
                    owner == self.uid if self.uid is not None else entry.name.startswith("rg-") and owner == os.getuid()
                )
                if ours and entry != self.base:
                    found.append(entry)
        return found

    def leave(self) -> None:
        """End their processes and remove all that is theirs."""
        for pid in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.processes(), self.processes)
        subprocess.run(["chmod", "-R", "u+w", self.home], check=False)  # releases are read-only
        subprocess.run(["rm", "-rf", self.base], check=True)
        for path in self._in_tmp():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def pip_settings() -> dict[str, str]:
    """This user's pip settings as variables: the person has no configuration file."""
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    found = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.partition(".")
        if section == "global":
            found[f"PIP_{name.upper().replace('-', '_')}"] = value.strip("'\"")
    return found


def clone(target: Path) -> None:
    """A clone of the project, with the changes of the work tree."""
    git = ["git", "-c", "safe.directory=*"]
    subprocess.run([*git, "clone", "--quiet", "--no-hardlinks", PROJECT, target], check=True)
    listing = [*git, "-C", PROJECT, "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
    for name in subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split("\0"):
        if not name:
            continue
        if (PROJECT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, target / name, follow_symlinks=False)
        else:
            (target / name).unlink(missing_ok=True)


def share_wheels(base: Path, uid: int) -> dict[str, str]:
    """uv's cache for the person, without a copy: what is not in it comes from the index."""
    asked = subprocess.run([PROJECT / ".venv/bin/uv", "cache", "dir"], capture_output=True, text=True, check=False)
    source, target = Path(asked.stdout.strip() or "none"), base / "uv-cache"
    if not source.is_dir():
        return {}
    linked = subprocess.run(["cp", "-al", source, target], capture_output=True, check=False)
    if linked.returncode:
        shutil.rmtree(target, ignore_errors=True)
        return {}
    for folder, _, names in os.walk(target):
        os.chown(folder, uid, uid)
        for name in names:  # uv writes to these in place; they must not be the ones of the other cache
            if name.startswith(".lock") or (name == ".git" and Path(folder).parent == target):
                (Path(folder) / name).unlink()
    return {"UV_CACHE_DIR": str(target), "UV_LINK_MODE": "symlink"}  # only owners may hard-link a file


def nobody() -> int:
    """An unused user id; it differs between test runs at the same time."""
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    return next(uid for uid in range(59000 + os.getpid() % 900, 60000) if uid not in taken)


def wait_until(condition: Callable[[], object], shown: Callable[[], object] = lambda: "", seconds: float = 60) -> None:
    """Wait until a condition holds; generous, as machines are loaded."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited too long: {shown()}"
        time.sleep(0.05)
