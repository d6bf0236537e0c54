"""Layers on a node: packages of a project that the environment lacks, `layers/<key>/`, root's own and read-only.

Next to each is `.<key>.json`: what it is, for whom; the time of that file says when a run last asked for it.
Keys of those that a member has brought end with what only that member's do, so that none takes the place of another's.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import platform
import pwd
import re
import secrets
import shutil
import subprocess
import tarfile
import time
import zlib
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from regatta.node import disk, facts, manifest, relay, releases, rights, rundirs, staging, trees
from regatta.node.problem import Problem
from regatta_protocol.decoding import decode
from regatta_protocol.operations.layers import (
    AboutLayer,
    Incoming,
    InstalledPackage,
    LayerBase,
    LayerState,
    LayersThere,
    LayerThere,
    Proven,
)

if TYPE_CHECKING:
    from regatta_protocol.place import Place

KEEP = 5
GRACE_SECONDS = 900
MOST_LABELS = 8
COMPILE_SECONDS = 500
_OWN = re.compile(r"-u\d+-[0-9a-f]{8}\Z")
_LOOK = """
import importlib.metadata as m, json
found = {}
for one in m.distributions():
    name = one.metadata["Name"]
    if name and name.lower() not in found:
        found[name.lower()] = {"name": name, "version": one.version, "requires": list(one.requires or []),
                               "extras": list(one.metadata.get_all("Provides-Extra") or [])}
print(json.dumps(list(found.values())))
"""


def folder(place: Place, key: str) -> str:
    """Path of a layer, whether or not it exists."""
    return os.path.join(place["root"], "layers", key)


def check(place: Place, key: str | None, label: str = "") -> LayerState:
    """This node's environment, and whether it has the layer; a layer asked for is marked so."""
    return LayerState(_base(place)[0], there=bool(key) and _ask(place, str(key), label), own=own(place))


def own(place: Place) -> str:
    """What the keys of a member's own layers end with; nothing where who asks has sudo."""
    if not place.get("member"):
        return ""
    name = place["member"]  # beside the number, which another account may have later
    return f"-u{pwd.getpwnam(name).pw_uid}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def foreign(place: Place, key: str) -> bool:
    """Whether a key is one of another member's layers."""
    found = _OWN.search(key)
    return bool(found) and found[0] != own(place)  # type: ignore[index]


def count_own(place: Place) -> int:
    """The number of layers of the member who asks."""
    return sum(key.endswith(own(place)) for key in _keys(place))


def have(place: Place, key: str) -> bool:
    """Whether the layer is there (what came was proven)."""
    return os.path.isfile(_memory(place, key)) and os.path.isdir(folder(place, key))


def base(place: Place) -> LayerBase:
    """The environment that layers are made for: its Python and machine, and its packages with what each needs."""
    identity, python = _base(place)
    seen = rights.call(place.get("user"), lambda: _packages(place["python"]), 50, Tuple[InstalledPackage, ...])
    return LayerBase(identity, python or "", platform.machine(), platform.libc_ver()[1], seen)


def _base(place: Place) -> tuple[str, str | None]:
    env = facts.environment(place)
    identity = [env.get("python"), platform.machine(), sorted(env.get("packages", {}).items())]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16], env.get("python")


def _packages(python: str) -> Tuple[InstalledPackage, ...]:
    done = subprocess.run(
        [python, "-I", "-c", _LOOK], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise Problem(
            f"{python} cannot tell its packages: run 'regatta provision' ({done.stderr.strip()[-300:] or 'no message'})"
        )
    return tuple(decode(InstalledPackage, one) for one in json.loads(done.stdout))


def begin(place: Place, key: str, size: int) -> Incoming:
    """Make a folder to receive a layer; Problem where the disk is too small for `size` bytes."""
    top = releases.own(place, "layers")
    releases.clear_abandoned(top)
    free = shutil.disk_usage(top).free
    if free < size + (64 << 20):
        raise Problem(f"{top} has {free >> 20} MiB free, and the layer needs {(size >> 20) + 64} MiB: free some there")
    if place.get("member"):
        return Incoming(staging.make(place))
    incoming = os.path.join(top, f".incoming-{key}-{secrets.token_hex(4)}")
    os.mkdir(incoming, 0o755)
    return Incoming(incoming)


def commit(place: Place, key: str, incoming: str, archive: str, sha256: str, about: AboutLayer) -> Proven:
    """Prove the archive that arrived in `incoming`, which goes, unpack it, and let it be the layer."""
    incoming = staging.taken(place, incoming, releases.own(place, "layers"))
    try:
        packed = os.path.join(incoming, os.path.basename(archive))
        if os.path.islink(packed) or not os.path.isfile(packed):
            raise Problem(f"{os.path.basename(archive)} has not arrived as a file: start the run again")
        if manifest.file_hash(packed) != sha256:
            return Proven(ok=False)
        tree = os.path.join(incoming, ".layer")
        os.mkdir(tree, 0o755)
        if place.get("member"):
            _unpack_of_member(packed, tree)
        else:
            _unpack(place, packed, tree)
        return _settle(place, key, tree, about)
    finally:
        trees.remove(incoming)


def _unpack(place: Place, packed: str, tree: str) -> None:
    command = ["tar", "--extract", "--gzip", "--no-same-owner", "--file", packed, "--directory", tree]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if "No space left" in done.stderr:
        raise Problem(f"no space left for the layer below {place['root']}: free some, as by 'regatta runs-gc'")
    if done.returncode:
        raise Problem(f"unpacking the layer failed: start the run again ({done.stderr.strip()[:200]})")


def _unpack_of_member(packed: str, tree: str) -> None:
    """Only files, links and folders, without rights that root's tar would give them."""
    try:
        with gzip.open(packed) as stream:
            staging.unpack(stream, tree)  # type: ignore[arg-type]
    except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error) as error:
        raise Problem(f"unpacking the layer failed: start the run again ({error})") from None


def fetch(place: Place, key: str, incoming: str, host: str, root: str, about: AboutLayer) -> Proven:
    """The layer from a relay, which has it: see `commit`."""
    tree = os.path.join(incoming, ".layer")
    os.mkdir(tree, 0o755)
    try:
        relay.rsync(
            host,
            f"{os.path.join(root, 'layers', key)}/",
            f"{tree}/",
            ["-p", "--chmod=D755,Fa=rX", *([] if about.compiled else ["--exclude=__pycache__"])],
        )
        return _settle(place, key, tree, about)
    finally:
        trees.remove(incoming)


def _settle(place: Place, key: str, tree: str, about: AboutLayer) -> Proven:
    """Prove a tree by its hash and rename it into place, whole."""
    if manifest.release_id(releases.listed(tree)) != about.tree:
        return Proven(ok=False)
    if not about.compiled and not place.get("member"):  # root would write where a link of the tree leads
        _compile(place, tree)
    releases.protect(tree)
    disk.settle_all(tree)
    with releases.lock(place):
        if not have(place, key):
            target = folder(place, key)
            releases.remove(target)
            os.chmod(tree, 0o755)  # a folder is renamed only by who may write it
            os.rename(tree, target)
            os.chmod(target, 0o555)
            described = {name: getattr(about, name) for name in ("packages", "bytes", "instead")}
            _store(place, key, {**described, "base": _base(place)[0], "made": time.time(), "for": [about.label]})
    return Proven(ok=True, pruned=tuple(prune(place, key)))


def _compile(place: Place, tree: str) -> None:
    """Byte code by the node's own Python, where the controller has none of that version."""
    command = [
        place["python"],
        "-I",
        "-m",
        "compileall",
        "-q",
        "-q",
        "-j",
        "0",
        "--invalidation-mode",
        "unchecked-hash",
    ]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run([*command, tree], capture_output=True, stdin=subprocess.DEVNULL, timeout=COMPILE_SECONDS)


def look(place: Place) -> LayersThere:
    """All layers, the one that was used last first."""
    found, going = [], rundirs.unfinished(place)["layers"]
    for key in _keys(place):
        with contextlib.suppress(OSError, ValueError):
            used, kept = os.path.getmtime(_memory(place, key)), _load(place, key)
            known = {name: kept[name] for name in ("packages", "bytes")}
            found.append(LayerThere(**known, key=key, whose=tuple(kept["for"]), used=used, going=key in going))
    return LayersThere(tuple(sorted(found, key=lambda item: -item.used)))


def prune(place: Place, keep: str) -> List[str]:
    """Remove layers of who has brought `keep`: all but those that were used last, the given one, those of runs in
    progress and just asked for.
    """
    whose, gone = _OWN.findall(keep), {}
    with releases.lock(place):
        used = {key: os.path.getmtime(_memory(place, key)) for key in _keys(place) if _OWN.findall(key) == whose}
        needed = {keep, *sorted(used, key=lambda key: -used[key])[:KEEP]}
        needed |= {key for key in used if time.time() - used[key] < GRACE_SECONDS}
        removable = [key for key in used if key not in needed]
        going = rundirs.unfinished(place)["layers"] if removable else []
        for key in removable:
            if key not in going:
                os.unlink(_memory(place, key))
                gone[key] = os.path.join(place["root"], "layers", f".incoming-{key}-{secrets.token_hex(4)}")
                with contextlib.suppress(FileNotFoundError):
                    os.chmod(folder(place, key), 0o755)
                    os.rename(folder(place, key), gone[key])
    for path in gone.values():  # what cannot be removed now goes as what was begun and left does
        trees.remove(path)
    return [*gone]


def _keys(place: Place) -> List[str]:
    top = os.path.join(place["root"], "layers")
    names = os.listdir(top) if os.path.isdir(top) else []
    return [name[1:-5] for name in names if name.startswith(".") and name.endswith(".json")]


def _ask(place: Place, key: str, label: str) -> bool:
    with releases.lock(place):
        if not have(place, key):
            return False
        os.utime(_memory(place, key))
        with contextlib.suppress(OSError, ValueError, KeyError):
            value = _load(place, key)
            if label and label not in value["for"]:
                _store(place, key, {**value, "for": [*value["for"], label][-MOST_LABELS:]})
    return True


def _memory(place: Place, key: str) -> str:
    return os.path.join(place["root"], "layers", f".{key}.json")


def _load(place: Place, key: str) -> Dict[str, Any]:
    with open(_memory(place, key)) as file:
        return dict(json.load(file))


def _store(place: Place, key: str, value: Dict[str, Any]) -> None:
    disk.store(_memory(place, key), json.dumps(value))
