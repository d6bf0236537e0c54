"""The package proxy of a relay, for the nodes behind it: what one of them has asked for, the others get from here.

It reaches the controller's proxy by a port of its own loopback, keeps all files while it lives, and ends with its
connection to the controller.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import socketserver
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path

from regatta.node import aptcache


class Relay(aptcache.Keeper, socketserver.TCPServer):
    """Answers `members` alone; whatever it lacks comes from the proxy at `upstream`, a port of this host."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], upstream: int, members: list[str], cache: Path) -> None:
        self.cache, self.members = cache, frozenset(members)
        self.upstream = upstream
        proxy = f"http://127.0.0.1:{upstream}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
        super().__init__(address, aptcache.Handler)

    def verify_request(self, request: object, client_address: tuple[str, int]) -> bool:
        """See socketserver.BaseServer."""
        return client_address[0] in self.members

    def keeps(self, path: str) -> bool:
        """Everything: it lives as long as one provisioning."""
        return True

    def open(self, url: str, headers: dict[str, str]) -> contextlib.AbstractContextManager[http.client.HTTPResponse]:
        """Ask the controller's proxy."""
        return contextlib.closing(self._opener.open(urllib.request.Request(url, headers=headers), timeout=60))

    def connect(self, host: str) -> socket.socket:
        """A connection to port 443 of a host, made by the controller."""
        there = socket.create_connection(("127.0.0.1", self.upstream), timeout=60)
        there.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        said = b""
        while not said.endswith(b"\r\n\r\n") and len(said) < 4096:
            piece = there.recv(1)
            if not piece:
                break
            said += piece
        if b" 200 " not in said.partition(b"\r\n")[0]:
            there.close()
            raise OSError("the controller does not reach it")
        return there


def main(address: str, port: int, upstream: int, members: list[str]) -> None:
    """Serve until standard input ends."""
    with (
        tempfile.TemporaryDirectory(prefix="regatta-apt-", dir="/var/tmp") as cache,
        Relay((address, port), upstream, members, Path(cache)) as server,
    ):
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        print("ready", flush=True)
        with contextlib.suppress(OSError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        server.shutdown()
