"""Packages as a test needs them, and a small index on loopback that serves them."""

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote

PKG_INFO = "Metadata-Version: 2.1\nName: {}\nVersion: 1.0\n"


def make_wheel(
    folder: Path, name: str, version: str = "1.0", text: str = "x = 1\n", tag: str = "py3-none-any", needs: str = ""
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", text)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}")
        file.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        file.writestr(f"{info}/RECORD", "")
    return path


def make_source(folder: Path, name: str, text: str = "") -> Path:
    """A package that is published as source only."""
    path = folder / f"{name}-1.0.tar.gz"
    setup = f"from setuptools import setup; setup(name='{name}', version='1.0', py_modules=['{name}'])\n{text}"
    with tarfile.open(path, "w:gz") as archive:
        for member, body in (("setup.py", setup), (f"{name}.py", "x = 1\n"), ("PKG-INFO", PKG_INFO.format(name))):
            info = tarfile.TarInfo(f"{name}-1.0/{member}")
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body.encode()))
    return path


@contextmanager
def serve(files: Path, *, hashes: bool = False) -> Iterator[str]:
    """The URL of an index of the files in a folder, as they are at that moment; `hashes`: its links have SHA-256."""

    def link(path: Path) -> str:
        fragment = f"#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}" if hashes else ""
        return f'<a href="/files/{quote(path.name)}{fragment}">{path.name}</a>'

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = unquote(PurePosixPath(self.path).name)
            listing = self.path.startswith("/simple/")
            if listing:
                of = {path: path.name.partition("-")[0].replace("_", "-") for path in sorted(files.iterdir())}
                found = [path for path, package in of.items() if package == name]
                body = "".join(map(link, found)).encode()
            else:
                body = (files / name).read_bytes() if (files / name).is_file() else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html" if listing else "binary/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    finally:
        server.shutdown()
        server.server_close()
