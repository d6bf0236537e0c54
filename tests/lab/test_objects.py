"""A bucket that hosts read and write, while HDFS is down; the package comes as a layer, and keys stay hidden."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Cluster

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import buckets

from lab import model

GRAPH = "".join(f"{number} {number * 7 % 4999}\n{number} {number * 31 % 4999}\n" for number in range(4999))
TRAIN = """\
import os, sys, tempfile
import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

def train(config):
    for step in range(2):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "step"), "w") as file:
                file.write(str(step))
            kept = Checkpoint.from_directory(folder) if ray.train.get_context().get_world_rank() == 0 else None
            ray.train.report({"step": step}, checkpoint=kept)

run = RunConfig(name="tried", storage_path=sys.argv[1])
result = TorchTrainer(train, scaling_config=ScalingConfig(num_workers=2), run_config=run).fit()
print("kept in", result.checkpoint.path)
"""
HDFS = "'regatta-hdfs-*'"


@pytest.fixture(scope="module")
def store(cluster: Cluster) -> Iterator[buckets.Store]:
    """A store on this machine's address of the lab's bridge, while the cluster has no HDFS."""
    lab = model.load(cluster.lab.name)
    assert lab is not None
    for node in cluster.lab.nodes:
        cluster.lab.ssh(node, f"sudo systemctl stop {HDFS}")
    try:
        with buckets.serve(lab.gateway) as made:
            yield made
    finally:
        cluster.fab("up")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return folder


@pytest.mark.whole
def test_the_same_graph_from_a_bucket_under_each_framework(
    cluster: Cluster, store: buckets.Store, tmp_path: Path
) -> None:
    store.put("graphs/graph.txt", GRAPH.encode())
    keys, results = str(store.file(tmp_path)), tmp_path / "results"
    words = ["run-ppr", "--graph=s3://data/graphs/graph.txt", "--workers=3", "--framework=both", f"--env-file={keys}"]
    said = cluster.fab(*words, results=results).stdout
    assert "answers of 3 runs are equal" in said and "beyond the base" in said
    file = tmp_path / "graph.txt"
    file.write_text(GRAPH)
    plain = cluster.fab("run-ppr", f"--graph={file}", "--workers=3", "--framework=torch", results=results).stdout
    assert plain.count("\n") and [line for line in plain.splitlines() if line.startswith("source")] == [
        line for line in said.splitlines() if line.startswith("source")
    ]
    secret = store.variables["AWS_SECRET_ACCESS_KEY"]
    assert not [path for path in results.glob("*.json") if secret in path.read_text()]
    for node in cluster.lab.nodes:
        told = f"journalctl --no-pager | grep -v COMMAND= | grep -cF {secret}"  # this command itself is logged there
        look = f"grep -rlF {secret} /var/lib/regatta/runs /etc/regatta; {told}"
        assert cluster.lab.ssh(node, f"sudo sh -c '{look}'", check=False).stdout.strip() == "0"


@pytest.mark.whole
def test_a_training_keeps_its_state_in_a_bucket(cluster: Cluster, store: buckets.Store, tmp_path: Path) -> None:
    rows = subprocess.run(
        [buckets.NODE, "-m", "workloads.stars.generate", "--size=4000"],
        cwd=model.PROJECT,
        capture_output=True,
        check=True,
    )
    store.put("stars/rows.csv", rows.stdout)
    words = ["run-stars", "--data=s3://data/stars/rows.csv", "--workers=3", "--framework=torch", "--epochs=2"]
    words += ["--checkpoint=s3://data/kept/{run}.pt", f"--env-file={store.file(tmp_path)}", "--name=in-a-bucket"]
    cluster.fab(*words, results=tmp_path / "results")
    assert "kept/in-a-bucket.pt" in store.names()


@pytest.mark.whole
def test_what_is_wrong_is_one_sentence_and_an_exit_code(cluster: Cluster, store: buckets.Store, tmp_path: Path) -> None:
    keys = store.file(tmp_path)
    for graph, more, words in (
        ("s3://data/gone", [], "s3://data/gone: the bucket has no such object"),
        ("s3://nowhere/x", [], "there is no bucket 'nowhere'"),
        ("s3://data/gone", ["--env=AWS_SECRET_ACCESS_KEY=wrong"], "the store refuses"),
        ("s3://data/gone", ["--env=AWS_ENDPOINT_URL=http://127.0.0.1:1"], "no answer from the store"),
        ("s3://data/gone", ["--no-environment"], "the Python package s3fs is missing on this host"),
    ):
        done = cluster.fab(
            "run-ppr",
            f"--graph={graph}",
            "--framework=torch",
            "--workers=2",
            f"--env-file={keys}",
            *more,
            results=tmp_path / "results",
            check=False,
        )
        assert done.returncode and words in done.stdout and "Traceback" not in done.stdout, done.stdout


@pytest.mark.whole
@pytest.mark.parametrize(
    ("where", "package"),
    [("fsspec+s3://data/ray", ["--with=s3fs"]), ("s3://data/plain", [])],
    ids=["fsspec", "pyarrow"],
)
def test_ray_train_keeps_checkpoints_in_a_bucket(
    cluster: Cluster, store: buckets.Store, project: Path, tmp_path: Path, where: str, package: list[str]
) -> None:
    words = ["rayrun", "--workers=2", f"--env-file={store.file(tmp_path)}", *package, "train.py"]
    said = cluster.regatta(project, *words, where).stdout
    folder = where.partition("data/")[2]
    kept = [key for key in store.names() if key.startswith(f"{folder}/tried/checkpoint_") and key.endswith("/step")]
    assert len(kept) == 2, said


@pytest.mark.whole
def test_ray_train_is_told_how_to_keep_checkpoints_in_hdfs(cluster: Cluster, project: Path) -> None:
    done = cluster.regatta(project, "rayrun", "--workers=2", "train.py", "hdfs:///ray", check=False)
    assert done.returncode and "for HDFS say fsspec+hdfs:///path" in done.stdout, done.stdout
