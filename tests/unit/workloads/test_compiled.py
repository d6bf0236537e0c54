"""Machine code that is kept from one process to the next."""

from __future__ import annotations

from pathlib import Path

from launching import PROJECT, python

NAME = "workloads.ppr.kernels"
LOAD = f"""
import sys
from workloads.common import compiled
kernels = compiled.load({NAME!r})
assert compiled.load({NAME!r}) is kernels is sys.modules[{NAME!r}]
import scipy.linalg
for one in (kernels.mark, kernels.step(4)):
    print(sum(one.stats.cache_hits.values()), sum(one.stats.cache_misses.values()))
"""


def test_what_one_process_compiles_the_next_one_loads(tmp_path: Path) -> None:
    said = [python("-c", LOAD, XDG_CACHE_HOME=str(tmp_path)) for _ in range(2)]
    assert [run.status for run in said] == [0, 0], said[0].err
    assert [run.out.split() for run in said] == [["0", "1"] * 2, ["1", "0"] * 2]
    (copy,) = tmp_path.glob("regatta/compiled/*/kernels.py")
    assert copy.read_bytes() == (PROJECT / "workloads/ppr/kernels.py").read_bytes()


def test_a_file_in_the_way_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "regatta").write_text("")
    run = python("-c", LOAD, XDG_CACHE_HOME=str(tmp_path))
    assert (run.status, run.out.split()) == (0, ["0", "1"] * 2), run.err
    assert (tmp_path / "regatta").read_text() == ""
