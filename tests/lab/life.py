"""The provisioned hosts that a session of tests shares: a kept lab in seconds, or provisioned once and then kept.

A kept lab belongs to a name. A session takes the first of a few names that no other session on this machine holds, so
that two at once have their own hosts, addresses and secrets.
"""

import fcntl
import functools
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusters import Cluster

from lab import hadoop, image, kept, nodes
from lab.handle import LabHandle, lab_command, read_lab
from lab.model import PROJECT, STATE
from lab.system import RUN

NAMES = tuple(f"tests-{number}" for number in range(1, 7))
NODES = 3
VARIABLES = "hdfs_checkpoint_period_s: 8\n"
"""The shared cluster's own: HDFS' metadata is copied every few seconds."""
READS = (
    "ansible",
    "lab/image.py",
    "lab/inventory.py",
    "lab/model.py",
    "lab/nodes.py",
    "regatta/frameworks",
    "regatta/hosts/cluster.py",
    "regatta/hosts/hostkeys.py",
    "regatta/hosts/inventories.py",
    "regatta/hosts/routes.py",
    "regatta/hosts/sshconfig.py",
    "regatta/node",
    "regatta/provisioning",
    "regatta/run/services.py",
    "regatta/services",
    "requirements/controller.lock",
    "requirements/node.lock",
    "requirements/torch-cpu.lock",
    "requirements/torch-pypi.lock",
)
"""All that provisioning reads, and what makes the hosts that it starts from."""
_NOT = (".md", ".pyc")


def files() -> list[Path]:
    """The files below `READS`, in order, without those that tools leave there (`.ruff_cache`, `__pycache__`)."""
    found = []
    for name in READS:
        path = PROJECT / name
        assert path.exists(), f"{path} is gone: tests/lab/life.py names what provisioning reads"
        found += [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return sorted(one for one in found if one.suffix not in _NOT and not left_by_tools(one))


def left_by_tools(path: Path) -> bool:
    """Whether a file is in a tool's own folder."""
    folders = path.relative_to(PROJECT).parent.parts
    return any(name == "__pycache__" or name.startswith(".") for name in folders)


@functools.cache
def key() -> str:
    """Return what the shared lab is kept by: SHA-256 of all that provisioning reads, 16 digits."""
    suite, digest = image.default_suite(), hashlib.sha256()
    lines = [*image.sources(suite, None, image.own_sources(), image.architecture()), *image.apt_options()]
    base = image.key(suite, image.architecture(), lines)
    for word in (base, hadoop.name(), str(NODES), VARIABLES):
        digest.update(f"{word}\0".encode())
    for path in files():
        digest.update(f"{path.relative_to(PROJECT)}\0{path.stat().st_mode & 0o111}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def fresh() -> bool:
    """Whether everything about provisioning is to be proven again, whatever is kept: `$REGATTA_FRESH` is 1."""
    return os.environ.get("REGATTA_FRESH") == "1"


@contextmanager
def held(name: str) -> Iterator[bool]:
    """Whether only this session has the lab's name, until the end; a lab that a person uses is left to them."""
    RUN.mkdir(mode=0o700, exist_ok=True)
    file = os.open(RUN / f"session-{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = not stays(name).exists()
        except BlockingIOError:
            free = False
        yield free
    finally:
        os.close(file)


def stays(name: str) -> Path:
    """The mark of a lab that outlives the session, for a person who keeps working with it."""
    return STATE / name / "stays"


def made_from(name: str) -> str | None:
    """The key of the kept lab that a lab was made from, or None."""
    link = STATE / name / "node1" / nodes.KEPT
    return link.readlink().parents[1].name.removeprefix(f"{name}-") if link.is_symlink() else None


def begin(name: str, wanted: str, *, fresh: bool = False) -> Cluster | None:
    """The provisioned lab of a name, its services up; None where its addresses are in use.

    It starts from the kept lab; where there is none, or where a new one is asked for, it is provisioned and then kept.
    """
    started = time.monotonic()
    there = kept.place(name, wanted).is_dir() and not fresh
    lab_command("down", "--name", name)
    words = ("--kept", wanted) if there else ("--nodes", str(NODES), "--egress", "no")
    done = lab_command("up", "--name", name, *words)
    if "choose another subnet" in done.stdout:
        return None
    assert done.returncode == 0, done.stdout
    cluster = Cluster(read_lab(name))
    if not there:
        provision(cluster.lab)
        done = lab_command("keep", "--name", name, "--key", wanted)
        assert done.returncode == 0, done.stdout
    cluster.fab("up")
    how = "from the lab that is kept" if there else "provisioned, and kept"
    print(f"\nlab {name}: {NODES} hosts {how}, all services up after {time.monotonic() - started:.1f} s", flush=True)
    return cluster


def provision(lab: LabHandle) -> None:
    """Make bare hosts into the shared cluster."""
    variables = lab.inventory / "group_vars/all.yml"
    variables.parent.mkdir(exist_ok=True)
    variables.write_text(VARIABLES)
    Cluster(lab).make("provision")


def of_a_person(name: str, wanted: str) -> Cluster:
    """The lab that `$REGATTA_TEST_LAB` names: used as it is while it fits, made (again) where not, and it stays."""
    if (STATE / name).is_dir() and made_from(name) in (wanted, None):
        cluster = Cluster(read_lab(name))
        if made_from(name) is None:
            provision(cluster.lab)
        return cluster
    made = begin(name, wanted)
    assert made, f"the addresses of {name} are in use: give the lab another name"
    stays(name).touch()
    return made
