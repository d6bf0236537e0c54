"""`.venv-node/bin/python -m benchmarks.dialects`: graph files of each kind, read at what share of the plain one's rate.

Files of about 100 MB with the same kind of edges. Each reading is `edgelist.read` in its own process, with its code
compiled before, interleaved with the plain file. Packed files are compared with only their decoder. Then all scores of
four sources for four million nodes are written to the local disk.
"""

import argparse
import bz2
import lzma
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks import machine
from regatta.paths import PROJECT

IDS, BYTES = 1 << 22, 100_000_000
PLAIN = "plain"
KINDS: dict[str, tuple[str, str]] = {
    PLAIN: ("", "{}\t{}\n"),
    "SNAP": ("# Directed graph\n# FromNodeId\tToNodeId\n", "{}\t{}\n"),
    "KONECT, weights": ("% asym weighted\n", "{} {} 1\n"),
    "Matrix Market": ("%%MatrixMarket matrix coordinate pattern general\n{n} {n} {m}\n", "{} {}\n"),
    "Matrix Market, symmetric": ("%%MatrixMarket matrix coordinate real symmetric\n{n} {n} {m}\n", "{} {} 0.5\n"),
    "Pajek": ("*Vertices {n}\n*Arcs\n", "{} {} 1\n"),
    "DIMACS": ("p sp {n} {m}\n", "a {} {} 7\n"),
    "CSV": ("source,target\n", "{},{}\n"),
    "Gephi": ("Source,Target,Type,Id,Weight\n", "{},{},Directed,0,1.0\n"),
    "networkx": ("", "{} {} {{}}\n"),
    "floats": ("", "{}.0 {}.0\n"),
}
READ = """
import sys, time
from workloads.ppr import edgelist
began = time.perf_counter()
edgelist.read(sys.argv[1])
print(time.perf_counter() - began)
"""
WRITE = """
import sys, time
import numpy as np
import pyarrow as pa
from workloads.ppr import scores
n, k = 4_000_000, 4
values = np.random.default_rng(0).random((k, n))
first = {"node": pa.Array.from_buffers(pa.uint32(), n, [None, pa.py_buffer(np.arange(n, dtype=np.uint32))])}
began = time.perf_counter()
scores.write(sys.argv[1], first, [str(source) for source in range(k)], list(enumerate(values)))
print(time.perf_counter() - began)
"""


def written(path: Path, head: str, line: str) -> Path:
    """A file of about BYTES with random edges."""
    edges = np.random.default_rng(0).integers(1, IDS, (100_000, 2)).tolist()
    part = "".join(line.format(*edge) for edge in edges)
    times = BYTES // len(part)
    path.write_text(head.format(n=IDS, m=times * len(edges)) + part * times)
    return path


def seconds(code: str, path: Path) -> float:
    """Return what the code takes for a file, in a process of its own."""
    words = [sys.executable, "-c", code, str(path)]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    return float(subprocess.run(words, cwd=PROJECT, env=environment, capture_output=True, check=True).stdout)


def decoding(path: Path, opened: Callable[[Path], object]) -> float:
    """Seconds of the decoder by itself."""
    began = time.perf_counter()
    with opened(path) as stream:  # type: ignore[attr-defined]
        while stream.read(4 << 20):
            pass
    return time.perf_counter() - began


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dialects", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args(words).turns
    folder = Path(tempfile.mkdtemp(prefix="regatta-bench-", dir="/var/tmp"))
    try:
        here = machine.describe()
        print(here)
        plain = written(folder / PLAIN, *KINDS[PLAIN])
        seconds(READ, plain)
        for name, (head, line) in list(KINDS.items())[1:]:
            path = written(folder / "other", head, line)
            both = [(seconds(READ, plain), seconds(READ, path)) for _ in range(turns)]
            shares = [one / other * path.stat().st_size / plain.stat().st_size for one, other in both]
            rate = path.stat().st_size / 1e6 / statistics.median(other for _, other in both)
            print(f"{name}: {rate:.0f} MB/s, {statistics.median(shares):.2f} of the plain one's rate", flush=True)
            path.unlink()
        for name, pack, opened in (
            ("bz2", bz2.compress, bz2.open),
            ("xz", lambda data: lzma.compress(data, preset=1), lzma.open),
        ):
            path = folder / f"plain.{name}"
            path.write_bytes(pack(plain.read_bytes()))
            shares = [decoding(path, opened) / seconds(READ, path) for _ in range(turns)]
            print(f"{name}: {statistics.median(shares):.2f} of its decoder's rate", flush=True)
        for name in ("scores.parquet", "scores.csv"):
            taken = [seconds(WRITE, folder / name) for _ in range(turns)]
            size = (folder / name).stat().st_size / 1e6
            least, most = min(taken), max(taken)
            print(f"{name}, 4 x 4 million, {size:.0f} MB: {statistics.median(taken):.2f} s ({least:.2f} to {most:.2f})")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
