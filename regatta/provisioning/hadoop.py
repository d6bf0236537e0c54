"""The Hadoop tarball on the controller: downloaded once, verified, kept in the cache."""

import http.client
import shutil
import urllib.error
import urllib.request
from pathlib import Path

from regatta import paths
from regatta.errors import RegattaError
from regatta.files import digest, locked, put
from regatta.node import siteproxy
from regatta.provisioning import progress

_TIMEOUT = 60.0


class HadoopError(RegattaError):
    """The tarball cannot be had, or is not the one whose sum was given."""


def fetch(tarball: str, sha512: str) -> Path:
    """Path of the verified tarball on this machine; a URL is downloaded where the cache lacks it."""
    if "://" not in tarball:
        path = Path(tarball.removeprefix("file:")).expanduser()
        if not path.is_file():
            raise HadoopError(f"hdfs_tarball: there is no file {path} on this machine: correct it in the inventory")
        _check(path, sha512, "hdfs_tarball_sha512 does not belong to it")
        return path
    path = paths.cache_dir() / "hadoop" / f"{sha512[:12]}-{tarball.rpartition('/')[2]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f"{path.name}.lock")):
        if not path.is_file():
            part = path.with_name(f"{path.name}.part")
            _download(tarball, part)
            try:
                _check(part, sha512, "it was deleted; the mirror has another file, or hdfs_tarball_sha512 is wrong")
            except HadoopError:
                part.unlink()
                raise
            put(part, path)
        return path


def _download(url: str, part: Path) -> None:
    """Continue where a stopped download ended, if the server can."""
    begun = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={begun}-"} if begun else {})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            expected = answer.headers.get("Content-Length")
            total = int(expected) + (begun if answer.status == 206 else 0) if expected else None
            with (
                part.open("ab" if answer.status == 206 else "wb") as file,
                progress.telling(lambda: (url.rpartition("/")[2], progress.size(part), total)),
            ):
                shutil.copyfileobj(answer, file, 1 << 20)
            if total is not None and part.stat().st_size != total:
                raise HadoopError(f"{url}: the download ended early; provision again to continue it")
    except urllib.error.HTTPError as error:
        if error.code == 416:
            return
        raise HadoopError(f"{url}: the server answers {error.code} {error.reason}. {_OTHER_WAY}") from None
    except (OSError, http.client.HTTPException) as error:
        raise HadoopError(f"{url} cannot be downloaded{siteproxy.shown(url)} ({error}). {_OTHER_WAY}") from None


_OTHER_WAY = (
    "In the inventory's hosts.yml, below all: vars:, set hdfs_tarball to a mirror or to a file on this machine, with "
    "its hdfs_tarball_sha512, or hdfs_enabled: false; then provision again"
)


def _check(path: Path, sha512: str, otherwise: str) -> None:
    found = digest(path, "sha512")
    if found != sha512:
        raise HadoopError(f"{path}: its SHA-512 is {found[:16]}..., not {sha512[:16]}...: {otherwise}")
