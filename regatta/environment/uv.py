"""uv, called with this machine's own settings for packages: pip's, which it does not read, and its own."""

import ast
import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from regatta.environment import confined
from regatta.errors import EnvironmentFault
from regatta.node import confine
from regatta.program import about_hosts, setup

SECONDS = 3600.0
SAY_SECONDS = 10.0
END_SECONDS = 10.0
BUILDER = "@builder"
"""A word in place of the Python by which uv builds what is published as source."""
PRIVATE = re.compile(r"//[^/\s@']+@")
_OFFLINE = re.compile(
    r"dns error|error sending request|connection (refused|reset)|network is unreachable|timed out|network was disabled"
    r"|Failed to fetch|Could not connect",
    re.I,
)
PUBLIC = "https://pypi.org/simple"
"""The index of packages where no setting names one."""
_MERGED = "unsafe-best-match"
_YES = ("1", "true", "yes", "on")
_FULL = re.compile(r"No space left on device|os error 28|os error 122")
_BUILD = re.compile(r"Failed to build|build backend|Failed to download and build|building from source", re.I)


def run(
    words: Sequence[str],
    *,
    links: Sequence[Path] = (),
    cwd: Path,
    what: str,
    say: Callable[[str], None] = lambda _: None,
    merged: bool = False,
    first: str = "",
) -> str:
    """`uv words...`; gives its standard output. EnvironmentFault has uv's own explanation, without passwords.

    `links`: folders of wheels besides those of this machine's settings. `say` hears now and then that it still works.
    `merged`, `first`: see `settings`.
    """
    environment, flags = settings(links, merged, first)
    command = [program(), *words, *(flags if words[0] == "pip" else [])]
    if BUILDER in words:
        command = confine.kept([confined.python() if one == BUILDER else one for one in command], limited=False)
    with tempfile.TemporaryDirectory(prefix="regatta-uv-") as temporary:  # uv leaves locks in it
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**environment, "TMPDIR": temporary},
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        began = time.monotonic()
        try:
            while True:
                try:
                    out, told = process.communicate(timeout=SAY_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    took = time.monotonic() - began
                    if took > SECONDS:
                        raise EnvironmentFault(
                            f"{what} took longer than {SECONDS:g} s and was ended: try again"
                        ) from None
                    say(f"environment: {what} ({took:.0f} s so far)")
        except BaseException:
            _end(process)
            raise
    if process.returncode:
        raise EnvironmentFault(f"{what}: {explain(told)}")
    return out


def _end(process: "subprocess.Popen[str]") -> None:
    """End uv, and what it has started: its keeper does that when it is asked to end."""
    process.terminate()
    try:
        process.communicate(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def explain(told: str) -> str:
    """Return what uv says, without passwords, and what to do about it where uv does not say that."""
    text = PRIVATE.sub("//", told).strip().removeprefix("error: ") or "uv failed without a message"
    lines = text.splitlines()
    text = "\n".join(lines if len(lines) <= 24 else [*lines[:8], "  ...", *lines[-15:]])
    if _FULL.search(text):
        return f"{text}\nA disk of this machine is full: free some space ('uv cache clean', $REGATTA_CACHE)"
    if _OFFLINE.search(text):
        return (
            f"{text}\nThe index of packages was not reached, and what is needed is not in uv's cache. Try again with a "
            f"network, bring the project's packages in a bundle ('{about_hosts('bundle', project='...')}'), or "
            "put wheels into a "
            "folder and name that in PIP_FIND_LINKS; --no-environment runs without"
        )
    if _BUILD.search(text):
        return (
            f"{text}\nIt is published as source, and cannot be made into a wheel here. Only wheels and plain Python "
            "are taken: name a version that has a wheel, or put one into a folder that PIP_FIND_LINKS names"
        )
    return text


def program() -> str:
    """The uv that was installed with Regatta, else the one on the path."""
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise EnvironmentFault(f"uv is missing next to this Python: run '{setup('uv')}'")
    return found


def settings(links: Sequence[Path] = (), merged: bool = False, first: str = "") -> tuple[dict[str, str], list[str]]:
    """The environment of uv, and flags that it has no variable for.

    An index may have a password in it, which is in no command line. `merged`: a list names several indexes as pip does,
    to which they are one. To uv, the first that has a name counts; pip's own settings on this machine make them one.
    `first`: an index that is asked before all others.
    """
    made = dict(os.environ)
    pip = _pip()
    if index := made.get("UV_DEFAULT_INDEX") or made.get("PIP_INDEX_URL") or pip.get("index-url"):
        made["UV_DEFAULT_INDEX"] = index
    if "UV_INDEX" not in made and (more := made.get("PIP_EXTRA_INDEX_URL") or pip.get("extra-index-url")):
        made["UV_INDEX"] = " ".join(more.split())
        merged = True
    if merged:
        made.setdefault("UV_INDEX_STRATEGY", _MERGED)
    if first:
        made["UV_INDEX"] = " ".join(dict.fromkeys([first, *made.get("UV_INDEX", "").split()]))
    if "UV_FIND_LINKS" in made:
        folders = made["UV_FIND_LINKS"].split(",")
    else:
        folders = (made.get("PIP_FIND_LINKS") or pip.get("find-links") or "").split()
    folders = [folder for folder in folders if folder and ("://" in folder or Path(folder).is_dir())]
    if both := [*map(str, links), *folders]:
        made["UV_FIND_LINKS"] = ",".join(both)
    if certificate := made.get("PIP_CERT") or pip.get("cert"):
        made.setdefault("SSL_CERT_FILE", certificate)
    if made.get("PIP_KEYRING_PROVIDER") == "subprocess":
        made.setdefault("UV_KEYRING_PROVIDER", "subprocess")
    made.setdefault("UV_SYSTEM_CERTS", "true")
    made |= {"UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1"}
    made.pop("VIRTUAL_ENV", None)
    return made, ["--no-index"] if alone() else []


def alone() -> bool:
    """Whether this machine's settings name no index: packages come from folders."""
    return (os.environ.get("PIP_NO_INDEX") or _pip().get("no-index") or "").lower() in _YES


def several(merged: bool = False) -> list[str]:
    """Return the URLs of the indexes that are one to pip, where there are several; the first counts first to uv."""
    made, _ = settings(merged=merged)
    if alone() or made.get("UV_INDEX_STRATEGY") != _MERGED:
        return []
    return [*made.get("UV_INDEX", "").split(), made.get("UV_DEFAULT_INDEX", PUBLIC)]


def indexes() -> list[str]:
    """The URLs of the indexes that this machine's settings name, with the passwords in them."""
    made, _ = settings()
    return [*made.get("UV_DEFAULT_INDEX", "").split(), *made.get("UV_INDEX", "").split()]


def _pip() -> Mapping[str, str]:
    """The settings in pip's files, by name; those of the environment are read by themselves."""
    return _pip_files(os.environ.get("PIP_CONFIG_FILE"), os.environ.get("HOME"))


@cache
def _pip_files(_named: str | None, _home: str | None) -> Mapping[str, str]:
    """The same, asked once for each place where pip looks: pip starts slowly."""
    if importlib.util.find_spec("pip") is None:
        return {}
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30, check=False).stdout
    except subprocess.TimeoutExpired:
        return {}
    found = {}
    for line in told.splitlines():
        name, _, value = line.partition("=")
        section, _, word = name.partition(".")
        if section in ("global", "install", "download"):
            with contextlib.suppress(ValueError, SyntaxError):
                found[word] = str(ast.literal_eval(value))
    return found
