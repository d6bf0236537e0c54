"""A site whose way out is a proxy, and whose packages are in an index that asks for a password: both on loopback."""

import base64
import hashlib
import os
import select
import socket
import subprocess
import threading
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from regatta import paths
from regatta.errors import RegattaError
from regatta.hosts.tunnels import free_local_port
from regatta.node import siteproxy
from regatta.provisioning import aptproxy, bundleapt, hadoop, wheels
from regatta.provisioning.lockfile import Entry
from regatta.provisioning.locks import Target

WHEEL = "regatta_probe-1.0-py3-none-any.whl"
TARGET = Target("3.11.2", "x86_64", "2.36", "cpu")
USER, PASSWORD = "me", "s3cret-of-the-index"
PROXY_USER, PROXY_PASSWORD = "site", "s3cret-of-the-proxy"


@dataclass
class Seen:
    """The requests to a server, and whether a command line showed a password meanwhile."""

    asked: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)


def _expected(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _command_lines_with_a_password() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if PASSWORD.encode() in line or PROXY_PASSWORD.encode() in line:
            found.append(line.decode("utf-8", "replace"))
    return found


def serve(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[int, Seen]]:
    """A package index with one wheel, for whoever knows the password."""
    wheel = tmp_path / WHEEL
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("regatta_probe.py", "")
        meta = "regatta_probe-1.0.dist-info"
        archive.writestr(f"{meta}/METADATA", "Metadata-Version: 2.1\nName: regatta-probe\nVersion: 1.0\n")
        archive.writestr(f"{meta}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{meta}/RECORD", "")
    seen = Seen()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.shown += _command_lines_with_a_password()
            if self.headers.get("Authorization") != _expected(USER, PASSWORD):
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="packages"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            seen.asked.append(self.path)
            link = f'<a href="/files/{WHEEL}">{WHEEL}</a>'.encode()
            body = wheel.read_bytes() if self.path.startswith("/files/") else link
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    for port in serve(Handler):
        yield port, seen


@pytest.fixture
def proxy() -> Iterator[tuple[int, Seen]]:
    """A proxy for whoever knows its password: GET of whole URLs, and CONNECT."""
    seen = Seen()

    class Handler(BaseHTTPRequestHandler):
        def _may(self) -> bool:
            if self.headers.get("Proxy-Authorization") == _expected(PROXY_USER, PROXY_PASSWORD):
                seen.asked.append(f"{self.command} {self.path}")
                return True
            self.send_response(407)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False

        def do_GET(self) -> None:
            if not self._may():
                return
            parts = urllib.parse.urlsplit(self.path)
            with socket.create_connection((parts.hostname, parts.port or 80)) as there:
                lines = [f"GET {parts.path} HTTP/1.0", f"Host: {parts.netloc}"]
                lines += [f"Authorization: {word}" for word in [self.headers.get("Authorization")] if word]
                there.sendall("\r\n".join([*lines, "", ""]).encode())
                while block := there.recv(1 << 16):
                    self.wfile.write(block)
            self.close_connection = True

        def do_CONNECT(self) -> None:
            if not self._may():
                return
            host, _, port = self.path.rpartition(":")
            with socket.create_connection((host, int(port))) as there:
                self.send_response(200)
                self.end_headers()
                ends = {self.connection: there, there: self.connection}
                while ready := select.select(list(ends), [], [], 5)[0]:
                    for end in ready:
                        if not (data := end.recv(1 << 16)):
                            return
                        ends[end].sendall(data)

        def log_message(self, *_: object) -> None:
            pass

    for port in serve(Handler):
        yield port, seen


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """This machine's own settings of pip, uv and proxies set aside; pip's file and ~ are the test's."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    return monkeypatch


def through(site: pytest.MonkeyPatch, port: int) -> None:
    """The site's way out is this proxy."""
    for name in ("http_proxy", "https_proxy"):
        site.setenv(name, f"http://{PROXY_USER}:{PROXY_PASSWORD}@127.0.0.1:{port}")
    site.setenv("no_proxy", "localhost")
    site.setattr(urllib.request, "_opener", None)  # it keeps the proxies of the process's first request


def use(tmp_path: Path, port: int, password: str = PASSWORD, *, netrc: bool = False) -> None:
    """pip's file names the index; the password is in it, or in ~/.netrc."""
    who = "" if netrc else f"{USER}:{password}@"
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = http://{who}127.0.0.1:{port}/simple/\n")
    if netrc:
        (tmp_path / ".netrc").write_text(f"machine 127.0.0.1 login {USER} password {password}\n")
        (tmp_path / ".netrc").chmod(0o600)


def probe(tmp_path: Path) -> Entry:
    return Entry("regatta-probe", "1.0", None, (hashlib.sha256((tmp_path / WHEEL).read_bytes()).hexdigest(),), 1)


@pytest.mark.parametrize("netrc", [False, True])
def test_wheels_come_through_the_proxy_from_an_index_with_a_password(
    tmp_path: Path, site: pytest.MonkeyPatch, index: tuple[int, Seen], proxy: tuple[int, Seen], netrc: bool
) -> None:
    use(tmp_path, index[0], netrc=netrc)
    through(site, proxy[0])
    house = tmp_path / "house"
    house.mkdir()
    wheels._download(house, [probe(tmp_path)], TARGET)
    assert (house / WHEEL).read_bytes() == (tmp_path / WHEEL).read_bytes()
    assert any(WHEEL in path for path in index[1].asked) and any(WHEEL in line for line in proxy[1].asked)
    assert index[1].shown == []


@pytest.mark.parametrize("netrc", [False, True])
def test_uv_of_setup_reads_the_same_settings(
    tmp_path: Path, site: pytest.MonkeyPatch, index: tuple[int, Seen], proxy: tuple[int, Seen], netrc: bool
) -> None:
    use(tmp_path, index[0], netrc=netrc)
    through(site, proxy[0])
    functions = (paths.PROJECT / "tools/setup.sh").read_text().partition("\ncase ")[0].replace('cd "$(', ': "$(')
    words = 'uv_pip_install --python .venv/bin/python --target "$HOME/there" --no-deps regatta-probe==1.0'
    done = subprocess.run(
        ["bash", "-c", f"{functions}\n{words}"], cwd=paths.PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there/regatta_probe.py").exists()
    assert any(WHEEL in path for path in index[1].asked) and any(WHEEL in line for line in proxy[1].asked)
    assert index[1].shown == []


def test_a_wrong_password_is_said_and_not_shown(
    tmp_path: Path, site: pytest.MonkeyPatch, index: tuple[int, Seen]
) -> None:
    use(tmp_path, index[0], "another-password")
    with pytest.raises(wheels.WheelError) as found:
        wheels._download(tmp_path, [probe(tmp_path)], TARGET, "--retries=0")
    assert "401" in str(found.value) and "netrc" in str(found.value)
    assert "another-password" not in str(found.value)


def test_a_proxy_that_is_down_is_named(tmp_path: Path, site: pytest.MonkeyPatch, index: tuple[int, Seen]) -> None:
    use(tmp_path, index[0])
    port = free_local_port()
    through(site, port)
    said = []
    with pytest.raises(wheels.WheelError) as found:
        wheels._download(tmp_path, [probe(tmp_path)], TARGET, "--retries=0")
    said.append(str(found.value))
    with pytest.raises(hadoop.HadoopError) as lost:
        hadoop._download("http://mirror.invalid/hadoop.tar.gz", tmp_path / "part")
    said.append(str(lost.value))
    with pytest.raises(bundleapt.BundleError) as missed:
        bundleapt._download("https://mirror.invalid/InRelease", tmp_path / "InRelease")
    said.append(str(missed.value))
    assert all(f"127.0.0.1:{port}" in text for text in said)
    assert not any(PROXY_PASSWORD in text for text in said)


def test_a_password_in_the_index_of_torch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegattaError, match="netrc") as found:
        wheels.make(tmp_path / "house", None, TARGET, f"https://{USER}:{PASSWORD}@packages.invalid/whl")  # type: ignore[arg-type]
    assert PASSWORD not in str(found.value)


def test_https_of_the_nodes_goes_through_the_proxy(site: pytest.MonkeyPatch, proxy: tuple[int, Seen]) -> None:
    through(site, proxy[0])
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        with siteproxy.connect("127.0.0.1", port, 5) as way:
            far, _ = there.accept()
            with far:
                way.sendall(b"hello")
                assert far.recv(5) == b"hello"
        assert proxy[1].asked == [f"CONNECT 127.0.0.1:{port}"]
        site.setenv("no_proxy", "127.0.0.1")
        with siteproxy.connect("127.0.0.1", port, 5):
            there.accept()[0].close()
    assert len(proxy[1].asked) == 1


def test_files_of_repositories_come_through_the_proxy(
    tmp_path: Path, site: pytest.MonkeyPatch, index: tuple[int, Seen], proxy: tuple[int, Seen]
) -> None:
    through(site, proxy[0])
    with (
        aptproxy.serving(tmp_path / "s", tmp_path / "cache", "word") as server,
        server.open(f"http://127.0.0.1:{index[0]}/debian/pool/a.deb", {}) as answer,
    ):
        assert answer.status == 401
    assert proxy[1].asked == [f"GET http://127.0.0.1:{index[0]}/debian/pool/a.deb"]
