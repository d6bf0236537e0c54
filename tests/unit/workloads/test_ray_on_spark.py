"""A Ray that a script starts on Spark: its ports and folder are the run's, and it ends with the script."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from launching import PROJECT, python
from sparkhere import unpacked

from regatta.frameworks.spark.run import rayspark

pytestmark = pytest.mark.frameworks

SCRIPT = """
import os, re, subprocess, sys
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
import ray
from ray.util.spark import setup_ray_cluster
setup_ray_cluster(
    max_worker_nodes=2, num_cpus_worker_node=1, num_gpus_worker_node=0, memory_worker_node=1 << 29,
    object_store_memory_worker_node=100 << 20, memory_head_node=1 << 29, object_store_memory_head_node=100 << 20,
)
ray.init()
print("cores", ray.cluster_resources()["CPU"])
print(ray.get(ray.remote(lambda: "from a task").remote()))


def ours(pid):  # titles of Ray are written over a process's own environment, so those above it count, too
    if f"REGATTA_RUN_ID={os.environ['REGATTA_RUN_ID']}".encode() in Path(f"/proc/{pid}/environ").read_bytes():
        return True
    above = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return above > 1 and ours(above)


for line in subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True).stdout.splitlines():
    if (found := re.search("pid=([0-9]+)", line)) and ours(found[1]):
        print(line, flush=True)
raise ValueError("in the middle")
"""
CHANGED = """
from regatta.frameworks.spark.run import rayspark
import ray.util.spark.cluster_init as init
rayspark.change(init)
print(init._create_hook_entry(False).get_default_temp_root_dir(), init.get_random_unused_port("127.0.0.1", min_port=9))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short one, as a run's is."""
    made = Path(f"/tmp/rg-{secrets.token_hex(4)}")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def of_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    made = {rayspark.PORTS: "12000-12199", rayspark.FOLDER: str(folder)}
    for name, value in made.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rayspark, "_held", [])
    yield made
    for one in rayspark._held:
        one._holder.close()


def test_nodes_of_a_host_share_no_port(of_run: dict[str, str]) -> None:
    first, second = rayspark.Slot("12000-12199"), rayspark.Slot("12000-12199")
    assert (first.first, second.first) == (12000, 12100)
    with pytest.raises(RuntimeError, match="num_cpus_worker_node"):
        rayspark.Slot("12000-12199")
    with socket.socket() as taken:
        taken.bind(("", 12102))
        assert [first.port(), first.port(), second.port(), second.port()] == [12001, 12002, 12101, 12103]
    first._holder.close()
    second._holder.close()


def test_a_nodes_command_names_ports_address_and_folder(of_run: dict[str, str], folder: Path) -> None:
    given = ["python", "--address=127.0.0.1:12001", f"--temp-dir={folder}/ray-1-a", "--metrics-export-port=7"]
    made = rayspark.arguments(given)
    assert made[:4] == ["python", "--address=127.0.0.1:12001", f"--temp-dir={folder}/12000", "--metrics-export-port=7"]
    added = dict(word.split("=") for word in made[4:])
    assert added.pop(rayspark.OWN_ADDRESS) == "127.0.0.1"
    assert set(added) == set(rayspark.OF_NODES) - {"--metrics-export-port"}
    assert len(set(added.values())) == 5 and all(12000 < int(port) < 12030 for port in added.values())
    head = rayspark.arguments(["python", "--head", "--node-ip-address=127.0.0.9", "--dashboard-host=0.0.0.0"])
    assert head[3] == "--dashboard-host=127.0.0.9"


def test_a_folder_of_somebody_else_is_refused(of_run: dict[str, str], folder: Path) -> None:
    assert rayspark.folder() == str(folder) and folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
    folder.symlink_to("/tmp")
    try:
        with pytest.raises(PermissionError, match="belongs to another user"):
            rayspark.folder()
    finally:
        folder.unlink()


def test_ray_has_what_is_replaced(of_run: dict[str, str], folder: Path) -> None:
    done = python("-c", CHANGED, **of_run)
    assert done.out.split() == [str(folder), "12001"], done.err


@pytest.mark.whole
@pytest.mark.timeout(1800)
def test_a_script_that_fails_leaves_nothing(tmp_path: Path, folder: Path) -> None:
    boot, scratch = tmp_path / "boot", tmp_path / "scratch"
    boot.mkdir()
    scratch.mkdir()
    shutil.copy(PROJECT / "regatta/frameworks/ray/run/sitecustomize.py", boot / "sitecustomize.py")
    for name in ("frameworks/spark/run/rayspark", "node/imports"):
        shutil.copy(PROJECT / f"regatta/{name}.py", boot / f"regatta_{Path(name).name}.py")
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(32))
    token.chmod(0o600)
    (tmp_path / "job.py").write_text(SCRIPT)
    mark = f"REGATTA_RUN_ID={folder.name}"
    environment = unpacked(tmp_path) | {
        rayspark.PORTS: "12000-15999",
        rayspark.FOLDER: str(folder),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "REGATTA_RUN_ID": folder.name,
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    environment["PYTHONPATH"] = f"{boot}:{environment['PYTHONPATH']}"
    done = python(str(tmp_path / "job.py"), timeout=900, **environment)
    assert done.status == 1 and "ValueError: in the middle" in done.err, done.err
    assert "cores 2.0" in done.out and "from a task" in done.out
    listening = [line.split() for line in done.out.splitlines() if line.startswith("LISTEN")]
    ray = [int(one[3].rpartition(":")[2]) for one in listening if "gcs_server" in one[-1] or "ray" in one[-1]]
    assert len(ray) > 10 and all(12000 <= port <= 15999 for port in ray)
    end = time.monotonic() + 60
    while left := subprocess.run(
        ["sh", "-c", f"grep -lzxF {mark} /proc/[0-9]*/environ"], capture_output=True, text=True, check=False
    ).stdout.split():
        assert time.monotonic() < end, left
        time.sleep(0.5)
    assert not any(one.is_dir() for one in folder.iterdir())
    assert not list(Path("/tmp").glob("ray_on_spark_*"))
