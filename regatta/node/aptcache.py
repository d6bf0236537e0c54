"""What the apt proxies of the controller and of relays have in common: what is asked, kept and passed on."""

import contextlib
import hashlib
import http.client
import os
import re
import select
import shutil
import socket
import socketserver
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from regatta.node import siteproxy

BUNDLE_HOST = "bundle.regatta.invalid"
_TIMEOUT = 30.0
_REPOSITORY = re.compile(r"/(dists|pool|by-hash)/|/(In)?Release(\.gpg)?$|/Packages(\.\w+)?$|\.deb$")
_KEPT = re.compile(r"\.deb$|/by-hash/")
_PASSED_ON = ("If-Modified-Since", "Range", "If-Range", "Accept", "User-Agent", "Cache-Control")


def allowed(url: str) -> bool:
    """Whether a URL is a file of an apt repository, as far as its address tells."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and bool(_REPOSITORY.search(parts.path))


class Handler(BaseHTTPRequestHandler):
    """GET of repository files, cached where their name fixes their content; CONNECT to port 443 of apt sources."""

    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT
    server: "Keeper"

    def do_GET(self) -> None:
        """Send a file of a repository: of the bundle where there is one, of the cache, or from its site.

        403 for what is no such file; 502 where the site cannot be reached; else what the site answers.
        """
        if not allowed(self.path):
            self._refuse(403, "only files of apt repositories")
            return
        if self.server.bundle:
            self._send_bundled(self.server.bundle)
            return
        try:
            if self.server.keeps(urlsplit(self.path).path) and "Range" not in self.headers:
                self._send_file(self.server.cached(self.path))
            else:
                self._relay()
        except urllib.error.HTTPError as error:
            self._answer(error.code, error.headers, b"")
        except (OSError, http.client.HTTPException) as error:
            self._refuse(
                502, f"this machine cannot reach {urlsplit(self.path).hostname}{siteproxy.shown(self.path)}: {error}"
            )

    def do_CONNECT(self) -> None:
        """Pass bytes on between the node and an apt source, both ways, until they end.

        403 for another port than 443, and where there is a bundle; 502 where the source cannot be reached.
        """
        host, _, port = self.path.rpartition(":")
        if port != "443" or self.server.bundle:
            self._refuse(403, "only port 443")
            return
        try:
            there = self.server.connect(host.strip("[]"))
        except OSError as error:
            self._refuse(502, f"this machine cannot reach {host}{siteproxy.shown(f'https://{host}/')}: {error}")
            return
        with there:
            self.send_response(200, "Connection established")
            self.end_headers()
            _pump(self.connection, there)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def address_string(self) -> str:
        """A Unix socket has no address."""
        return "node"

    def _relay(self) -> None:
        with self.server.open(self.path, dict(self._passed_on())) as answer:
            self._answer(answer.status, answer.headers, answer.read())

    def _send_file(self, path: Path) -> None:
        with path.open("rb") as file:
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
            self.end_headers()
            shutil.copyfileobj(file, self.wfile, 1 << 18)

    def _send_bundled(self, folder: Path) -> None:
        parts = urlsplit(self.path)
        path = (folder / unquote(parts.path).lstrip("/")).resolve()
        if parts.hostname != BUNDLE_HOST or not path.is_relative_to(folder) or not path.is_file():
            self._refuse(404, "not in the bundle")
            return
        self._send_file(path)

    def _passed_on(self) -> Iterator[tuple[str, str]]:
        for name in _PASSED_ON:
            if value := self.headers.get(name):
                yield name, value

    def _answer(self, status: int, headers: object, body: bytes) -> None:
        self.send_response(status)
        get = getattr(headers, "get", lambda _: None)
        for name in ("Content-Type", "Last-Modified", "ETag", "Content-Range"):
            if value := get(name):
                self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, status: int, reason: str) -> None:
        self.close_connection = True
        self.send_response(status, reason.replace("\n", " ")[:200])
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()


class Keeper(socketserver.ThreadingMixIn, socketserver.BaseServer):
    """What is common to proxies: downloads of the same file happen once."""

    daemon_threads = True
    cache: Path
    bundle: Path | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.downloads = 0
        self._busy: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()
        super().__init__(*args, **kwargs)

    def handle_error(self, request: object, client_address: object) -> None:
        """A node that went away is no news."""

    def keeps(self, path: str) -> bool:
        """Whether a file goes to the cache: its name fixes its content."""
        return bool(_KEPT.search(path))

    def connect(self, host: str) -> socket.socket:
        """A connection to port 443 of a host, through this machine's own proxy where it has one."""
        return siteproxy.connect(host, 443, _TIMEOUT)

    def open(self, url: str, headers: dict[str, str]) -> contextlib.AbstractContextManager[http.client.HTTPResponse]:
        """Ask the repository, through this machine's own proxy where it has one."""
        answer: http.client.HTTPResponse = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=_TIMEOUT
        )
        return contextlib.closing(answer)

    def cached(self, url: str) -> Path:
        """The file of a URL whose name fixes its content, downloaded at most once."""
        name = hashlib.sha256(url.encode()).hexdigest()
        path = self.cache / f"{name}{'.deb' if url.endswith('.deb') else ''}"
        with self._guard:
            lock = self._busy.setdefault(name, threading.Lock())
        with lock:
            if not path.is_file():
                self.cache.mkdir(parents=True, exist_ok=True)
                new = path.with_name(f".{path.name}.{os.getpid()}")
                with self.open(url, {}) as answer, new.open("wb") as file:
                    shutil.copyfileobj(answer, file, 1 << 18)
                    length = answer.headers.get("Content-Length")
                if length and new.stat().st_size != int(length):
                    new.unlink()
                    raise OSError("the connection ended early")
                new.replace(path)
                self.downloads += 1
        return path


def _pump(left: socket.socket, right: socket.socket) -> None:
    """Bytes in both directions until one side has nothing more for a while."""
    other = {left: right, right: left}
    while True:
        readable, _, _ = select.select([left, right], [], [], _TIMEOUT)
        if not readable:
            return
        for source in readable:
            data = source.recv(1 << 16)
            if not data:
                return
            other[source].sendall(data)
