"""A caching HTTP proxy for apt, so that nodes without a way to the internet get their Debian packages.

It listens on a Unix socket of this user; an SSH reverse forward leads to it from a node's loopback while provisioning
runs. apt verifies signatures end to end: neither this proxy nor its cache need be trusted by the nodes. It serves who
knows its secret, and only files that are below what the nodes' own apt sources name.
"""

import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regatta.node.aptcache import Handler, Keeper, Source, sources


class Server(Keeper, socketserver.UnixStreamServer):
    """The proxy on a Unix socket."""

    request_queue_size = 128

    def __init__(self, path: Path, cache: Path, secret: str, bundle: Path | None = None) -> None:
        path.unlink(missing_ok=True)
        self.cache, self.secret, self.bundle = cache, secret, bundle
        self.named = path.with_name(f"{path.name}-sources")
        super().__init__(str(path), Handler)
        path.chmod(0o600)

    def sources(self) -> frozenset[Source]:
        """Return what the role `base` has read on the nodes, and has put here; nothing before that."""
        try:
            return sources(json.loads(self.named.read_text()))
        except (FileNotFoundError, ValueError):
            return frozenset()

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        """BaseHTTPRequestHandler wants an address, which a Unix socket has not."""
        request, _ = super().get_request()
        return request, ("node", 0)


@contextmanager
def serving(path: Path, cache: Path, secret: str, bundle: Path | None = None) -> Iterator[Server]:
    """Run the proxy in a thread; the socket goes with it. With a bundle's folder it downloads nothing.

    `Server.named` is a file of JSON, a list of URLs: what the nodes' apt sources name.
    """
    with Server(path, cache, secret, bundle) as server:
        server.named.unlink(missing_ok=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(5)
            path.unlink(missing_ok=True)
            server.named.unlink(missing_ok=True)
