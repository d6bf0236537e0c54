"""The package proxy of a relay, for the nodes behind it: what one of them has asked for, the others get from here.

It reaches the controller's proxy by a port of its loopback, keeps all files while it lives, and ends with its
connection to the controller. That one judges what is asked for; both ask for the same secret.
"""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path

from regatta.node import aptcache, siteproxy

_TIMEOUT = 60.0


class Relay(aptcache.Keeper, socketserver.TCPServer):
    """Answers only `members`; whatever it lacks comes from the proxy at `upstream`, a port of this host."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], upstream: int, members: list[str], cache: Path, secret: str) -> None:
        self.cache, self.secret, self.members = cache, secret, frozenset(members)
        self.upstream = f"http://{aptcache.USER}:{secret}@127.0.0.1:{upstream}"
        super().__init__(address, aptcache.Handler)

    def verify_request(self, request: object, client_address: tuple[str, int]) -> bool:
        """See socketserver.BaseServer."""
        return client_address[0] in self.members

    def keeps(self, path: str) -> bool:
        """Everything: it lives as long as one provisioning."""
        return True

    def sources(self) -> None:
        """The controller's proxy knows them."""

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to a host, made by the controller."""
        return siteproxy.tunnel(siteproxy.address(self.upstream), host, port, _TIMEOUT)

    def _opener(self, *more: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
        return super()._opener(*more, urllib.request.ProxyHandler({"http": self.upstream, "https": self.upstream}))


def main(address: str, port: int, upstream: int, members: list[str], secret: str) -> None:
    """Serve until standard input ends."""
    with (
        tempfile.TemporaryDirectory(prefix="regatta-apt-", dir="/var/tmp") as cache,
        Relay((address, port), upstream, members, Path(cache), secret) as server,
    ):
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        print("ready", flush=True)
        with contextlib.suppress(OSError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        server.shutdown()
