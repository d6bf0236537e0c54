"""Releases on a node: begin, commit (proven by hash), check, prune."""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import json
import os
import pwd
import secrets
import shutil
import stat
import time
from typing import IO, TYPE_CHECKING, Iterator

from regatta.node import disk, manifest, rundirs, staging, trees
from regatta.node.problem import Problem
from regatta_protocol.operations.releases import (
    BegunRelease,
    ChangedFile,
    CommittedRelease,
    Entries,
    Held,
    Patch,
    ReleaseState,
)

if TYPE_CHECKING:
    from regatta_protocol.place import Place


KEEP = 5
GRACE_SECONDS = 900
LOCK_SECONDS, LOCK_POLL_SECONDS = 20.0, 0.02
"""Seconds that a request waits for the lock: less than a controller waits for its answer."""


def folder(place: Place, release: str) -> str:
    """Path of a release, whether or not it exists."""
    return os.path.join(place["root"], "releases", release)


@contextlib.contextmanager
def lock(place: Place) -> Iterator[None]:
    """One at a time on this node: what renames into, starts from or prunes `releases/`.

    Problem with who holds it, and since when, where that takes longer than `LOCK_SECONDS`.
    """
    with open(os.open(os.path.join(own(place), ".lock"), os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        end = time.monotonic() + LOCK_SECONDS
        while not _locked(file):
            if time.monotonic() > end:
                raise Problem(f"{_holder(file)} has kept this node's releases locked: try again when that has ended")
            time.sleep(LOCK_POLL_SECONDS)
        file.seek(0)
        file.truncate()
        json.dump({"by": place.get("by"), "at": time.time()}, file)
        file.flush()
        yield


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: IO[str]) -> str:
    file.seek(0)
    with contextlib.suppress(ValueError, TypeError, KeyError):
        said = json.load(file)
        return f"{said['by'] or 'another controller'} (for {time.time() - said['at']:.0f} s)"
    return "another controller"


def own(place: Place, name: str = "releases") -> str:
    """The folder of all releases, or layers, there and closed: for root and the user of runs, or only this user."""
    base = os.path.join(place["root"], name)
    os.makedirs(base, mode=0o700, exist_ok=True)
    user = place.get("user") if os.geteuid() == 0 else None
    mode = 0o750 if user else 0o700
    group = pwd.getpwnam(user).pw_gid if user else None
    info = os.stat(base)
    if group is not None and (info.st_uid, info.st_gid) != (0, group):
        os.chown(base, 0, group)
    if stat.S_IMODE(info.st_mode) != mode:
        os.chmod(base, mode)
    return base


def begin(place: Place, release: str, hint: str | None = None) -> BegunRelease:
    """Make an empty folder to receive a release; names older releases that rsync can link unchanged files to."""
    base = own(place)
    if place.get("member"):
        return BegunRelease(staging.make(place))
    clear_abandoned(base)
    incoming = os.path.join(base, f".incoming-{release}-{secrets.token_hex(4)}")
    os.mkdir(incoming, 0o755)
    current = os.path.basename(os.path.realpath(os.path.join(place["root"], "current")))
    bases = [name for name in dict.fromkeys([hint, current]) if name and _complete(base, name)]
    return BegunRelease(incoming, tuple(os.path.join("..", name) for name in bases))


def _complete(base: str, name: str) -> bool:
    return os.path.isfile(os.path.join(base, f".{name}.json")) and os.path.isdir(os.path.join(base, name))


def commit(place: Place, release: str, incoming: str, expected: list[manifest.Entry]) -> CommittedRelease:
    """Prove what arrived in `incoming`, make it read-only and rename it into place."""
    incoming = staging.taken(place, incoming, own(place))
    difference = manifest.first_difference(expected, listed(incoming))
    if difference:
        shutil.rmtree(incoming, ignore_errors=True)
        return CommittedRelease(ok=False, differs=difference)
    return CommittedRelease(ok=True, pruned=tuple(_place(place, release, incoming, expected)))


def patched(place: Place, release: str, patch: Patch) -> bool:
    """Make a release from an older one, with all but what the patch has linked; False where what comes out, hashed, is
    another release, or the older one is not here.
    """
    base = os.path.join(place["root"], "releases")
    if not _complete(base, patch.base):
        return False
    old, changed = os.path.join(base, patch.base), patch.files
    incoming = begin(place, release).incoming
    try:
        for path in manifest.walk(old):
            if path not in changed and path not in patch.removed:
                os.link(os.path.join(old, path), _made_room(incoming, path), follow_symlinks=False)
        for path, file in changed.items():
            _write(_made_room(incoming, path), file)
        entries = listed(incoming)
        if manifest.release_id(entries) == release:
            _place(place, release, incoming, entries)
            return True
    except FileNotFoundError:  # pruned meanwhile
        pass
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
    return False


def listed(tree: str) -> list[manifest.Entry]:
    """The manifest of a tree, hashed now."""
    found = [manifest.entry(tree, path) for path in manifest.walk(tree)]
    return [item for item in found if item]


def _made_room(tree: str, path: str) -> str:
    full = os.path.join(tree, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    return full


def _write(path: str, changed: ChangedFile) -> None:
    if changed.kind == "l":
        os.symlink(changed.content, path)
        return
    with open(path, "wb") as file:
        file.write(base64.b64decode(changed.content))
    os.chmod(path, 0o755 if changed.kind == "x" else 0o644)
    os.utime(path, ns=(changed.mtime_ns, changed.mtime_ns))


def _place(place: Place, release: str, incoming: str, entries: list[manifest.Entry]) -> list[str]:
    """Let a folder that has been proven be the release, on the disk; returns the older ones that were removed."""
    protect(incoming)
    disk.settle_all(incoming)
    target = folder(place, release)
    with lock(place):
        if _state(place, release).state is Held.WHOLE:
            remove(incoming)
        else:
            remove(target)
            os.chmod(incoming, 0o755)  # a folder is renamed only by who may write it
            os.rename(incoming, target)
            os.chmod(target, 0o555)
            _remember(place, release, entries)
        _switch(place, release)
        return prune(place, release)


def abandon(place: Place, incoming: str) -> None:
    """Remove a folder that `begin` made."""
    if place.get("member"):
        staging.drop(place, incoming)
    elif os.path.basename(incoming).startswith(".incoming-"):
        shutil.rmtree(incoming, ignore_errors=True)


def check(place: Place, release: str) -> ReleaseState:
    """Whether the node has the release unchanged.

    Files whose inode, size and times are as they were when last hashed are taken as unchanged; all others are hashed.
    """
    with lock(place):
        answer = _state(place, release)
        if answer.state is Held.WHOLE:
            _switch(place, release)
            os.utime(_memory(place, release))
    return answer


def entries(place: Place, release: str) -> Entries:
    """The manifest of a release, None where this node does not have it."""
    try:
        with open(_memory(place, release)) as file:
            return Entries(json.load(file)["entries"])
    except (OSError, ValueError):
        return Entries()


def _state(place: Place, release: str) -> ReleaseState:
    target = folder(place, release)
    try:
        with open(_memory(place, release)) as file:
            memory = json.load(file)
    except (OSError, ValueError):
        return ReleaseState(Held.MISSING)
    if not os.path.isdir(target):
        return ReleaseState(Held.MISSING)
    known = memory["stat"]
    actual, stale = [], False
    for path in manifest.walk(target):
        signature = _signature(os.path.join(target, path))
        if path in known and known[path][0] == signature:
            actual.append([path, *known[path][1]])
        else:
            stale = True
            actual.append(manifest.entry(target, path) or [path, "?", ""])
    difference = manifest.first_difference(memory["entries"], actual)
    if difference:
        return ReleaseState(Held.DIFFERS, difference)
    if stale:
        _remember(place, release, memory["entries"])
    return ReleaseState(Held.WHOLE)


def _memory(place: Place, release: str) -> str:
    return os.path.join(place["root"], "releases", f".{release}.json")


def _signature(path: str) -> list[int]:
    info = os.lstat(path)
    return [info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_mode]


def _remember(place: Place, release: str, entries: list[manifest.Entry]) -> None:
    target = folder(place, release)
    known = {item[0]: [_signature(os.path.join(target, item[0])), item[1:]] for item in entries}
    disk.store(_memory(place, release), json.dumps({"entries": entries, "stat": known}))


def protect(tree: str) -> None:
    """Make a tree read-only."""
    for base, _, files in os.walk(tree):
        for name in files:
            path = os.path.join(base, name)
            if not os.path.islink(path):
                wanted = 0o555 if os.lstat(path).st_mode & 0o111 else 0o444
                if stat.S_IMODE(os.lstat(path).st_mode) != wanted:
                    os.chmod(path, wanted)
        os.chmod(base, 0o555)


def remove(tree: str) -> None:
    """Delete a read-only tree that root, or this user, owns."""
    if not trees.remove(tree):
        raise OSError(errno.ENOTEMPTY, "not all of it can be deleted", tree)


def _switch(place: Place, release: str) -> None:
    link = os.path.join(place["root"], "current")
    target = os.path.join("releases", release)
    if os.path.islink(link) and os.readlink(link) == target:
        return
    disk.point(link, target)


def prune(place: Place, keep: str) -> list[str]:
    """Remove old releases: all but the newest KEEP, the given one, those of runs in progress and those just used."""
    base = os.path.join(place["root"], "releases")
    known = [name[1:-5] for name in os.listdir(base) if name.startswith(".") and name.endswith(".json")]
    ages = {name: os.path.getmtime(_memory(place, name)) for name in known}
    newest = sorted(ages, key=ages.__getitem__, reverse=True)
    needed = {keep, *newest[:KEEP], *rundirs.unfinished(place)["releases"]}
    needed |= {name for name in known if time.time() - ages[name] < GRACE_SECONDS}
    removed = [name for name in known if name not in needed]
    for name in removed:
        os.unlink(_memory(place, name))
        remove(os.path.join(base, name))
    return removed


def clear_abandoned(base: str) -> None:
    """Remove what controllers that have vanished began to send: nothing has come for a while."""
    for name in os.listdir(base):
        path = os.path.join(base, name)
        with contextlib.suppress(OSError):
            if name.startswith(".incoming-") and time.time() - _last_arrival(path) > GRACE_SECONDS:
                trees.remove(path)


def _last_arrival(tree: str) -> float:
    """Of a file or folder in it; of itself where it has more folders in each other than Python walks through."""
    times = [os.lstat(tree).st_ctime]
    with contextlib.suppress(RecursionError, FileNotFoundError):
        for folder, _, names in os.walk(tree):
            times += [os.lstat(os.path.join(folder, name)).st_ctime for name in (".", *names)]
    return max(times)
