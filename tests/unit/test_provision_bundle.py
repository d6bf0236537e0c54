"""Bundles: real archives, real repositories on loopback, and what is refused."""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from regatta.errors import UsageError
from regatta.files import sha256
from regatta.paths import PROJECT
from regatta.provisioning import bundleapt, bundling, sbom
from regatta.provisioning import spark as spark_release
from regatta.provisioning.bundle import INDEX, Archive, Bundle, BundleError, pack, unpack
from regatta.provisioning.flags import Options

CONTENT = {
    "locks/node.lock": b"torch==2.13.0\n",
    "wheels/abc/torch-2.13.0-py3-none-any.whl": bytes(range(256)) * 900,
    "hadoop/hadoop-3.4.3.tar.gz": b"hadoop" * 5000,
    "spark/0123456789ab/spark.tar": b"spark" * 5000,
    "apt/0/pool/r/rsync.deb": b"!<arch>\n" * 2000,
}
HADOOP = Archive(
    "Hadoop",
    "hadoop/hadoop-3.4.3.tar.gz",
    "pkg:generic/hadoop@3.4.3",
    "5" * 128,
    {"hdfs_tarball": "{path}", "hdfs_tarball_sha512": "5" * 128},
)
SPARK = Archive("Spark", "spark/0123456789ab/spark.tar", "pkg:pypi/pyspark@4.0.1")


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """An archive of `CONTENT`."""
    places = {name: tmp_path / "from" / name for name in CONTENT}
    for name, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(CONTENT[name])
    out = tmp_path / "bundle.tar"
    assert pack(bundle(), places, out) == hashlib.sha256(out.read_bytes()).hexdigest()
    return out


def bundle() -> Bundle:
    sums = {name: hashlib.sha256(body).hexdigest() for name, body in CONTENT.items()}
    names = ("locks/node.lock", "locks/torch-cpu.lock", "wheels/abc")
    return Bundle("3.11", "x86_64", "bookworm", *names, (HADOOP, SPARK), ("deb http://x bookworm main",), sums)


def rewritten(packed: Path, change: Callable[[str, bytes], tuple[str, bytes] | None]) -> None:
    """The archive again, each member as `change` has it (None leaves it out)."""
    with tarfile.open(packed) as archive:
        members = [(entry.name, archive.extractfile(entry).read()) for entry in archive]  # type: ignore[union-attr]
    with tarfile.open(packed, "w") as archive:
        for name, body in filter(None, [change(*member) for member in members]):
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))


def test_what_is_packed_is_unpacked(packed: Path) -> None:
    content, folder = unpack(packed)
    assert content == bundle()
    assert {name: (folder / name).read_bytes() for name in CONTENT} == CONTENT
    assert unpack(packed) == (content, folder)


def test_a_file_that_was_changed_in_the_cache_is_made_whole(packed: Path) -> None:
    _, folder = unpack(packed)
    for name, body in CONTENT.items():
        (folder / name).write_bytes(bytes([body[0] ^ 1]) + body[1:])
    unpack(packed)
    assert {name: (folder / name).read_bytes() for name in CONTENT} == CONTENT


def test_it_is_unpacked_by_a_python_without_packages(packed: Path) -> None:
    command = ["-S", "-m", "regatta.provisioning.bundle", str(packed)]
    done = subprocess.run([sys.executable, *command], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.stdout == f"{unpack(packed)[1]}/controller\n", done.stderr
    packed.write_bytes(packed.read_bytes()[:-20000])
    done = subprocess.run([sys.executable, *command], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "") and "cannot be read" in done.stderr


def test_another_bundle_takes_the_place_of_the_first(packed: Path, tmp_path: Path) -> None:
    _, first = unpack(packed)
    other = tmp_path / "other.tar"
    content = replace(bundle(), files={"locks/node.lock": bundle().files["locks/node.lock"]})
    pack(content, {"locks/node.lock": tmp_path / "from/locks/node.lock"}, other)
    _, second = unpack(other)
    assert not first.exists() and second.is_dir()


@pytest.mark.parametrize("name", CONTENT)
def test_one_byte_changed_is_refused_by_name(packed: Path, name: str) -> None:
    with tarfile.open(packed) as archive:
        entry = archive.getmember(name)
    body = bytearray(packed.read_bytes())
    body[entry.offset_data + entry.size // 2] ^= 1
    packed.write_bytes(body)
    with pytest.raises(BundleError, match=f"{re.escape(name)} in it is not the file that was packed"):
        unpack(packed)
    assert not list((Path(os.environ["REGATTA_CACHE"]) / "bundle").rglob(Path(name).name))


def test_a_bad_bundle_leaves_the_good_one(packed: Path, tmp_path: Path) -> None:
    good, place = bundle(), {name: tmp_path / "from" / name for name in CONTENT}
    other = tmp_path / "other.tar"
    pack(replace(good, suite="trixie"), place, other)
    _, folder = unpack(packed)
    rewritten(other, lambda name, body: (name, body[:-1] + b"x" if "hadoop" in name else body))
    with pytest.raises(BundleError):
        unpack(other)
    assert [path for path in folder.parent.iterdir() if path.is_dir()] == [folder]
    assert {name: (folder / name).read_bytes() for name in CONTENT} == CONTENT


def test_a_changed_archive_is_refused_also_when_an_earlier_one_is_unpacked(packed: Path) -> None:
    unpack(packed)
    test_name = "hadoop/hadoop-3.4.3.tar.gz"
    rewritten(packed, lambda name, body: (name, body[:-1] + b"x" if name == test_name else body))
    with pytest.raises(BundleError, match=r"hadoop-3\.4\.3\.tar\.gz in it is not"):
        unpack(packed)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda name, body: None if "rsync" in name else (name, body), "rsync.deb is missing in it: it is cut off"),
        (lambda name, body: ("apt/0/more.deb" if "rsync" in name else name, body), "more.deb does not belong in it"),
        (lambda name, body: None if name == INDEX else (name, body), "is no bundle: 'regatta bundle' writes one"),
        (lambda name, body: (name, b"{}" if name == INDEX else body), "its bundle.json cannot be read"),
    ],
)
def test_other_contents_are_refused(
    packed: Path, change: Callable[[str, bytes], tuple[str, bytes] | None], said: str
) -> None:
    rewritten(packed, change)
    with pytest.raises(BundleError, match=re.escape(said)):
        unpack(packed)


def test_names_lead_nowhere_else(packed: Path, tmp_path: Path) -> None:
    def out_of_it(name: str, body: bytes) -> tuple[str, bytes]:
        if name != INDEX:
            return name, body
        index = json.loads(body)
        return name, json.dumps({**index, "files": {**index["files"], "../../../evil": "0" * 64}}).encode()

    rewritten(packed, out_of_it)
    with pytest.raises(BundleError, match="evil leads out of the bundle"):
        unpack(packed)
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("size", [0, 100, 5000, 200_000])
def test_a_truncated_archive_is_refused(packed: Path, size: int) -> None:
    packed.write_bytes(packed.read_bytes()[:size])
    with pytest.raises(BundleError, match=r"cannot be read|cut off|is no bundle"):
        unpack(packed)


def test_an_archive_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="there is no bundle"):
        unpack(tmp_path / "nothing.tar")


def test_provisioning_from_it_is_told_where_all_is(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = bundling.open_(packed)
    assert f"python_env_lock={opened.folder}/locks/node.lock" in opened.words
    assert f"python_env_torch_lock={opened.folder}/locks/torch-cpu.lock" in opened.words
    assert f"hdfs_tarball={opened.folder}/hadoop/hadoop-3.4.3.tar.gz" in opened.words
    assert f"hdfs_tarball_sha512={'5' * 128}" in opened.words
    assert opened.environment[bundling.SOURCES_VARIABLE] == "deb http://x bookworm main"
    for key, value in opened.environment.items():
        monkeypatch.setenv(key, value)
    assert bundling.wheelhouse("abc") == opened.folder / "wheels/abc"
    with pytest.raises(BundleError, match=r"another environment \(abc, not def\)"):
        bundling.wheelhouse("def")


def test_wishes_are_looked_at_first(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="--suite sid: a bundle can be made for bookworm, jammy, noble"):
        bundling.variables(Options(suite="sid"))
    with pytest.raises(UsageError, match="there is no folder"):
        bundling.variables(Options(suite="noble", out=tmp_path / "no/bundle.tar"))
    with pytest.raises(UsageError, match=r"--project .*none is missing: name a folder"):
        bundling.variables(Options(suite="noble", project=[f"{tmp_path}:{tmp_path}/none"]))
    asked = bundling.variables(Options(suite="noble", machine="aarch64", out=tmp_path / "b.tar"))
    assert asked["bundle_host"] == {"python": "3.12.3", "glibc": "2.39", "machine": "aarch64"}


def test_repositories_are_this_machines_own_where_it_has_them() -> None:
    own = [("http://mirror.test/debian/", "bookworm", "main"), ("http://else.test/x/", "trixie", "main")]
    assert [source.line() for source in bundleapt.sources("bookworm", own)] == [
        "deb http://mirror.test/debian bookworm main",
        "deb http://deb.debian.org/debian bookworm-updates main",
        "deb http://deb.debian.org/debian-security bookworm-security main",
    ]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """A repository on loopback with packages, one of which needs another; connections fail at first: (URI, folder)."""
    folder = tmp_path / "repository"
    packages = folder / "dists/x/main/binary-amd64/Packages"
    packages.parent.mkdir(parents=True)
    (folder / "pool").mkdir()
    text = ""
    for name, needs in (("boat", "Depends: oar\n"), ("oar", ""), ("anchor", "")):
        deb = folder / f"pool/{name}_1_amd64.deb"
        deb.write_bytes(name.encode() * 100)
        text += f"Package: {name}\nVersion: 1\nArchitecture: amd64\n{needs}Filename: pool/{deb.name}\n"
        text += f"Size: {deb.stat().st_size}\nSHA256: {sha256(deb)}\n\n"
    packages.write_text(text)
    gz = packages.with_name("Packages.gz")
    gz.write_bytes(gzip.compress(text.encode()))
    sums = "".join(f" {sha256(p)} {p.stat().st_size} main/binary-amd64/{p.name}\n" for p in (packages, gz))
    (folder / "dists/x/InRelease").write_text(
        "Suite: x\nCodename: x\nArchitectures: amd64\nComponents: main\n"
        f"Date: Sat, 21 Nov 2026 00:00:00 UTC\nSHA256:\n{sums}"
    )
    shutil.copy(folder / "dists/x/InRelease", folder / "dists/x/Release")

    asked: set[str] = set()

    class FailsOnce(SimpleHTTPRequestHandler):
        """Closes the connection at the first request for a package, without an answer."""

        def do_GET(self) -> None:
            if not self.path.startswith("/pool/") or self.path in asked:
                super().do_GET()
            asked.add(self.path)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setattr(bundleapt, "_WAITS", (0.0,))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(FailsOnce, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", folder
    server.shutdown()
    server.server_close()


class Trusted(bundleapt.Source):
    """A repository without signatures."""

    def line(self, uri: str | None = None) -> str:
        return super().line(uri).replace("deb ", "deb [trusted=yes] ")


needs_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt-get here")


@needs_apt
def test_a_part_of_a_repository_with_all_that_is_needed(repository: tuple[str, Path], tmp_path: Path) -> None:
    uri, origin = repository
    lines, packages = bundleapt.mirror(tmp_path / "apt", ["boat"], [Trusted(uri, "x", ("main",))], "x86_64")
    assert {place: (one.name, one.version, one.architecture) for place, one in packages.items()} == {
        "0/pool/boat_1_amd64.deb": ("boat", "1", "amd64"),
        "0/pool/oar_1_amd64.deb": ("oar", "1", "amd64"),
    }
    assert lines == ["deb [trusted=yes] http://bundle.regatta.invalid/0 x main"]
    found = {str(p.relative_to(tmp_path / "apt/0")) for p in (tmp_path / "apt").rglob("*") if p.is_file()}
    wanted = {
        "pool/boat_1_amd64.deb",
        "pool/oar_1_amd64.deb",
        "dists/x/InRelease",
        "dists/x/main/binary-amd64/Packages.gz",
    }
    assert found == wanted
    assert all((tmp_path / "apt/0" / name).read_bytes() == (origin / name).read_bytes() for name in wanted)


@needs_apt
def test_what_a_repository_does_not_promise_is_refused(repository: tuple[str, Path], tmp_path: Path) -> None:
    uri, origin = repository
    (origin / "pool/oar_1_amd64.deb").write_bytes(b"oat" * 100)
    with pytest.raises(BundleError, match=r"oar_1_amd64.deb is not what its repository promises"):
        bundleapt.mirror(tmp_path / "apt", ["boat"], [Trusted(uri, "x", ("main",))], "x86_64")
    (origin / "dists/x/main/binary-amd64/Packages.gz").write_bytes(b"other")
    with pytest.raises(BundleError, match=r"Packages.gz is not what its repository promises"):
        bundleapt.mirror(tmp_path / "apt", ["boat"], [Trusted(uri, "x", ("main",))], "x86_64")


@needs_apt
def test_packages_that_are_not_there_are_named(repository: tuple[str, Path], tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="Unable to locate package sail"):
        bundleapt.mirror(tmp_path / "apt", ["sail"], [Trusted(repository[0], "x", ("main",))], "x86_64")


@needs_apt
def test_a_bundle_has_a_list_of_its_parts_beside_it(
    repository: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundleapt, "sources", lambda *_: [Trusted(repository[0], "x", ("main",))])
    wheels, controller, hadoop = tmp_path / "wheels/abc", tmp_path / "controller", tmp_path / "hadoop-3.4.3.tar.gz"
    for folder in (wheels, controller):
        folder.mkdir(parents=True)
        (folder / "six-1.17.0-py2.py3-none-any.whl").write_bytes(b"six")
    (wheels / "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl").write_bytes(b"torch")
    (wheels / "docopt-0.6.2-py2.py3-none-any.whl").write_bytes(b"docopt")
    (wheels / "sources.json").write_text(json.dumps({"docopt-0.6.2-py2.py3-none-any.whl": "d" * 64}))
    hadoop.write_bytes(b"hadoop")
    spark = tmp_path / "spark.tar"
    spark.write_bytes(b"spark")
    locks = {name: tmp_path / f"{name}.lock" for name in ("node", "torch")}
    for path in locks.values():
        path.write_text("")
    order = bundling.Order(
        tmp_path / "out.tar",
        *("bookworm", "3.11.2", "x86_64", "2.36"),
        lock=locks["node"],
        torch_lock=locks["torch"],
        wheels=wheels,
        controller=controller,
        packages="boat",
        archives=((HADOOP, hadoop), (SPARK, spark)),
    )
    lines = bundling.make(order)
    listed = tmp_path / "out.tar.cdx.json"
    assert any(str(listed) in line for line in lines)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(listed.read_text()) is None
    document = json.loads(listed.read_text())
    assert document["metadata"]["component"]["hashes"][0]["content"] == sha256(tmp_path / "out.tar")
    parts = {part["purl"]: part for part in document["components"]}
    assert parts.pop(SPARK.purl)["hashes"][0]["content"] == hashlib.sha256(b"spark").hexdigest()
    deb = "pkg:deb/debian/{}@1?arch=amd64&distro=bookworm"
    assert set(parts) == {
        *("pkg:pypi/six@1.17.0", "pkg:pypi/torch@2.13.0%2Bcpu", "pkg:pypi/docopt@0.6.2", "pkg:generic/hadoop@3.4.3"),
        *(deb.format("boat"), deb.format("oar")),
    }
    sums = {purl: {one["alg"]: one["content"] for one in part["hashes"]} for purl, part in parts.items()}
    assert sums["pkg:pypi/six@1.17.0"] == {"SHA-256": hashlib.sha256(b"six").hexdigest()}
    assert sums[deb.format("oar")]["SHA-256"] == hashlib.sha256(b"oar" * 100).hexdigest()
    assert sums["pkg:generic/hadoop@3.4.3"]["SHA-512"] == "5" * 128
    places = {one["value"] for one in parts["pkg:pypi/six@1.17.0"]["properties"]}
    assert places == {f"{folder}/six-1.17.0-py2.py3-none-any.whl" for folder in ("wheels/abc", "controller")}
    assert {"name": "regatta:source-sha256", "value": "d" * 64} in parts["pkg:pypi/docopt@0.6.2"]["properties"]


def test_spark_comes_from_the_bundle_or_is_missing_there(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_release, "key_of", lambda _: "0123456789ab")
    monkeypatch.setenv("REGATTA_BUNDLE", bundling.open_(packed).environment["REGATTA_BUNDLE"])
    release = spark_release.make()
    assert Path(release.path).read_bytes() == CONTENT["spark/0123456789ab/spark.tar"]
    assert release.sha256 == sha256(Path(release.path)) and release.key == "0123456789ab"
    monkeypatch.setattr(spark_release, "key_of", lambda _: "another")
    with pytest.raises(spark_release.SparkError, match="bundle lacks the Spark"):
        spark_release.make()


def test_names_with_plus_and_epochs_are_package_urls() -> None:
    part = sbom.debian("x.deb", "0" * 64, "libstdc++6", "1:12.2.0-14+deb12u1", "amd64", "noble")
    assert str(part.purl) == "pkg:deb/ubuntu/libstdc%2B%2B6@1:12.2.0-14%2Bdeb12u1?arch=amd64&distro=noble"
