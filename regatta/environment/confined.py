"""The Python by which uv builds source on this machine: this one, without the user's variables and with limits."""

import hashlib
import importlib.util
import sys
import sysconfig
import tempfile
from pathlib import Path

from regatta import paths
from regatta.node import confine

_PROGRAM = """\
#!{real} -IS
# Made by Regatta: starts Python for the build of a package, without the variables of who has called it.
import os, sys
{limits}
limit_all()
kept = {{name: os.environ[name] for name in ("LANG", "TZ", "SOURCE_DATE_EPOCH") if name in os.environ}}
home = os.environ.get("TMPDIR", "/nonexistent")
own = {{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "TMPDIR": home, "LC_ALL": "C.UTF-8"}}
os.execve({real!r}, [{here!r}, *sys.argv[1:]], {{**kept, **own}})
"""


def python() -> str:
    """Return the path of that Python, made once in the cache. It has this one's packages (setuptools)."""
    real, packages = sys._base_executable or sys.executable, _packages()  # type: ignore[attr-defined]
    identity = repr([real, str(packages), _PROGRAM, confine.LIMITS])
    folder = paths.cache_dir() / "builder" / hashlib.sha256(identity.encode()).hexdigest()[:12]
    here = folder / "bin/python"
    if not here.is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as temporary:
            made = Path(temporary) / "made"
            _make(made, real, packages, here)
            try:
                made.rename(folder)
            except OSError:  # another command has made it meanwhile
                if not here.is_file():
                    raise
    return str(here)


def _make(folder: Path, real: str, packages: Path, here: Path) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    library = folder / f"lib/python{version}"
    for one in (folder / "bin", library):
        one.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(
        f"home = {Path(real).parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    )
    (library / "site-packages").symlink_to(packages)
    program = folder / "bin/python"
    program.write_text(_PROGRAM.format(real=real, limits=confine.LIMITS, here=str(here)))
    program.chmod(0o755)


def _packages() -> Path:
    """The folder that has setuptools for this Python."""
    found = importlib.util.find_spec("setuptools")
    return Path(found.origin).parents[1] if found and found.origin else Path(sysconfig.get_path("purelib"))
