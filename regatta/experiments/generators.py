"""Made-up input: the generators of `workloads/` run on the head, from a release, into HDFS, or here, into files."""

import os
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regatta import paths
from regatta.errors import DataError, UsageError
from regatta.hdfs import client as hdfs
from regatta.hdfs import files as hdfsfiles
from regatta.hosts.remote import Remote
from regatta.release import sync, tree


@dataclass(frozen=True)
class Part:
    """A file of a folder: further words for the generator, and its size as a share of the whole."""

    name: str
    words: tuple[str, ...]
    divisor: int = 1
    seed_step: int = 0


@dataclass(frozen=True)
class Kind:
    """`name`: of the file or folder, made of a size and a seed; `parts`: the files of a folder."""

    module: str
    name: str
    parts: tuple[Part, ...] = ()

    def files(self, target: str, size: int, seed: int) -> Iterator[tuple[str, list[str]]]:
        """Path and generator's arguments of each file of `target`."""
        for part in self.parts or (Part("", ()),):
            path = f"{target.rstrip('/')}/{part.name}" if part.name else target
            share = max(1, size // part.divisor)
            words = [f"--size={share}", f"--seed={seed + part.seed_step}", *part.words]
            yield path, ["-m", self.module, *words, *(["--gzip"] if path.endswith(".gz") else [])]


_IMAGES, _LABELS = ("--part", "images"), ("--part", "labels")
_HELD_OUT, _OTHER_SEED = 6, 1 << 20

KINDS = {
    "graph": Kind("workloads.ppr.generate", "graph-{size}-{seed}.txt.gz"),
    "stars": Kind("workloads.stars.generate", "stars-{size}-{seed}.csv"),
    "digits": Kind(
        "workloads.digits.generate",
        "digits-{size}-{seed}",
        (
            Part("train-images-idx3-ubyte.gz", _IMAGES),
            Part("train-labels-idx1-ubyte.gz", _LABELS),
            Part("t10k-images-idx3-ubyte.gz", _IMAGES, _HELD_OUT, _OTHER_SEED),
            Part("t10k-labels-idx1-ubyte.gz", _LABELS, _HELD_OUT, _OTHER_SEED),
        ),
    ),
}


def make(remote: Remote, kind: str, size: int, seed: int, to: str | None, *, force: bool) -> Iterator[hdfsfiles.Done]:
    """Make the files of a kind, `size` edges, rows or images. Raises UsageError, DataError, RemoteError."""
    if kind not in KINDS:
        raise UsageError(f"there is no generator of '{kind}'; there are {', '.join(KINDS)}")
    hdfs.require(remote)
    chosen, head = KINDS[kind], remote.cluster.head
    target = hdfs.address(to or default_address(kind, size, seed))
    source = tree.read(paths.PROJECT)
    sync.sync(remote, source, [head])
    environ = {"PYTHONPATH": f"{head.root}/releases/{source.release}"}
    for path, words in chosen.files(target, size, seed):
        argv = [head.python, *words]
        yield hdfsfiles.make(remote, argv, environ, path, force=force, label=path.rpartition("/")[2])


def default_address(kind: str, size: int, seed: int) -> str:
    """Where `make` puts what nobody gave a place to."""
    return f"hdfs:///generated/{KINDS[kind].name.format(size=size, seed=seed)}"


def make_here(python: str, kind: str, size: int, seed: int, folder: Path) -> Path:
    """Make the files of a kind on this machine, or find them there; whole or not at all. Raises DataError."""
    target = folder / KINDS[kind].name.format(size=size, seed=seed)
    for path, words in KINDS[kind].files(str(target), size, seed):
        if Path(path).is_file():
            continue
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        new = Path(path).with_name(f".{secrets.token_hex(8)}.new")
        try:
            with new.open("xb") as file:
                done = subprocess.run(
                    [python, *words],
                    cwd=paths.PROJECT,
                    env=os.environ | {"PYTHONPATH": str(paths.PROJECT)},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.PIPE,
                    check=False,
                )
            if done.returncode:
                said = done.stderr.decode("utf-8", "replace").strip().splitlines()
                raise DataError(f"{path} could not be made: {said[-1] if said else 'no message'}")
            new.replace(path)
        except OSError as error:
            raise DataError(f"{path} could not be made: {error.strerror} ({error.filename or python})") from None
        finally:
            new.unlink(missing_ok=True)
    return target
