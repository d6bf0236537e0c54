"""Synthetic input: the generators that cards name run on the head, from a release, into HDFS, or here, into files."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from regatta.cards.card import GeneratedFile, Generator, Workload
from regatta.errors import DataError, UsageError
from regatta.files import replacing
from regatta.hdfs import client as hdfs
from regatta.hdfs import files as hdfsfiles
from regatta.hosts.remote import Remote
from regatta.release import sync, tree


def kinds(workloads: Mapping[str, Workload]) -> dict[str, Workload]:
    """Workloads that have a generator, by the kind of what it makes."""
    return {found.card.generate.kind: found for found in workloads.values() if found.card.generate}


def find(workloads: Mapping[str, Workload], kind: str) -> Workload:
    """The workload whose generator makes this kind of input. UsageError names what there is."""
    known = kinds(workloads)
    if kind not in known:
        raise UsageError(f"there is no generator of '{kind}'; there are {', '.join(known)}")
    return known[kind]


def files(made: Generator, target: str, size: int, seed: int) -> Iterator[tuple[str, list[str]]]:
    """Path and generator's arguments of each file of `target`."""
    for part in made.parts or (GeneratedFile(""),):
        path = f"{target.rstrip('/')}/{part.name}" if part.name else target
        share = max(1, size // part.divisor)
        words = [f"--size={share}", f"--seed={seed + part.seed_step}", *part.words]
        yield path, ["-m", made.module, *words, *(["--gzip"] if path.endswith(".gz") else [])]


def make(
    remote: Remote, workload: Workload, size: int, seed: int, to: str | None, *, force: bool
) -> Iterator[hdfsfiles.Done]:
    """Make a workload's input, `size` of its units. Raises UsageError, DataError, RemoteError."""
    made = _generator(workload)
    hdfs.require(remote)
    head = remote.cluster.head
    target = hdfs.address(to or default_address(workload, size, seed))
    source = tree.read(workload.root)
    sync.sync(remote, source, [head])
    environ = {"PYTHONPATH": f"{head.root}/releases/{source.release}"}
    for path, words in files(made, target, size, seed):
        argv = [head.python, *words]
        yield hdfsfiles.make(remote, argv, environ, path, force=force, label=path.rpartition("/")[2])


def default_address(workload: Workload, size: int, seed: int) -> str:
    """Return where `make` puts what was given no place."""
    return f"hdfs:///generated/{_generator(workload).name.format(size=size, seed=seed)}"


def addresses(workload: Workload, url: str, size: int, seed: int) -> set[str]:
    """Paths in HDFS of the files that `make` puts there."""
    return {path.removeprefix("hdfs://") for path, _ in files(_generator(workload), url, size, seed)}


def make_here(python: str, workload: Workload, size: int, seed: int, folder: Path) -> Path:
    """Make a workload's input on this machine, or find it there; whole or not at all. Raises DataError."""
    made = _generator(workload)
    target = folder / made.name.format(size=size, seed=seed)
    for path, words in files(made, str(target), size, seed):
        if Path(path).is_file():
            continue
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            with replacing(Path(path)) as new, new.open("xb") as file:
                done = subprocess.run(
                    [python, *words],
                    cwd=workload.root,
                    env=os.environ | {"PYTHONPATH": str(workload.root)},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.PIPE,
                    check=False,
                )
                if done.returncode:
                    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
                    raise DataError(
                        f"{path} could not be made: {said[-1] if said else 'no message'}; or give a file of your own"
                    )
        except OSError as error:
            raise DataError(f"{path} could not be made: {error.strerror} ({error.filename or python})") from None
    return target


def _generator(workload: Workload) -> Generator:
    if workload.card.generate is None:
        raise DataError(
            f"{workload.name} has no generator: add a table [generate] to its card ({workload.where}), or name data"
        )
    return workload.card.generate
