"""The package proxy, with a real repository on loopback behind it and a real Unix socket in front."""

import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import urllib.parse
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
SECRET = "a-secret-of-this-test"
KNOWS = {"Proxy-Authorization": aptcache.credentials(SECRET)}
SCRIPT = Path(__file__).resolve().parents[2] / "ansible/roles/base/files/apt_sources.sh"
DEB = b"!<arch>\n" + bytes(range(256)) * 4000


class Repository(BaseHTTPRequestHandler):
    asked: list[str]
    bodies: dict[str, bytes] = {  # noqa: RUF012
        "/debian/pool/a.deb": DEB,
        "/debian/dists/x/InRelease": b"signed",
        "/debian/pool/e_1%253a2.deb": b"epoch",
        "/latest/meta-data/pool/": b"keys of the machine",
        "/other/pool/a.deb": b"of another host",
    }

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.server.shown.append(self.headers.get("Proxy-Authorization"))  # type: ignore[attr-defined]
        if self.path.endswith("short.deb"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
            return
        if found := re.fullmatch(r".*/pool/to/(.*?)(\.deb|/InRelease)", self.path):
            self.send_response(302)
            self.send_header("Location", urllib.parse.unquote(found[1]))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = self.bodies.get(self.path.removeprefix(UPSTREAM))
        if self.headers.get("If-Modified-Since"):
            self.send_response(304)
            self.end_headers()
            return
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body or b"")))
        self.send_header("Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def repository() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Repository)
    server.asked, server.shown = [], []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxy(tmp_path: Path, repository: ThreadingHTTPServer) -> Iterator[aptproxy.Server]:
    with aptproxy.serving(tmp_path / "s", tmp_path / "cache", SECRET) as server:
        served = [f"http://127.0.0.1:{repository.server_port}/debian", "http://127.0.0.1:9/debian/"]
        server.named.write_text(json.dumps([*served, "https://h:8443/x", "http://plain/x", "file:///x", "http://[x"]))
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
    connection.request(method, url, headers={**KNOWS, **headers})
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


ELSEWHERE = [
    "http://127.0.0.1/admin",
    "file:///debian/pool/a.deb",
    "/debian/pool/a.deb",
    "http://h/latest/meta-data/",
    "ftp://h/x.deb",
    "http://{site}/other/pool/a.deb",
    "http://{site}/debian/pool/a.deb?x",
    "http://u:p@{site}/debian/pool/a.deb",
    "https://{site}/debian/pool/a.deb",
    "http://localhost:{port}/debian/pool/a.deb",
    "http://127.0.0.1:1/debian/pool/a.deb",
    "http://127.0.0.1:x/debian/pool/a.deb",
    "http://{site}/debian/pool/../../other/pool/a.deb",
    "http://{site}/debian/pool/%2e%2e/%2E./other/pool/a.deb",
    "http://{site}/debian/pool/..%2f..%2fother/pool/a.deb",
    "http://{site}/debian/pool/%252e%252e/other/pool/a.deb",
    "http://{site}/debian/pool/..%5cother/pool/a.deb",
    "http://{site}/debian/pool/..;/other/pool/a.deb",
    "http://{site}/debian/pool/a%0d%0a.deb",
]


def test_only_files_of_repositories_that_sources_name(proxy: aptproxy.Server, repository: ThreadingHTTPServer) -> None:
    port = repository.server_port
    said = {url: get(proxy, url.format(site=f"127.0.0.1:{port}", port=port))[0] for url in ELSEWHERE}
    assert said == dict.fromkeys(ELSEWHERE, 403)
    assert repository.asked == []  # type: ignore[attr-defined]


def test_a_name_may_have_a_percent_sign(proxy: aptproxy.Server, repository: ThreadingHTTPServer) -> None:
    url = f"http://127.0.0.1:{repository.server_port}/debian/pool/e_1%253a2.deb"
    assert get(proxy, url) == (200, b"epoch")


def test_before_the_nodes_have_said_their_sources_nothing_is_served(
    proxy: aptproxy.Server, repository: ThreadingHTTPServer
) -> None:
    proxy.named.unlink()
    assert get(proxy, f"http://127.0.0.1:{repository.server_port}/debian/pool/a.deb")[0] == 403


REDIRECTS = {
    "/debian/pool/a.deb": 200,
    "http://127.0.0.1:{port}/other/pool/a.deb": 200,
    "http://127.0.0.1:{port}/latest/meta-data/": 502,
    "http://localhost:{port}/latest/meta-data/pool/": 502,
    "http://127.0.0.1:1/debian/pool/a.deb": 502,
    "file:///debian/pool/a.deb": 502,
    "": 502,
}


@pytest.mark.parametrize("name", [".deb", "/InRelease"])
def test_a_redirect_leads_to_files_on_named_hosts_alone(
    proxy: aptproxy.Server, repository: ThreadingHTTPServer, name: str
) -> None:
    port = repository.server_port
    ways = {to: urllib.parse.quote(to.format(port=port), safe="") for to in REDIRECTS}
    said = {to: get(proxy, f"http://127.0.0.1:{port}/debian/pool/to/{way}{name}")[0] for to, way in ways.items()}
    assert said == REDIRECTS


def test_a_redirect_to_itself_ends(proxy: aptproxy.Server, repository: ThreadingHTTPServer) -> None:
    class Round(Repository):
        def do_GET(self) -> None:
            self.send_response(301)
            self.send_header("Location", self.path)
            self.end_headers()

    repository.RequestHandlerClass = Round
    assert get(proxy, f"http://127.0.0.1:{repository.server_port}/debian/pool/a.deb")[0] == 502


def test_what_is_too_large_is_neither_sent_nor_kept(proxy: aptproxy.Server, repository: ThreadingHTTPServer) -> None:
    proxy.largest = 5
    for path in ("/debian/pool/a.deb", "/debian/dists/x/InRelease"):
        assert get(proxy, f"http://127.0.0.1:{repository.server_port}{path}") == (502, b"")
    assert not list(proxy.cache.glob("*"))


def test_who_does_not_know_the_secret_gets_nothing(proxy: aptproxy.Server, repository: ThreadingHTTPServer) -> None:
    url = f"http://127.0.0.1:{repository.server_port}/debian/pool/a.deb"
    for given in ("", "Basic", aptcache.credentials("another"), aptcache.credentials("")):
        headers = {"Proxy-Authorization": given}
        assert get(proxy, url, **headers)[0] == get(proxy, "h:8443", "CONNECT", **headers)[0] == 403
    assert repository.asked == []  # type: ignore[attr-defined]


def test_connect_only_to_sources_with_https(proxy: aptproxy.Server) -> None:
    targets = ["h:22", "h:80", "h:443", "127.0.0.1:8443", "plain:443", "plain:80", "h", "h:x"]
    assert {target: get(proxy, target, "CONNECT")[0] for target in targets} == dict.fromkeys(targets, 403)


def test_connect_to_a_source_with_https(proxy: aptproxy.Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        proxy.named.write_text(json.dumps([f"https://127.0.0.1:{port}/debian"]))
        with socket.socket(socket.AF_UNIX) as way:
            way.connect(str(proxy.server_address))
            way.settimeout(10)
            target = f"127.0.0.1:{port}"
            lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *(f"{k}: {v}" for k, v in KNOWS.items()), "", ""]
            way.sendall("\r\n".join(lines).encode())
            assert b" 200 " in way.recv(1000)
            far, _ = there.accept()
            with far:
                way.sendall(b"hello")
                assert far.recv(5) == b"hello"


def test_sources_are_read_as_apt_reads_them(tmp_path: Path) -> None:
    mirrors = tmp_path / "mirrors.list"
    mirrors.write_text("https://one.test/debian\tpriority:1\nhttp://two.test/debian\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "sources.list").write_text(
        f"deb mirror+file:{mirrors} x main\n# deb http://gone.test/x y z\ndeb http://u:p@flat.test/y ./\n"
        "deb [arch=amd64] https://Three.test:8443/a/b x main\n"
    )
    new = "Types: deb deb-src\nURIs: http://four.test/ubuntu/ http://five.test\nSuites: x x-updates\nComponents: main\n"
    (tmp_path / "parts/new.sources").write_text(f"{new}\nEnabled: no\n{new.replace('four', 'off')}")
    (tmp_path / "lists/partial").mkdir(parents=True)
    places = {"SourceList": "sources.list", "SourceParts": "parts"}
    words = [word for key, name in places.items() for word in ("-o", f"Dir::Etc::{key}={tmp_path / name}")]
    command = ["sh", str(SCRIPT), *words, "-o", f"Dir::State::Lists={tmp_path}/lists"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert {(one.scheme, one.host, one.port, one.folder) for one in aptcache.sources(said.split())} == {
        ("https", "one.test", 443, "/debian/"),
        ("http", "two.test", 80, "/debian/"),
        ("https", "three.test", 8443, "/a/b/"),
        ("http", "four.test", 80, "/ubuntu/"),
        ("http", "five.test", 80, "/"),
        ("http", "flat.test", 80, "/"),
    }


def test_other_methods_are_unknown(proxy: aptproxy.Server) -> None:
    assert get(proxy, "http://h/debian/pool/a.deb", "POST")[0] == 501


def test_the_socket_is_private_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with aptproxy.serving(path, tmp_path / "cache", SECRET):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()
    with aptproxy.serving(path, tmp_path / "cache", SECRET):
        assert path.exists()


def test_from_a_bundle_nothing_is_downloaded(tmp_path: Path, repository: ThreadingHTTPServer) -> None:
    folder = tmp_path / "bundle"
    for name, body in (("0/pool/a b+1.deb", DEB), ("0/dists/x/InRelease", b"signed")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    (tmp_path / "secret.deb").write_bytes(b"secret")
    base = f"http://{aptcache.BUNDLE_HOST}"
    with aptproxy.serving(tmp_path / "s2", tmp_path / "cache2", SECRET, folder) as server:
        assert get(server, f"{base}/0/pool/a%20b%2b1.deb") == (200, DEB)
        assert get(server, f"{base}/0/dists/x/InRelease") == (200, b"signed")
        for url in (
            f"{base}/0/pool/b.deb",
            f"http://127.0.0.1:{repository.server_address[1]}/debian/pool/a.deb",
        ):
            assert get(server, url) == (404, b"")
        for url in (f"{base}/0/pool/../../../secret.deb", f"{base}/0/pool/%2e%2e/%2e%2e/%2e%2e/secret.deb"):
            assert get(server, url)[0] == 403
        assert get(server, f"{base}/0/dists/x/InRelease", **{"Proxy-Authorization": ""})[0] == 403
        assert get(server, "deb.debian.org:443", "CONNECT")[0] == 403
    assert repository.asked == []  # type: ignore[attr-defined]


@pytest.fixture
def relayed(tmp_path: Path) -> Iterator[tuple[ThreadingHTTPServer, "subprocess.Popen[bytes]", int]]:
    """A relay's program, with a proxy of the controller that is a repository itself: (that, the relay, its port)."""
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Repository)
    upstream.asked, upstream.shown = [], []  # type: ignore[attr-defined]
    threading.Thread(target=upstream.serve_forever, args=(0.05,), daemon=True).start()
    port = free_local_port()
    text = aptrelay.program(node("127.0.0.1"), [node("127.0.0.1")], SECRET, port, upstream.server_address[1])
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


def through(port: int, url: str, source: str = "127.0.0.1", secret: str = SECRET) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10, source_address=(source, 0))
    connection.request("GET", url, headers={"Proxy-Authorization": aptcache.credentials(secret)})
    answer = connection.getresponse()
    return answer.status, answer.read()


def caches() -> set[Path]:
    return set(Path("/var/tmp").glob("regatta-apt-*"))


def test_a_relay_asks_once_and_leaves_nothing(
    relayed: tuple[ThreadingHTTPServer, "subprocess.Popen[bytes]", int],
) -> None:
    upstream, process, port = relayed
    bodies = {f"{UPSTREAM}{path}": body for path, body in Repository.bodies.items() if path.startswith("/debian/")}
    here = caches()
    assert len(here) >= 1
    for url, body in bodies.items():
        assert [through(port, url) for _ in range(3)] == [(200, body)] * 3
    assert upstream.asked == list(bodies)  # type: ignore[attr-defined]
    assert set(upstream.shown) == {KNOWS["Proxy-Authorization"]}  # type: ignore[attr-defined]
    assert through(port, next(iter(bodies)), secret="another")[0] == 403
    assert through(port, f"{UPSTREAM}/debian/pool/../x/pool/a.deb")[0] == 403
    assert through(port, f"{UPSTREAM}/debian/pool/to/http%3A%2F%2Flocalhost%2Fpool%2Fx.deb")[0] == 502
    assert through(port, f"{UPSTREAM}/etc/passwd")[0] == 403
    with pytest.raises((http.client.HTTPException, OSError)):
        through(port, f"{UPSTREAM}/debian/pool/a.deb", "127.0.0.2")
    assert process.stdin
    process.stdin.close()
    assert process.wait(10) == 0
    assert len(caches()) < len(here)
