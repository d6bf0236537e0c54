"""Effects of Regatta's files in a run on a script's ways: real torch, Ray and Spark, begun as a run begins them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from launching import PROJECT, ranks
from sparkhere import unpacked

from regatta.frameworks.ray.run import raycluster
from regatta.frameworks.torch.run import torchranks

FRAMEWORKS = PROJECT / "regatta/frameworks"
GROUP = (
    "import torch.distributed as dist; dist.init_process_group('gloo'); dist.barrier(); dist.destroy_process_group()"
)
DEVICES = ("PL_TRAINER_DEVICES", "PL_TRAINER_NUM_NODES")
STORED = """
import json, os, sys
from ray.tune import RunConfig
from ray.train._internal.storage import StorageContext as Old
from ray.train.v2._internal.execution.storage import StorageContext as New
paths = [RunConfig().storage_path, *json.loads(sys.argv[1])]
print(json.dumps([kind(path, experiment_dir_name="exp").storage_fs_path for kind in (Old, New) for path in paths]))
"""
OWN = """
import os, ray
ray.init(runtime_env={"env_vars": {"OMP_NUM_THREADS": "3"}}, log_to_driver=False)
print(*ray.get(ray.remote(lambda: [os.environ.get(name) for name in ("OMP_NUM_THREADS", "OURS")]).remote()))
"""
RELATIVE = """
import os, regatta_sparkpaths
from pyspark.sql import SparkSession
regatta_sparkpaths.SCHEME = "file"  # as HDFS's: where Java writes by relative paths is not the working directory
spark = SparkSession.builder.master("local[1]").getOrCreate()
os.mkdir("elsewhere")
os.chdir("elsewhere")
spark.range(3).write.mode("overwrite").csv("out/numbers")
print("rows", spark.read.csv(["out/numbers"]).count(), os.path.exists("out"))
spark.stop()
"""
WRITES = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("MASTER").getOrCreate()
print("rows", spark.range(3).count())
"""


def boot(folder: Path, first: Path, *modules: Path) -> str:
    """A folder with what Python of a run begins with."""
    folder.mkdir()
    shutil.copy(first, folder / "sitecustomize.py")
    for path in (PROJECT / "regatta/node/imports.py", *modules):
        shutil.copy(path, folder / f"regatta_{path.name}")
    return str(folder)


@pytest.mark.parametrize(("program", "met"), [(GROUP, True), ("import torch.distributed", False)])
def test_ranks_that_meet_leave_a_mark(tmp_path: Path, program: str, met: bool) -> None:
    path = boot(tmp_path / "boot", PROJECT / "regatta/node/sitecustomize_rank.py", Path(torchranks.__file__))
    env = {"PYTHONPATH": path, "REGATTA_SCRATCH": str(tmp_path), "REGATTA_PG_TIMEOUT": "33"}
    said = "import torch.distributed.distributed_c10d as c; print(c.default_pg_timeout.total_seconds())"
    for one in ranks(["-c", f"{program}\n{said}"], 2, **env):
        assert (one.status, one.out) == (0, "33.0\n"), one.err
    assert (tmp_path / torchranks.MARK).exists() is met


@pytest.mark.parametrize(
    ("library", "ranks", "gpus", "variables"),
    [
        ("accelerate", (4, 2, 2), False, {"ACCELERATE_USE_CPU": "true"}),
        ("accelerate", (4, 2, 2), True, {}),
        ("accelerate", (1, 1, 1), False, {}),
        ("composer", (4, 2, 2), True, {"NODE_RANK": "1"}),
        ("lightning.pytorch", (3, 2, 2), False, {}),
        (
            "lightning.pytorch",
            (4, 2, 2),
            False,
            {"PL_TRAINER_ACCELERATOR": "cpu", "PL_TRAINER_STRATEGY": "ddp", **dict.fromkeys(DEVICES, "2")},
        ),
    ],
)
def test_what_a_library_needs_to_share_the_work(
    library: str, ranks: tuple[int, int, int], gpus: bool, variables: dict[str, str]
) -> None:
    names = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE")
    env = {**dict(zip(names, map(str, ranks), strict=True)), "GROUP_RANK": "1"}
    assert torchranks.needed(library, env, gpus) == variables


def test_results_of_ray_are_in_the_runs_shared_folder(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    path = boot(tmp_path / "boot", FRAMEWORKS / "ray/run/sitecustomize.py", FRAMEWORKS / "ray/run/raystorage.py")
    shared, kept, work = (tmp_path / name for name in ("shared", "project", "work"))
    for folder in (shared, kept / "keep", work, tmp_path / "mine"):
        folder.mkdir(parents=True)
    (work / "keep").symlink_to(kept / "keep")
    env = {"REGATTA_SHARED": str(shared), "REGATTA_PROJECT": str(kept), "HOME": str(tmp_path), "PYTHONPATH": path}
    given = ["results/deep", "../up", "keep/here", str(tmp_path / "mine"), "/dev/null/x", "~/ray_results/x"]
    given[-1:] = [f"{tmp_path}/ray_results/x", "file:///dev/null/y"]
    done = subprocess.run(
        [sys.executable, "-c", STORED, json.dumps(given)],
        env=os.environ | env, cwd=work, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ours = [shared / "ray_results", shared / "results/deep", shared / "up", kept / "keep/here"]
    wanted = [*ours, tmp_path / "mine", shared / "x", shared / "ray_results/x", shared / "y"]
    assert json.loads(done.stdout) == [*map(str, wanted)] * 2
    told = [line for line in done.stderr.splitlines() if line.startswith("regatta: ")]
    assert len(told) == len({*told}) == 6, told


def test_what_a_script_gives_ray_comes_before_the_runs_and_keeps_it(ray_cluster: dict[str, str]) -> None:
    job = {"runtime_env": {"env_vars": {"OMP_NUM_THREADS": "1", "OURS": "kept"}}}
    env = {**os.environ, **ray_cluster, "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(job)}
    done = subprocess.run(
        [sys.executable, "-c", OWN], env=env | {"RAY_OVERRIDE_JOB_RUNTIME_ENV": "1"}, capture_output=True, text=True,
        timeout=200, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["3", "kept"], done.stderr


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        (["packaging", "packaging>=20"], ""),
        ({"packages": ["packaging>=9000", "no-such-plum"], "pip_check": False}, "packaging>=9000, no-such-plum"),
        ("requirements.txt", "its packages"),
        (["-r other.txt"], "-r other.txt"),
    ],
)
def test_packages_of_a_runtime_env_that_a_run_lacks(asked: object, missing: str) -> None:
    assert raycluster.lacking(asked) == missing


def test_a_runtime_env_that_no_host_can_make_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ValueError, match=r"leave conda out, and name its packages in requirements\.txt"):
        raycluster.installable({"env_vars": {"A": "1"}, "conda": "plum"})
    assert raycluster.installable({"conda": ["packaging"], "env_vars": {"A": "1"}}) == {"env_vars": {"A": "1"}}


@pytest.mark.parametrize(
    ("given", "joined"), [("", True), pytest.param("address='local', num_cpus=1", False, marks=pytest.mark.whole)]
)
def test_a_driver_with_a_ray_of_its_own_leaves_no_mark(
    tmp_path: Path, ray_cluster: dict[str, str], given: str, joined: bool
) -> None:
    path = boot(tmp_path / "boot", FRAMEWORKS / "ray/run/sitecustomize.py", FRAMEWORKS / "ray/run/raycluster.py")
    env = {**os.environ, **ray_cluster, "PYTHONPATH": path, "REGATTA_SCRATCH": str(tmp_path)}
    script = f"import ray; ray.init({given}); print(ray.get(ray.put(3)))"
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.stdout.split()[-1:] == ["3"], done.stderr
    assert (tmp_path / ".ray").exists() is joined


@pytest.mark.whole
@pytest.mark.parametrize(("master", "came"), [("local[1]", False), ("local-cluster[1,1,512]", True)])
def test_a_driver_with_a_master_of_its_own_leaves_no_mark(tmp_path: Path, master: str, came: bool) -> None:
    modules = [FRAMEWORKS / f"spark/run/{name}.py" for name in ("sparkmaster", "sparkpaths")]
    path = boot(tmp_path / "boot", FRAMEWORKS / "ray/run/sitecustomize.py", *modules)
    env = {**os.environ, **unpacked(tmp_path / "spark", path), "REGATTA_SCRATCH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", WRITES.replace("MASTER", master)], env=env, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert "rows 3" in done.stdout, done.stderr
    assert (tmp_path / ".master").exists() is came


@pytest.mark.whole
def test_what_spark_writes_by_a_relative_path_is_the_runs_output(tmp_path: Path) -> None:
    path = boot(tmp_path / "boot", FRAMEWORKS / "ray/run/sitecustomize.py", FRAMEWORKS / "spark/run/sparkpaths.py")
    env = {**os.environ, **unpacked(tmp_path / "spark", path)}
    done = subprocess.run(
        [sys.executable, "-c", RELATIVE],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "rows 3 False" in done.stdout, done.stderr
    assert (tmp_path / "elsewhere/out/numbers/_SUCCESS").exists()
    told = [line for line in done.stderr.splitlines() if line.startswith("regatta: out/numbers is ")]
    assert len(told) == 2 and f"file:{tmp_path}/out/numbers" in told[0], told
