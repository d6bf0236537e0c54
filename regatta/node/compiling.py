"""A package that is published as source for a compiler becomes a wheel on a node, as the account of runs."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Dict, List, Sequence

from regatta.node import confine, manifest, rights
from regatta.node.problem import Problem
from regatta_protocol.operations.layers import BuiltWheel

if TYPE_CHECKING:
    from regatta_protocol.place import Place

SECONDS = 1200.0
MOST_BYTES = 40 << 20
LAST_LINES = 12
_BUILD = """
import importlib, os, sys
out, path, backend = sys.argv[1:]
sys.path[:0] = [os.path.abspath(one) for one in path.split(os.pathsep) if one]
name, _, inner = backend.partition(":")
made = importlib.import_module(name)
for one in inner.split(".") if inner else ():
    made = getattr(made, one)
made.build_wheel(out)
"""


def build(
    place: Place, incoming: str, source: str, sha256: str, needs: str | None, backend: str, backend_path: Sequence[str]
) -> BuiltWheel:
    """Make the wheel of a source archive in `incoming`.

    `needs`: an archive next to it with what it is built with. `backend`, `backend_path`: see PEP 517.
    """
    packed = os.path.join(incoming, os.path.basename(source))
    if manifest.file_hash(packed) != sha256:
        raise Problem(f"{os.path.basename(source)} arrived damaged: start the run again")
    tools = os.path.join(incoming, os.path.basename(needs)) if needs else None
    made: BuiltWheel = rights.call(
        place.get("user"),
        lambda: _make(place["python"], packed, tools, backend, backend_path),
        SECONDS + 60,
        BuiltWheel,
    )
    return made


def _make(python: str, packed: str, tools: str | None, backend: str, backend_path: Sequence[str]) -> BuiltWheel:
    work = tempfile.mkdtemp(prefix="regatta-build-")
    try:
        folders = {name: os.path.join(work, name) for name in ("source", "tools", "out", "home")}
        for folder in folders.values():
            os.mkdir(folder)
        _unpack(packed, folders["source"])
        if tools:
            _unpack(tools, folders["tools"])
        tops = os.listdir(folders["source"])
        if len(tops) != 1:
            raise Problem(
                f"{os.path.basename(packed)} is no source archive: it has {len(tops)} folders, not one; name another "
                "version of the package"
            )
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": folders["home"], "LC_ALL": "C.UTF-8"}
        env["PYTHONPATH"] = folders["tools"]
        error = _run(
            [python, "-c", _BUILD, folders["out"], os.pathsep.join(backend_path), backend],
            os.path.join(folders["source"], tops[0]),
            env,
            os.path.join(work, "log"),
        )
        if error:
            return BuiltWheel(error=error)
        wheels = [name for name in os.listdir(folders["out"]) if name.endswith(".whl")]
        if len(wheels) != 1:
            return BuiltWheel(error="its build made no wheel")
        path = os.path.join(folders["out"], wheels[0])
        if os.path.getsize(path) > MOST_BYTES:
            return BuiltWheel(error=f"its wheel has more than {MOST_BYTES >> 20} MiB")
        with open(path, "rb") as file:
            return BuiltWheel(wheels[0], base64.b64encode(file.read()).decode())
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unpack(archive: str, folder: str) -> None:
    command = ["tar", "--extract", "--no-same-owner", "--file", archive, "--directory", folder]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Problem(
            f"{os.path.basename(archive)} cannot be unpacked: start the run again ({done.stderr.strip()[:200]})"
        )


def _run(command: List[str], folder: str, env: Dict[str, str], log: str) -> str | None:
    """Return what a build said at last, where it failed."""
    with open(log, "wb") as out:
        process = subprocess.Popen(
            confine.kept(command, limited=True),
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
            return f"its build did not end within {SECONDS:g} s"
    if code == 0:
        return None
    with contextlib.suppress(OSError), open(log, errors="replace") as file:
        return "\n".join(file.read().strip().splitlines()[-LAST_LINES:])
    return f"its build ended with {code}"
