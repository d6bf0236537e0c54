"""The resources that a run has used, as the kernel counts it for the run's unit: its own cgroup, made here."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from regatta.node import cgroup

RUN = f"use-{os.getpid()}"
USING = """
import sys
from regatta.node import usage
taken = bytearray(100 << 20)
for at in range(0, len(taken), 4096):
    taken[at] = 1
del taken
n = sum(range(3_000_000))
import json
print(json.dumps(usage.of_unit(sys.argv[1])))
"""


@pytest.fixture
def unit() -> Iterator[list[Path]]:
    """Cgroups named as a run's unit, in every hierarchy of this machine that counts memory or processor time."""
    root = Path(cgroup.ROOT)
    bases = [root / name for name in ("memory", "cpuacct") if (root / name).is_dir()] or [root]
    made = [base / f"regatta-run-{RUN}.service" for base in bases]
    if bases == [root]:
        (root / "cgroup.subtree_control").write_text("+memory")
    for folder in made:
        folder.mkdir()
    yield made
    for folder in made:
        folder.rmdir()


def test_memory_and_processor_time_are_those_of_the_unit(unit: list[Path]) -> None:
    join = "".join(f"echo $$ > {folder}/cgroup.procs; " for folder in unit)
    command = f'{join} exec {sys.executable} -c "$0" /var/lib/regatta/runs/{RUN}'
    done = subprocess.run(["sh", "-c", command, USING], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert 100 << 20 <= found["peak_bytes"] < 300 << 20
    assert 0.01 < found["cpu_seconds"] < 60
