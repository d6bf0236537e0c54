"""Folders in which a member sends what a run needs: the member's own, filled by rsync as the member, without root.

Root takes a copy: files and links, read as the member and written in a folder that only root can change.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import shutil
import stat
import subprocess
import tarfile
import time
from typing import IO, TYPE_CHECKING, Dict

from regatta.node import rights, trees
from regatta.node.problem import Problem

if TYPE_CHECKING:
    from regatta_protocol.place import Place


KEPT_SECONDS = 86400.0
SECONDS = 300.0
_NAME = re.compile(r"\.incoming-[0-9a-f]{16}\Z")
MOST_ENTRIES, MOST_DEPTH = 200_000, 100
_RESERVE = 64 << 20
_BLOCK = 1 << 20


def base(place: Place) -> str:
    """Root's folder, which holds those of members."""
    return os.path.join(place["root"], "members")


def make(place: Place) -> str:
    """Make a folder that only the member who asks can enter; returns its path. Old ones of the member's go."""
    os.makedirs(base(place), 0o755, exist_ok=True)
    member = pwd.getpwnam(place["member"])
    for name in os.listdir(base(place)):
        path = os.path.join(base(place), name)
        with contextlib.suppress(OSError, Problem):
            info = os.lstat(path)
            if info.st_uid == member.pw_uid and time.time() - info.st_ctime > KEPT_SECONDS:
                _remove(path, place["member"])
    path = os.path.join(base(place), f".incoming-{secrets.token_hex(8)}")
    os.mkdir(path, 0o700)
    os.chown(path, member.pw_uid, member.pw_gid)
    return path


def checked(place: Place, path: str) -> str:
    """The path, where it is such a folder of this member. Problem for any other."""
    top, name = os.path.split(path)
    with contextlib.suppress(OSError):
        if top == base(place) and _NAME.match(name):
            info = os.lstat(path)
            if stat.S_ISDIR(info.st_mode) and info.st_uid == pwd.getpwnam(place["member"]).pw_uid:
                return path
    raise Problem(f"{path} is no folder that {place['member']} was given: start the run again")


def drop(place: Place, path: str) -> None:
    """Remove such a folder."""
    _remove(checked(place, path), place["member"])


def taken(place: Place, path: str, top: str) -> str:
    """Root's copy, in a new folder in `top`, of what arrived in the member's folder, which goes.

    Where no member asks, nothing is copied: what arrived in root's own folder is there.
    """
    if not place.get("member"):
        return path
    copy = os.path.join(top, f".incoming-{secrets.token_hex(8)}")
    os.mkdir(copy, 0o700)
    try:
        _copy(place["member"], checked(place, path), copy)
        os.chmod(copy, 0o755)
        drop(place, path)
    except BaseException:
        trees.remove(copy)
        raise
    return copy


def _remove(path: str, member: str) -> None:
    """As the member, what is in it: root follows no path there. The folder itself is in root's."""
    rights.call(member, lambda: trees.remove(path), SECONDS)
    os.rmdir(path)


def _copy(member: str, source: str, target: str) -> None:
    account = pwd.getpwnam(member)
    who = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups", "--no-new-privs"]
    words = ["--create", "--hard-dereference", "--format=pax", f"--directory={source}", "."]
    with subprocess.Popen(
        ["setpriv", *who, "--", "tar", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
    ) as process:
        assert process.stdout
        try:
            unpack(process.stdout, target)
        except tarfile.TarError as error:
            raise Problem(f"what was sent cannot be read: send it again ({error})") from None
        finally:
            process.kill()


def unpack(stream: IO[bytes], target: str) -> None:
    """Write the files of a tar archive into an empty folder that only root can change, and its links last.

    Problem for a path that leads out of it or comes twice, for what is no file, link or folder, and for too much: also
    for folders in each other that Python could not walk through.
    """
    links: Dict[str, str] = {}
    left = shutil.disk_usage(target).free - _RESERVE
    with tarfile.open(fileobj=stream, mode="r|", encoding="utf-8", errors="surrogateescape") as archive:
        for number, one in enumerate(archive):
            path = os.path.normpath(one.name)
            if number >= MOST_ENTRIES or path.count("/") >= MOST_DEPTH:
                most = f"{MOST_ENTRIES} files or {MOST_DEPTH} folders in each other"
                raise Problem(f"'{path[:200]}': what was sent has more than {most}: leave some out")
            if one.size < 0 or path.startswith("/") or path.split("/")[0] == "..":
                raise Problem(f"'{path}' leads out of the folder: send it again")
            full = os.path.join(target, path)
            os.makedirs(os.path.dirname(full) if path != "." else target, 0o755, exist_ok=True)
            if one.isdir():
                os.makedirs(full, 0o755, exist_ok=True)
            elif one.issym():
                links[full] = one.linkname
            elif one.isreg():
                left -= one.size
                if left < 0:
                    raise Problem(f"the disk of {target} has too little space for what was sent: free some there")
                _write(archive, one, full)
            else:
                raise Problem(f"'{path}' is no file, link or folder: leave it out")
    for full, where in links.items():
        os.symlink(where, full)


def _write(archive: tarfile.TarFile, one: tarfile.TarInfo, full: str) -> None:
    content = archive.extractfile(one)
    assert content
    mode = 0o755 if one.mode & 0o111 else 0o644
    descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, _BLOCK)
        file.flush()
        with contextlib.suppress(OverflowError, ValueError):  # a time that there is not
            at = int(one.mtime * 1e9)
            os.utime(descriptor, ns=(at, at))
