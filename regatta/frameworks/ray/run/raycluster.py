"""Marks a run whose driver has joined the cluster's Ray: the supervisor warns of a missing mark.

A script's `runtime_env` may list packages: Ray would install them on each host, for which hosts have no pip and no
conda, and would try again for minutes. Those that the run has already are left out, others are refused at once.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from typing import Any, Iterator, Mapping

MODULE = "ray._private.worker"
MARK = ".ray"


def watch() -> None:
    """Look at the cluster as soon as `ray.init` has ended."""
    importlib.import_module("regatta_imports").watch({MODULE: marked})


@contextlib.contextmanager
def marked(module: Any) -> Iterator[None]:
    """Load Ray's module, and mark the run once a driver is connected to a Ray that it has not started itself."""
    yield
    begin = module.init

    @functools.wraps(begin)
    def begun(*args: Any, **more: Any) -> Any:
        if more.get("runtime_env"):
            more["runtime_env"] = installable(more["runtime_env"])
        found = begin(*args, **more)
        own = module._global_node
        if own is None or not own.head:
            with contextlib.suppress(OSError, KeyError), open(os.path.join(os.environ["REGATTA_SCRATCH"], MARK), "w"):
                pass
        return found

    module.init = begun


def installable(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `runtime_env` without the packages that the run has. ValueError for those that no host can install."""
    import importlib.util  # these only here: each process of a run loads this file
    import shutil

    kept = dict(wanted)
    for name in ("pip", "uv", "conda"):
        can = shutil.which("conda") if name == "conda" else importlib.util.find_spec("pip")
        if not wanted.get(name) or can:
            continue
        if missing := lacking(wanted[name]):
            raise ValueError(
                f"runtime_env asks for packages by {name}, and hosts install none during a run: leave {name} out, and "
                f"name {missing} in requirements.txt or pyproject.toml, or for one run by --with"
            )
        del kept[name]
        sys.stderr.write(f"regatta: {name} of runtime_env is left out: the run has these packages\n")
    return kept


def lacking(asked: Any) -> str:
    """Return which packages of a list the run lacks; what is no list of requirements is named as it is."""
    import importlib.metadata

    read = importlib.import_module("packaging.requirements")  # Ray needs it, too
    lines = asked.get("packages") if isinstance(asked, dict) else asked
    if not isinstance(lines, list):
        return "its packages"
    missing = []
    for line in map(str, lines):
        try:
            one = read.Requirement(line)
            if not one.specifier.contains(importlib.metadata.version(one.name), prereleases=True):
                missing.append(line)
        except (read.InvalidRequirement, importlib.metadata.PackageNotFoundError):
            missing.append(line)
    return ", ".join(missing)
