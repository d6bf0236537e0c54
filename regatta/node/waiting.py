"""What a thread waits for, as far as the kernel shows it to those who may look: a lock, a pipe, an address."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import struct
from typing import Callable, Dict, List, Tuple

from regatta_protocol.standing import Waiting

_X86 = {
    0: "read", 1: "write", 7: "poll", 17: "read", 18: "write", 19: "read", 20: "write", 23: "select", 34: "pause",
    35: "sleep", 42: "connect", 43: "accept", 44: "write", 45: "read", 46: "write", 47: "read", 61: "child", 72: "lock",
    73: "lock", 202: "lock", 230: "sleep", 232: "events", 247: "child", 257: "open", 270: "select", 271: "poll",
    281: "events", 288: "accept", 128: "signal", 40: "write", 74: "disk", 75: "disk",
}  # fmt: skip
_ARM = {
    63: "read", 64: "write", 65: "read", 66: "write", 72: "select", 73: "poll", 115: "sleep", 101: "sleep",
    203: "connect", 202: "accept", 242: "accept", 206: "write", 207: "read", 211: "write", 212: "read", 260: "child",
    95: "child", 25: "lock", 32: "lock", 98: "lock", 22: "events", 56: "open", 137: "signal", 71: "write", 82: "disk",
    83: "disk",
}  # fmt: skip
CALLS: Dict[str, Dict[int, str]] = {"x86_64": _X86, "aarch64": _ARM}
"""System calls in which programs wait, by machine and number."""
WITH_FILE = ("read", "write", "connect", "accept", "lock")
FUTEX = {"x86_64": 202, "aarch64": 98}
STOPPED, TRACED, BUSY = ("T", "t", "D")
MOST_FDS, MOST_TEXT, MOST_LINKS = 8, 200, 6
FUSE = ("request_wait_answer", "fuse_", "nfs_", "rpc_wait")
"""Parts of the names of kernel functions that wait for a file server."""
OUT_OF_MEMORY = "mem_cgroup_"
"""Part of the names of those that wait for a unit that has reached its limit of memory."""
ESTABLISHED, CONNECTING, LISTENING = "01", "02", "0A"
RETRIES = 2

Tcp = Dict[str, Tuple[str, str, str, int, int]]
"""By inode: local and remote address, state, bytes that are not acknowledged, how often they were sent again."""


def of_thread(pid: int, state: str, tcp: Tcp) -> Waiting:
    """Return what the main thread of a process waits for; OSErrors are no answer."""
    if state in (STOPPED, TRACED):
        return Waiting("stopped")
    with contextlib.suppress(OSError, ValueError):
        words = _text(f"/proc/{pid}/syscall").split()
        where = _text(f"/proc/{pid}/wchan")
        served = where.startswith(FUSE)
        if where.startswith(OUT_OF_MEMORY):
            return Waiting("memory")
        if words[0] == "running" or (state == "R" and not served):
            return Waiting()
        machine = platform.machine()
        number = int(words[0])
        what = CALLS.get(machine, {}).get(number, f"system call {number}")
        arguments = [int(word, 16) for word in words[1:4]]
        on = ""
        if what in WITH_FILE and number != FUTEX.get(machine):
            on = named(pid, arguments[0], tcp)
        elif what == "poll":
            on = ", ".join(_polled(pid, arguments[0], arguments[1], tcp))
            what = what if on else "sleep"
        elif what == "select":
            what = "poll" if arguments[0] else "sleep"
        elif what == "open":
            on = _path(pid, arguments[1])
        if served or (state == BUSY and not on):
            return Waiting("disk", on or where)
        return Waiting(what, on)
    return Waiting("disk") if state == BUSY else Waiting()


def named(pid: int, number: int, tcp: Tcp) -> str:
    """Return what a file descriptor of a process leads to: `a pipe`, a path, `the socket to 10.0.0.2:80`."""
    target = os.readlink(f"/proc/{pid}/fd/{number}")
    kind, _, inode = target.partition(":")
    if kind == "pipe":
        return f"a pipe ({inode.strip('[]')})"
    if kind != "socket":
        return shown(target)
    known = tcp.get(inode.strip("[]"))
    if known is None:
        return "a local socket"
    local, other, state, _, _ = known
    return f"connections at {local}" if state == LISTENING else f"{other}"


def _polled(pid: int, address: int, count: int, tcp: Tcp) -> List[str]:
    """Return what a process polls, by the list in its memory."""
    found = []
    for number, _ in struct.iter_unpack("ii", _memory(pid, address, 8 * min(count, MOST_FDS))):
        with contextlib.suppress(OSError):
            found.append(named(pid, number, tcp))
    return found


def _path(pid: int, address: int) -> str:
    return _memory(pid, address, MOST_TEXT).partition(b"\0")[0].decode("utf-8", "replace")


def _memory(pid: int, address: int, size: int) -> bytes:
    if not address or size <= 0:
        return b""
    with contextlib.suppress(OSError, OverflowError, ValueError), open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(address)
        return file.read(size) or b""
    return b""


def links(pid: int, tcp: Tcp) -> List[str]:
    """Return what the connections of a process wait for: an address that does not answer, data that does not arrive."""
    found: List[str] = []
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{name}")
                known = tcp.get(target[len("socket:[") : -1]) if target.startswith("socket:[") else None
                if known and (said := _link(*known)):
                    found.append(said)
    return sorted(set(found))[:MOST_LINKS]


def _link(local: str, other: str, state: str, unsent: int, retries: int) -> str:
    if state == CONNECTING:
        return f"{other} does not answer a connection from {local}"
    if state == ESTABLISHED and unsent and retries >= RETRIES:
        return f"{other} does not acknowledge what was sent from {local}"
    return f"listens at {local}" if state == LISTENING else ""


def sockets(pid: int) -> Tcp:
    """Return the TCP sockets of a process's network."""
    found: Tcp = {}
    for name, shown in (("tcp", _v4), ("tcp6", _v6)):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/net/{name}") as file:
            for line in list(file)[1:]:
                fields = line.split()
                unsent, retries = int(fields[4].partition(":")[0], 16), int(fields[6], 16)
                found[fields[9]] = (_address(fields[1], shown), _address(fields[2], shown), fields[3], unsent, retries)
    return found


def _address(text: str, shown: Callable[[str], str]) -> str:
    host, _, port = text.partition(":")
    return f"{shown(host)}:{int(port, 16)}"


def _v4(text: str) -> str:
    return socket.inet_ntoa(struct.pack("<I", int(text, 16)))


def _v6(text: str) -> str:
    packed = b"".join(struct.pack("<I", int(text[at : at + 8], 16)) for at in range(0, 32, 8))
    mapped = packed.startswith(b"\0" * 10 + b"\xff\xff")
    return socket.inet_ntoa(packed[12:]) if mapped else f"[{socket.inet_ntop(socket.AF_INET6, packed)}]"


def shown(text: str) -> str:
    """A text of the kernel's or of a run's that can be written and read anywhere."""
    return text.encode("utf-8", "replace").decode("utf-8")[:MOST_TEXT]


def _text(path: str) -> str:
    with open(path) as file:
        return file.read(4096)
