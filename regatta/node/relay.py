"""Files that a relay keeps for the nodes behind it, which fetch them: rsync over SSH with root's key between nodes."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, List

from regatta.node import manifest, releases
from regatta.node.problem import Problem
from regatta_protocol.operations.releases import BegunRelease, CommittedRelease
from regatta_protocol.operations.transfers import CachePlace

if TYPE_CHECKING:
    from regatta_protocol.place import Place

USER, RELAY = "regatta", "regatta-relay"
"""The account of runs, and the one that serves the relay: it reads what runs read, and no run is that account."""
STALLED_SECONDS = 60
_SSH = ["ssh", "-F", "/etc/regatta/mesh/config"]


def rsync(host: str, source: str, target: str, options: List[str]) -> None:
    """Copy `source` of another node to `target` here. As root here and `regatta-relay` there, which has to see the path
    that is asked for; it ends with this process.
    """
    command = ["rsync", "-rt", f"--timeout={STALLED_SECONDS}", *options, "-e", shlex.join(_SSH), "--no-protect-args"]
    _run([*command, f"{RELAY}@{host}:{source}", target], source)


def _run(command: List[str], what: str) -> str:
    done = subprocess.run(
        ["setpriv", "--pdeathsig", "KILL", "--", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        telling = [line for line in lines if "No space left" in line] or lines or ["no message"]
        raise Problem(f"fetching {what} from another node failed: try again ({telling[0]})")
    return done.stdout


def cache(place: Place) -> str:
    """Folder of what is kept for others."""
    return os.path.join(place["root"], ".relay")


def offer(place: Place, name: str, own: str) -> CachePlace:
    """Make the cache empty; what this node has itself under the path `own` need not be sent to it."""
    base = cache(place)
    os.makedirs(base, mode=0o755, exist_ok=True)
    for other in os.listdir(base):
        if other != name:
            os.unlink(os.path.join(base, other))
    path = os.path.join(base, name)
    if os.path.isfile(own) and not os.path.exists(path):
        os.link(own, path)
    with open(path, "ab"):
        os.chown(path, 0, pwd.getpwnam(USER).pw_gid)
        os.chmod(path, 0o640)
    return CachePlace(path)


def take(place: Place, name: str, target: str) -> None:
    """The relay's own copy, without copying."""
    _make_room(target)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)
    os.link(os.path.join(cache(place), name), target)


def fetch(place: Place, host: str, source: str, target: str) -> None:
    """A file of the relay's cache; what a stopped copy left is used again. Its user verifies it."""
    _make_room(target)
    rsync(host, source, target, ["--inplace", "--partial", "--chmod=F600"])


def _make_room(target: str) -> None:
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)


def drop(place: Place) -> None:
    """Clear the cache."""
    shutil.rmtree(cache(place), ignore_errors=True)


def fetch_release(place: Place, release: str, begun: BegunRelease, host: str, root: str) -> CommittedRelease:
    """A release from the relay, into the folder that `releases.begin` made; see `releases.commit`.

    The relay's list of it is believed only where its hash is the release's id.
    """
    there, incoming = os.path.join(root, "releases"), begun.incoming
    listed = _run(
        [*_SSH, f"{RELAY}@{host}", f"cat {shlex.quote(f'{there}/.{release}.json')}"], f"the list of {release}"
    )
    entries = json.loads(listed)["entries"]
    if manifest.release_id(entries) != release:
        raise Problem(f"{host}: its list of release {release} is not that release's: run 'regatta sync'")
    options = ["-lp", "--chmod=D755,Fa=rX", *(f"--link-dest={folder}" for folder in begun.link_dest)]
    rsync(host, f"{there}/{release}/", f"{incoming}/", options)
    return releases.commit(place, release, incoming, entries)


def fetch_data(place: Place, host: str, source: str, incoming: str) -> None:
    """A file of a run's input, into the folder that `files.begin` made."""
    rsync(host, source, f"{incoming}/", ["--chmod=F444"])
