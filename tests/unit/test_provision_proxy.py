"""The package proxy, with a real repository on loopback behind it and a real Unix socket in front."""

import http.client
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from regatta.hosts import sources
from regatta.hosts.cluster import Node
from regatta.hosts.tunnels import free_local_port
from regatta.node import aptcache
from regatta.provisioning import aptproxy, aptrelay

UPSTREAM = "http://x.test"
DEB = b"!<arch>\n" + bytes(range(256)) * 4000


class Repository(BaseHTTPRequestHandler):
    asked: list[str]
    bodies: dict[str, bytes] = {"/debian/pool/a.deb": DEB, "/debian/dists/x/InRelease": b"signed"}  # noqa: RUF012

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        if self.path.endswith("short.deb"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
            return
        found = self.bodies.get(self.path.removeprefix(UPSTREAM))
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


def test_from_a_bundle_nothing_is_downloaded(tmp_path: Path, repository: ThreadingHTTPServer) -> None:
    folder = tmp_path / "bundle"
    for name, body in (("0/pool/a b+1.deb", DEB), ("0/dists/x/InRelease", b"signed")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    (tmp_path / "secret.deb").write_bytes(b"secret")
    base = f"http://{aptcache.BUNDLE_HOST}"
    with aptproxy.serving(tmp_path / "s2", tmp_path / "cache2", folder) as server:
        assert get(server, f"{base}/0/pool/a%20b%2b1.deb") == (200, DEB)
        assert get(server, f"{base}/0/dists/x/InRelease") == (200, b"signed")
        for url in (
            f"{base}/0/pool/b.deb",
            f"{base}/0/pool/../../../secret.deb",
            f"{base}/0/pool/%2e%2e/%2e%2e/%2e%2e/secret.deb",
            f"http://127.0.0.1:{repository.server_address[1]}/debian/pool/a.deb",
        ):
            assert get(server, url) == (404, b"")
        assert get(server, "deb.debian.org:443", "CONNECT")[0] == 403
    assert repository.asked == []  # type: ignore[attr-defined]


@pytest.fixture
def relayed(tmp_path: Path) -> Iterator[tuple[ThreadingHTTPServer, "subprocess.Popen[bytes]", int]]:
    """What a relay runs, with a proxy of the controller that is a repository itself: (that, the relay, its port)."""
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Repository)
    upstream.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=upstream.serve_forever, args=(0.05,), daemon=True).start()
    port = free_local_port()
    text = aptrelay.program(node("127.0.0.1"), [node("127.0.0.1")], port, upstream.server_address[1])
    process = subprocess.Popen(
        [sys.executable, "-ISuc", sources.BOOT, str(len(text))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    process.stdin.write(text)
    process.stdin.flush()
    assert process.stdout.readline() == b"ready\n"
    yield upstream, process, port
    process.stdin.close()
    process.wait(10)
    process.stdout.close()
    upstream.shutdown()
    upstream.server_close()


def node(address: str) -> Node:
    return Node("r", address, address, False, None, None, None, (), "/opt/regatta", "/var/lib/regatta", "python3")


def through(port: int, url: str, source: str = "127.0.0.1") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10, source_address=(source, 0))
    connection.request("GET", url)
    answer = connection.getresponse()
    return answer.status, answer.read()


def caches() -> set[Path]:
    return set(Path("/var/tmp").glob("regatta-apt-*"))


def test_a_relay_asks_once_and_leaves_nothing(
    relayed: tuple[ThreadingHTTPServer, "subprocess.Popen[bytes]", int],
) -> None:
    upstream, process, port = relayed
    bodies = {f"{UPSTREAM}{path}": body for path, body in Repository.bodies.items()}
    here = caches()
    assert len(here) >= 1
    for url, body in bodies.items():
        assert [through(port, url) for _ in range(3)] == [(200, body)] * 3
    assert upstream.asked == list(bodies)  # type: ignore[attr-defined]
    assert through(port, f"{UPSTREAM}/etc/passwd")[0] == 403
    with pytest.raises((http.client.HTTPException, OSError)):
        through(port, f"{UPSTREAM}/debian/pool/a.deb", "127.0.0.2")
    assert process.stdin
    process.stdin.close()
    assert process.wait(10) == 0
    assert len(caches()) < len(here)
