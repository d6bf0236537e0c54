"""The network interfaces of the host on which this runs: a node, or a process of a run there."""

import contextlib
import fcntl
import socket
import struct
from typing import Optional

SIOCGIFADDR = 0x8915


def interface(address: str) -> Optional[str]:
    """Name of the network interface that holds an IPv4 address; None where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return None
