"""Debian packages that a project needs on a node: which are missing, and their installation by root."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from typing import TYPE_CHECKING, List, Sequence, Set

from regatta_protocol.operations.debian import DebianInstalled

if TYPE_CHECKING:
    from regatta_protocol.place import Place

RECORD = "/etc/regatta/installed.json"
"""The packages that provisioning has installed here, and a teardown removes."""
SECONDS = 540.0
_OPTIONS = ["-q", "-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=2", "-o", "Acquire::Languages=none"]
_SHOWN = "${db:Status-Status}\t${Package}\t${Provides}\n"


def lacking(names: Sequence[str]) -> List[str]:
    """Return those of the packages that are not installed, also not under another name."""
    there = _installed()
    return [name for name in names if name not in there]


def _installed() -> Set[str]:
    try:
        listed = subprocess.run(
            ["dpkg-query", "-W", "-f", _SHOWN], capture_output=True, text=True, errors="replace", check=False
        ).stdout
    except OSError:
        return set()
    found: Set[str] = set()
    for line in listed.splitlines():
        status, _, rest = line.partition("\t")
        name, _, provided = rest.partition("\t")
        if status == "installed":
            found |= {name, *(one.split()[0] for one in provided.split(",") if one.strip())}
    return found


def install(place: Place, names: Sequence[str]) -> DebianInstalled:
    """Install packages, and note what came with them; it is an answer, no error, that a node may not or cannot."""
    if os.geteuid() != 0:
        return DebianInstalled(f"only root may install it: sudo apt-get install {' '.join(names)}")
    before = _installed()
    error = _apt_get(["install", "-y", "--no-install-recommends", "--", *names])
    if error and lacking(names):
        _apt_get(["update"])
        error = _apt_get(["install", "-y", "--no-install-recommends", "--", *names])
    _note(_installed() - before)
    return DebianInstalled(error if lacking(names) else "")


def _apt_get(words: List[str]) -> str:
    """Return what apt-get has said where it failed."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    command = ["apt-get", *_OPTIONS, *words]
    try:
        done = subprocess.run(
            command,
            env=env,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=SECONDS,
        )
    except OSError:
        return "this system has no apt-get"
    except subprocess.TimeoutExpired:
        return f"apt-get did not end within {SECONDS:g} s"
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("E:", "Err:"))] or lines[-1:]
    more = f" (and {len(telling) - 1} more lines like it)" if len(telling) > 1 else ""
    return f"{telling[0] if telling else 'apt-get has said nothing'}{more}" if done.returncode else ""


def _note(came: Set[str]) -> None:
    """Add packages to what a teardown removes, on a node that was provisioned."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        with open(RECORD) as file:
            found = json.load(file)
        found["packages"] = sorted({*found["packages"], *came})
        with open(f"{RECORD}.new", "w") as file:
            json.dump(found, file)
        os.chmod(f"{RECORD}.new", 0o644)
        os.rename(f"{RECORD}.new", RECORD)
