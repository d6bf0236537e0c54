"""Which rank a process is that Spark has put somewhere, and by which interface its host reaches others."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from collections.abc import Sequence

from workloads.common.ranks import Ranks

SIOCGIFADDR = 0x8915


def interface(address: str) -> str | None:
    """Name of the network interface of this host that has an IPv4 address; None where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return None


def numbered(found: Sequence[str], wanted: Sequence[str]) -> list[Ranks]:
    """The rank that each process is to be; `found`: the address of each one's host, `wanted`: that of each rank.

    Spark puts processes where cores are free. So each takes a rank that is wanted on its host, as long as there is one;
    what is left goes in turn.
    """
    free = list(range(len(found)))
    numbers: dict[int, int] = {}
    for process, address in enumerate(found):
        number = next((one for one in free if one < len(wanted) and wanted[one] == address), None)
        if number is not None:
            numbers[process] = number
            free.remove(number)
    for process in range(len(found)):
        if process not in numbers:
            numbers[process] = free.pop(0)
    made = []
    for process, address in enumerate(found):
        beside = sorted(numbers[other] for other, place in enumerate(found) if place == address)
        own = numbers[process]
        made.append(Ranks(own, len(found), beside.index(own), len(beside)))
    return made
