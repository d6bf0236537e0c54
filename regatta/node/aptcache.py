"""Shared by the apt proxies of the controller and of relays: what is asked, kept and passed on."""

import base64
import contextlib
import hashlib
import hmac
import http.client
import os
import re
import select
import socket
import socketserver
import tempfile
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urljoin, urlsplit

from regatta.node import siteproxy

BUNDLE_HOST = "bundle.regatta.invalid"
USER = "regatta"
"""Whom apt names with the secret in the proxy's address."""
LARGEST_FILE = 2 << 30
"""Bytes of one file; the package lists of Ubuntu have 80 MB, CUDA's largest packages 1 GB."""
_ONLY = "only files of apt repositories"
_HOPS = 5
_TIMEOUT = 30.0
_PORTS = {"http": 80, "https": 443}
_REPOSITORY = re.compile(r"/(dists|pool|by-hash)/|/(In)?Release(\.gpg)?$|/Packages(\.\w+)?$|\.deb$")
_KEPT = re.compile(r"\.deb$|/by-hash/")
_PASSED_ON = ("If-Modified-Since", "Range", "If-Range", "Accept", "User-Agent", "Cache-Control")


class Refused(Exception):
    """The proxy does not serve this."""


@dataclass(frozen=True)
class Source:
    """A source of apt: a host, and the folder that all its files are below."""

    scheme: str
    host: str
    port: int
    folder: str

    @classmethod
    def of(cls, url: str) -> "Source | None":
        """The source of a URL; None for one that is not http or https. ValueError for one that cannot be read."""
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            return None
        return cls(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme], parts.path.rstrip("/") + "/")


def sources(urls: Iterable[str]) -> frozenset[Source]:
    """The sources among these; what cannot be read is none."""
    found = set()
    for url in urls:
        with contextlib.suppress(ValueError):
            found.add(Source.of(url))
    return frozenset(found - {None})  # type: ignore[arg-type]


def repository_path(url: str) -> str:
    """The path of a file of an apt repository, as far as its address tells. Refused for any other."""
    try:
        parts, source = urlsplit(url), Source.of(url)
    except ValueError:
        raise Refused(_ONLY) from None
    more = parts.username or parts.query or parts.fragment
    if not source or more or not _REPOSITORY.search(parts.path) or not _is_plain(parts.path):
        raise Refused(_ONLY)
    return parts.path


def _is_plain(path: str) -> bool:
    """Whether a path only leads down, however often it is decoded; a name may have its own `%`."""
    for _ in range(4):
        parts = re.split(r"[/\\]", path)
        if any(part.partition(";")[0] == ".." for part in parts) or re.search(r"[\x00-\x1f\x7f]", path):
            return False
        if (decoded := unquote(path)) == path:
            return True
        path = decoded
    return False


class Handler(BaseHTTPRequestHandler):
    """GET of repository files, cached where their name fixes their content; CONNECT to apt sources with https."""

    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT
    server: "Keeper"

    def do_GET(self) -> None:
        """Send a file of a repository: of the bundle where there is one, of the cache, or from its site.

        403 without the secret, and for what is no such file or on no such host; 502 where the site cannot
        be reached, leads elsewhere or sends too much; else what the site answers.
        """
        try:
            self._must_know()
            path = repository_path(self.path)
            if self.server.bundle:
                self._send_bundled(self.server.bundle)
                return
            self.server.must_serve(self.path)
            if self.server.keeps(path) and "Range" not in self.headers:
                self._send_kept()
            else:
                self._relay()
        except Refused as refusal:
            self._refuse(403, str(refusal))
        except (OSError, http.client.HTTPException) as error:
            self._refuse(
                502, f"this machine cannot reach {urlsplit(self.path).hostname}{siteproxy.shown(self.path)}: {error}"
            )

    def do_CONNECT(self) -> None:
        """Pass bytes on between the node and an apt source, both ways, until they end.

        403 without the secret, for what no source names, and where there is a bundle; 502 where the
        source cannot be reached.
        """
        host, _, port = self.path.rpartition(":")
        host = host.strip("[]").lower()
        try:
            self._must_know()
            if self.server.bundle:
                raise Refused("all packages are in the bundle")
            self.server.must_connect(host, int(port) if port.isdecimal() else 0)
            there = self.server.connect(host, int(port))
        except Refused as refusal:
            self._refuse(403, str(refusal))
            return
        except (OSError, http.client.HTTPException) as error:
            self._refuse(502, f"this machine cannot reach {host}{siteproxy.shown(f'https://{host}/')}: {error}")
            return
        with there:
            self.send_response(200, "Connection established")
            self.end_headers()
            for count in _pump(self.connection, there):
                self.server.sent += count
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def address_string(self) -> str:
        """A Unix socket has no address."""
        return "node"

    def _must_know(self) -> None:
        given = self.headers.get("Proxy-Authorization", "")
        if not hmac.compare_digest(given.encode(), credentials(self.server.secret).encode()):
            raise Refused("the proxy is only for provisioning: its address has a secret")

    def _send_kept(self) -> None:
        try:
            path = self.server.cached(self.path)
        except _StatusError as error:
            self._answer(error.status, None, None)
            return
        with path.open("rb") as file:
            self._send_file(file)

    def _relay(self) -> None:
        self.server.cache.mkdir(parents=True, exist_ok=True)
        with (
            self.server.open(self.path, dict(self._passed_on())) as answer,
            tempfile.TemporaryFile(dir=self.server.cache) as body,
        ):
            if answer.status in (200, 206):
                self.server.copy(answer, body)
            self._answer(answer.status, answer.headers, body)

    def _send_file(self, file: IO[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
        self.end_headers()
        self._pass_on(file)

    def _send_bundled(self, folder: Path) -> None:
        parts = urlsplit(self.path)
        path = (folder / unquote(parts.path).lstrip("/")).resolve()
        if parts.hostname != BUNDLE_HOST or not path.is_relative_to(folder) or not path.is_file():
            self._refuse(404, "not in the bundle")
            return
        with path.open("rb") as file:
            self._send_file(file)

    def _passed_on(self) -> Iterator[tuple[str, str]]:
        for name in _PASSED_ON:
            if value := self.headers.get(name):
                yield name, value

    def _answer(self, status: int, headers: Any, body: IO[bytes] | None) -> None:
        self.send_response(status)
        for name in ("Content-Type", "Last-Modified", "ETag", "Content-Range"):
            if value := (headers or {}).get(name):
                self.send_header(name, value)
        length = body.seek(0, os.SEEK_END) if body else 0
        if status != 304:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if body:
            body.seek(0)
            self._pass_on(body)

    def _pass_on(self, file: IO[bytes]) -> None:
        while block := file.read(1 << 18):
            self.wfile.write(block)
            self.server.sent += len(block)

    def _refuse(self, status: int, reason: str) -> None:
        self.close_connection = True
        self.send_response(status, reason.replace("\r", " ").replace("\n", " ")[:200])
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()


class _StatusError(Exception):
    """The site answers with something else than the file."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


class _AsAnswered(urllib.request.HTTPErrorProcessor):
    """Every answer as it came: urllib itself would follow a redirect, to anywhere."""

    def http_response(self, request: Any, response: Any) -> Any:
        """See urllib."""
        return response

    https_response = http_response


class Keeper(socketserver.ThreadingMixIn, socketserver.BaseServer):
    """The base of proxies: who may ask, for what, how much; downloads of the same file happen once."""

    daemon_threads = True
    cache: Path
    secret: str
    bundle: Path | None = None
    largest = LARGEST_FILE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.downloads = 0
        self.sent = 0
        self._busy: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()
        super().__init__(*args, **kwargs)

    def handle_error(self, request: object, client_address: object) -> None:
        """A node that went away is no news."""

    def keeps(self, path: str) -> bool:
        """Whether a file goes to the cache: its name fixes its content."""
        return bool(_KEPT.search(path))

    def sources(self) -> frozenset[Source] | None:
        """Return what the nodes' apt sources name; None where another proxy judges that."""
        raise NotImplementedError

    def must_serve(self, url: str) -> None:
        """Refused unless the URL is below what a source names."""
        known, asked = self.sources(), Source.of(url)
        if known is None or asked is None:
            return
        same = (one for one in known if (one.scheme, one.host, one.port) == (asked.scheme, asked.host, asked.port))
        if not any(asked.folder.startswith(one.folder) for one in same):
            raise Refused(f"no node's apt sources name {asked.scheme}://{asked.host}:{asked.port}{asked.folder}")

    def must_connect(self, host: str, port: int) -> None:
        """Refused unless a source with https is there."""
        known = self.sources()
        if known is not None and not any((one.scheme, one.host, one.port) == ("https", host, port) for one in known):
            raise Refused(f"no node's apt sources name https://{host}:{port}")

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to a host, through this machine's own proxy where it has one."""
        return siteproxy.connect(host, port, _TIMEOUT)

    @contextlib.contextmanager
    def open(self, url: str, headers: dict[str, str]) -> Iterator[Any]:
        """Ask the repository, through this machine's own proxy where it has one.

        It may lead to another file of a repository on a host that a source names. OSError where it leads elsewhere.
        """
        for _ in range(_HOPS):
            with self._opener().open(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT) as answer:
                if answer.status not in (301, 302, 303, 307, 308):
                    yield answer
                    return
                url = self._further(url, str(answer.headers.get("Location", "")))
        raise OSError("it leads on and on")

    def _opener(self, *more: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
        return urllib.request.build_opener(_AsAnswered, *more)

    def _further(self, url: str, location: str) -> str:
        """Return where a redirect leads, on a named host at one of its named ports, or at that of http or https."""
        target = urljoin(url, location)
        try:
            repository_path(target)
            there = Source.of(target)
        except (Refused, ValueError):
            there = None
        known = [one for one in self.sources() or () if there and one.host == there.host]
        if not there or there.port not in {*(one.port for one in known), *(_PORTS.values() if known else ())}:
            shown = urlsplit(target)._replace(query="", fragment="").geturl()[:80]
            raise OSError(f"it leads to {shown!r}, which no node's apt sources name")
        return target

    def copy(self, source: Any, target: IO[bytes]) -> None:
        """Copy an answer's body, whole and of bounded size. Raises OSError."""
        length, copied = source.headers.get("Content-Length"), 0
        while block := source.read(1 << 18):
            copied += len(block)
            if copied > self.largest:
                raise OSError(f"it sends more than {self.largest} bytes")
            target.write(block)
        if length and copied != int(length):
            raise OSError("the connection ended early")

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
                try:
                    with self.open(url, {}) as answer, new.open("wb") as file:
                        if answer.status != 200:
                            raise _StatusError(answer.status)
                        self.copy(answer, file)
                    new.replace(path)
                finally:
                    new.unlink(missing_ok=True)
                self.downloads += 1
        return path


def credentials(secret: str) -> str:
    """The header by which apt, urllib and we show a proxy its secret."""
    return f"Basic {base64.b64encode(f'{USER}:{secret}'.encode()).decode()}"


def _pump(left: socket.socket, right: socket.socket) -> Iterator[int]:
    """Pass bytes on in both directions until one side has nothing more for a while; yields how many each time."""
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
            yield len(data)
