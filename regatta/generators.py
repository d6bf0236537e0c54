"""Made-up input: the generators of `workloads/` run on the head, from a release, into HDFS."""

from collections.abc import Iterator
from dataclasses import dataclass

from regatta import hdfs, hdfsfiles, paths, sync, tree
from regatta.errors import UsageError
from regatta.remote import Remote


@dataclass(frozen=True)
class Kind:
    """`name`: of the file, made of a size and a seed; `parts`: further words for each file of a folder, by its name."""

    module: str
    name: str
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()


KINDS = {
    "graph": Kind("workloads.ppr.generate", "graph-{size}-{seed}.txt.gz"),
    "stars": Kind("workloads.stars.generate", "stars-{size}-{seed}.csv"),
    "digits": Kind(
        "workloads.digits.generate",
        "digits-{size}-{seed}",
        (
            ("images-idx3-ubyte.gz", ("--part", "images")),
            ("labels-idx1-ubyte.gz", ("--part", "labels")),
        ),
    ),
}


def make(remote: Remote, kind: str, size: int, seed: int, to: str | None, *, force: bool) -> Iterator[hdfsfiles.Done]:
    """Make the files of a kind, `size` edges, rows or images. Raises UsageError, DataError, RemoteError."""
    if kind not in KINDS:
        raise UsageError(f"there is no generator of '{kind}'; there are {', '.join(KINDS)}")
    hdfs.require(remote)
    chosen, head = KINDS[kind], remote.cluster.head
    target = hdfs.address(to or f"/generated/{chosen.name.format(size=size, seed=seed)}")
    source = tree.read(paths.PROJECT)
    sync.sync(remote, source, [head])
    environ = {"PYTHONPATH": f"{head.root}/releases/{source.release}"}
    for name, words in chosen.parts or (("", ()),):
        path = f"{target.rstrip('/')}/{name}" if name else target
        argv = [head.python, "-m", chosen.module, f"--size={size}", f"--seed={seed}", *words]
        argv += ["--gzip"] if path.endswith(".gz") else []
        yield hdfsfiles.make(remote, argv, environ, path, force=force, label=path.rpartition("/")[2])
