"""Who asks: the login account on this host, and the fingerprint of the SSH key of that login."""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import hashlib
import os
import pwd
import stat

_MOST_PARENTS = 12
_MOST_BYTES = 1 << 16


@functools.cache
def of_request() -> str:
    """`ann SHA256:...`; without the key where sshd does not tell it (`ExposeAuthInfo`).

    Who has sudo could pretend to be another person: this says whose work it is, and guards nothing.
    """
    account = os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    return f"{account} {key}" if (key := _key(account)) else account


def _key(account: str) -> str:
    """The fingerprint of the key of a login; '' where it is not known. The variable is in what sudo was started by."""
    pid = os.getppid()
    for _ in range(_MOST_PARENTS):
        with contextlib.suppress(OSError, KeyError):
            with open(f"/proc/{pid}/environ", "rb") as file:
                said = dict(one.partition(b"=")[::2] for one in file.read(1 << 20).split(b"\0"))
            return fingerprint(_told(said[b"SSH_USER_AUTH"], pwd.getpwnam(account).pw_uid))
        if (pid := _parent(pid)) <= 1:
            break
    return ""


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])
    return 0


def _told(path: bytes, owner: int) -> str:
    """What sshd says of a login, in a file of the account that has logged in."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, errors="replace") as file:
        about = os.fstat(descriptor)
        return file.read(_MOST_BYTES) if stat.S_ISREG(about.st_mode) and about.st_uid == owner else ""


def fingerprint(told: str) -> str:
    """`SHA256:...` of the first key in what sshd says of a login; '' where there is none."""
    for line in told.splitlines():
        method, _, rest = line.partition(" ")
        if method == "publickey":
            with contextlib.suppress(binascii.Error, IndexError):
                sum_ = hashlib.sha256(base64.b64decode(rest.split()[1], validate=True)).digest()
                return f"SHA256:{base64.b64encode(sum_).decode().rstrip('=')}"
    return ""
