"""Programs of published packages for this machine: a layer of this Python's own, unpacked in the controller's cache."""

import hashlib
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from regatta import paths
from regatta.environment import build, resolve
from regatta.environment.base import Base
from regatta.environment.requirements import Wanted, digest
from regatta.errors import EnvironmentFault
from regatta.files import locked


def folder(*requirements: str, say: Callable[[str], None]) -> Path:
    """A folder for PYTHONPATH with these requirements and all that they need, made unless it is there.

    EnvironmentFault explains what cannot be had.
    """
    base = _here()
    name = hashlib.sha256("\n".join([base.id, *requirements]).encode()).hexdigest()[:12]
    top = paths.cache_dir() / "programs"
    there = top / name
    with locked(top / ".lock"):
        if there.is_dir():
            return there
        wanted = Wanted(None, requirements, digest(requirements))
        found = resolve.resolve(wanted, base, Path.cwd(), say)
        if found is None:
            raise EnvironmentFault(f"{' '.join(requirements)}: none of these is for this machine: name other packages")
        size = f" ({found.size / 1e6:.0f} MB)" if found.size else ""
        say(f"downloading {', '.join(requirements)} for this machine{size}")
        archive = build.make(found, say)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=top) as temporary:
            tree = Path(temporary) / name
            shutil.unpack_archive(archive.path, tree, "gztar")
            tree.rename(there)
    return there


def _here() -> Base:
    version, machine, glibc = platform.python_version(), platform.machine(), platform.libc_ver()[1]
    return Base(digest([sys.version, machine])[:16], version, machine, glibc, {})
