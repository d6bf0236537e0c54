"""The package proxy, with a real repository on loopback behind it and a real Unix socket in front."""

import http.client
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from regatta.provisioning import aptproxy

DEB = b"!<arch>\n" + bytes(range(256)) * 4000


class Repository(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        if self.path.endswith("short.deb"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
            return
        found = {"/debian/pool/a.deb": DEB, "/debian/dists/x/InRelease": b"signed"}.get(self.path)
        if self.headers.get("If-Modified-Since"):
            self.send_response(304)
            self.end_headers()
            return
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(found or b"")))
        self.send_header("Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(found or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def repository() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Repository)
    server.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[aptproxy.Server]:
    with aptproxy.serving(tmp_path / "s", tmp_path / "cache") as server:
        yield server


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("node", timeout=10)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(str(self.path))


def get(proxy: aptproxy.Server, url: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    connection = UnixConnection(Path(str(proxy.server_address)))
    connection.request(method, url, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_many_nodes_one_download(proxy: aptproxy.Server, repository: ThreadingHTTPServer) -> None:
    url = f"http://127.0.0.1:{repository.server_port}/debian/pool/a.deb"
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: get(proxy, url), range(8)))
    assert answers == [(200, DEB)] * 8
    assert len(repository.asked) == proxy.downloads == 1  # type: ignore[attr-defined]


def test_lists_are_asked_for_each_time(proxy: aptproxy.Server, repository: ThreadingHTTPServer) -> None:
    url = f"http://127.0.0.1:{repository.server_port}/debian/dists/x/InRelease"
    assert get(proxy, url) == get(proxy, url) == (200, b"signed")
    assert get(proxy, url, **{"If-Modified-Since": "Sat, 21 Nov 2026 00:00:00 GMT"}) == (304, b"")
    assert len(repository.asked) == 3  # type: ignore[attr-defined]


def test_what_fails_is_passed_on_and_not_kept(proxy: aptproxy.Server, repository: ThreadingHTTPServer) -> None:
    base = f"http://127.0.0.1:{repository.server_port}/debian/pool"
    assert get(proxy, f"{base}/none.deb")[0] == 404
    assert get(proxy, f"{base}/short.deb")[0] == 502
    assert not list(proxy.cache.glob("*"))
    assert get(proxy, "http://127.0.0.1:9/debian/pool/a.deb")[0] == 502


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/admin",
        "file:///debian/pool/a.deb",
        "/debian/pool/a.deb",
        "http://h/latest/meta-data/",
        "ftp://h/x.deb",
    ],
)
def test_only_repositories(proxy: aptproxy.Server, url: str) -> None:
    assert get(proxy, url)[0] == 403


@pytest.mark.parametrize("target", ["h:22", "h:80", "127.0.0.1:8265"])
def test_connect_only_to_https(proxy: aptproxy.Server, target: str) -> None:
    connection = UnixConnection(Path(str(proxy.server_address)))
    connection.request("CONNECT", target)
    assert connection.getresponse().status == 403


def test_other_methods_are_unknown(proxy: aptproxy.Server) -> None:
    assert get(proxy, "http://h/debian/pool/a.deb", "POST")[0] == 501


def test_the_socket_is_private_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with aptproxy.serving(path, tmp_path / "cache"):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()
    with aptproxy.serving(path, tmp_path / "cache"):
        assert path.exists()
