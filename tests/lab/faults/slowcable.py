"""Passes frames between two interfaces after a while: `slowcable.py ONE OTHER SECONDS`, until it is killed."""

import collections
import select
import socket
import struct
import sys
import time

SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_IGNORE_OUTGOING, PACKET_VNET_HDR = 263, 1, 23, 15
PACKET_MR_PROMISC = 1


def opened(interface: str) -> socket.socket:
    """A socket for all that comes from an interface's other end; frames keep their offload headers."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    sock.bind((interface, 3))
    member = struct.pack("iHH8s", socket.if_nametoindex(interface), PACKET_MR_PROMISC, 0, b"")
    sock.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, member)
    return sock


def main(one: str, other: str, seconds: float) -> None:
    """Entry point."""
    ends = [opened(one), opened(other)]
    across = {ends[0]: ends[1], ends[1]: ends[0]}
    waiting: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()
    print("ready", flush=True)
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for sock in select.select(ends, [], [], pause)[0]:
            waiting.append((time.monotonic() + seconds, across[sock], sock.recv(1 << 17)))
        while waiting and waiting[0][0] <= time.monotonic():
            _, to, frame = waiting.popleft()
            try:
                to.send(frame)
            except OSError as error:
                print(f"a frame of {len(frame)} bytes is lost: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
