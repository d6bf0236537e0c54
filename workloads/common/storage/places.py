"""The places of data: plain paths, ``file://`` and ``hdfs://`` addresses, those of object stores (``s3://``,
``gs://``); and the Hadoop settings of this host.
"""

from __future__ import annotations

import functools
import os
import posixpath
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from workloads.common.storage.errors import NOT_PROVISIONED, StorageError

DEFAULT_CONF = "/etc/regatta/hadoop"
DEFAULT_PORTS = {"rpc": 8020, "http": 9870}
OBJECT_STORES = {"s3": "s3fs", "gs": "gcsfs"}
"""The package of fsspec that each scheme needs."""


@dataclass(frozen=True)
class Place:
    """`url` as given; `path` on this machine, in HDFS, or bucket and key.

    `filesystem`: ``hdfs://host:port``, ``s3://`` or ``gs://``; None for a file.
    """

    url: str
    path: str
    filesystem: str | None

    @property
    def remote(self) -> bool:
        """Whether it is in HDFS or an object store."""
        return self.filesystem is not None

    @property
    def store(self) -> str | None:
        """The scheme of the object store that it is in; None where it is in none."""
        scheme = (self.filesystem or "").partition("://")[0]
        return scheme if scheme in OBJECT_STORES else None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the NameNode."""
        parts = urlsplit(self.filesystem or "")
        return parts.hostname or "", parts.port or DEFAULT_PORTS["rpc"]


def is_remote(url: str) -> bool:
    """Whether an address leads to HDFS or an object store, and so to the same data from every host."""
    scheme, found, _ = url.lower().partition(":")
    return bool(found) and (scheme == "hdfs" or scheme in OBJECT_STORES)


def locate(url: str) -> Place:
    """Take an address apart.

    Raises StorageError: an unknown scheme, a relative HDFS path, no HDFS on this host, no bucket.
    """
    scheme, found, rest = url.partition("://")
    if not found and not is_remote(url):
        return Place(url, url, None)
    scheme = scheme.lower()
    if scheme == "file":
        host, _, path = rest.partition("/")
        if host not in ("", "localhost"):
            raise StorageError(f"{url}: a file:// address of another host; write file:///path")
        return Place(url, f"/{path}", None)
    if scheme in OBJECT_STORES or url.partition(":")[0].lower() in OBJECT_STORES:
        return _object(url, scheme, rest)
    if scheme != "hdfs":
        known = ", ".join(f"{name}://bucket/key" for name in OBJECT_STORES)
        raise StorageError(f"{url}: unknown kind of address; give a path, file:///path, hdfs:///path or {known}")
    host, slash, path = rest.partition("/")
    if not slash:
        raise StorageError(f"{url}: an HDFS path is missing; write hdfs:///folder/file")
    try:
        urlsplit(f"hdfs://{host}").port  # noqa: B018
    except ValueError:
        raise StorageError(
            f"{url}: '{host}' is not a NameNode's host:port: write hdfs:///path for this cluster's own"
        ) from None
    clean = posixpath.normpath(f"/{path}").replace("//", "/")
    return Place(url, clean, f"hdfs://{host}" if host else default_filesystem(url))


def _object(url: str, scheme: str, rest: str) -> Place:
    """A key is taken as it is: two slashes in it are two."""
    if not rest.partition("/")[0]:
        name = url.partition(":")[0].lower()
        raise StorageError(f"{url}: a bucket is missing; write {name}://bucket/key")
    return Place(url, rest.rstrip("/"), f"{scheme}://")


def conf_dir() -> Path:
    """The folder of core-site.xml and hdfs-site.xml."""
    return Path(os.environ.get("HADOOP_CONF_DIR") or DEFAULT_CONF)


@functools.cache
def settings(folder: Path) -> dict[str, str]:
    """Hadoop's settings in a folder; empty where there is none."""
    found: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml"):
        try:
            tree = ElementTree.parse(folder / name)
        except (OSError, ElementTree.ParseError):
            continue
        for item in tree.getroot().iter("property"):
            found[(item.findtext("name") or "").strip()] = (item.findtext("value") or "").strip()
    return found


def default_filesystem(url: str) -> str:
    """``fs.defaultFS`` of this host. Raises StorageError where HDFS is not set up."""
    found = settings(conf_dir()).get("fs.defaultFS", "")
    if not found.startswith("hdfs://"):
        raise StorageError(f"{url}: {NOT_PROVISIONED}")
    return found.rstrip("/")


def web_address(place: Place) -> str:
    """``http://host:port`` of the NameNode's WebHDFS."""
    host = place.address[0]
    own = settings(conf_dir()).get("dfs.namenode.http-address", "")
    if own and settings(conf_dir()).get("fs.defaultFS", "").rstrip("/") == place.filesystem:
        name, _, port = own.rpartition(":")
        return f"http://{host if name in ('', '0.0.0.0') else name}:{port}"
    return f"http://{host}:{DEFAULT_PORTS['http']}"
