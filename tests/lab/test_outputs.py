"""Files that runs write by relative paths, on hosts of a lab: the same under torch and Ray, and fetched by node."""

import shlex
from pathlib import Path

from clusters import Cluster

TORCH = """\
import os, pathlib
import torch.distributed as dist
dist.init_process_group("gloo")
rank = os.environ["RANK"]
assert pathlib.Path("data/train.csv").read_text() == "a,b\\n"
pathlib.Path("out/same.txt").write_text(f"rank {rank}")
pathlib.Path("out/README").write_text("changed")
dist.barrier()
"""
RAY = """\
import os, pathlib
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(logging_level="ERROR")

def look(what):
    pathlib.Path(f"out/{what}.txt").write_text(what)
    return os.getcwd(), pathlib.Path("data/train.csv").read_text()

@ray.remote(num_cpus=0)
class Actor:
    def look(self):
        return look("actor")

task = ray.remote(num_cpus=0)(look)
there = [os.getcwd(), "a,b\\n"]
for node in ray.nodes():
    on = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    assert list(ray.get(task.options(scheduling_strategy=on).remote("task"))) == there
    assert list(ray.get(Actor.options(scheduling_strategy=on).remote().look.remote())) == there

from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer

def train():
    assert list(look("train")) == there

TorchTrainer(train, scaling_config=ScalingConfig(num_workers=2)).fit()
"""
PLANTS = """\
import os
os.chdir("out")
os.symlink("/etc/regatta/ray_token", "token")
os.symlink("/", "root")
os.mkfifo("pipe")
with open("kept.txt", "w") as file:
    file.write("kept")
os.symlink("kept.txt", "inside")
with open(b"odd \\xff\\nname", "w") as file:
    file.write("odd")
os.makedirs("d/" * 500)
"""


def project(folder: Path, **scripts: str) -> Path:
    """A project with data, an output folder with a file, and scripts."""
    (folder / "data").mkdir(parents=True)
    (folder / "out").mkdir()
    (folder / "data" / "train.csv").write_text("a,b\n")
    (folder / "out" / "README").write_text("results\n")
    (folder / "regatta.toml").write_text('outputs = ["out"]\n')
    for name, text in scripts.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def came(folder: Path) -> dict[str, str]:
    """Files that have come, by their paths."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_what_ranks_write_comes_back_by_node(cluster: Cluster, tmp_path: Path) -> None:
    tree = project(tmp_path / "project", train=TORCH)
    cluster.regatta(tree, "torchrun", "--workers", "3", "--name", "writes", "train.py")
    found = came(tmp_path / "results" / "writes")
    nodes = cluster.lab.nodes
    assert found == {
        f"{node}/out/{name}": text
        for rank, node in enumerate(nodes)
        for name, text in (("same.txt", f"rank {rank}"), ("README", "changed"))
    }
    releases = cluster.lab.ssh(nodes[0], "sudo sh -c 'cat /opt/regatta/current/out/README'").stdout
    assert releases == "results\n"
    listed = cluster.regatta(tree, "ls", "writes").stdout
    assert "out/same.txt" in listed and "data/train.csv" not in listed and "6 files" in listed


def test_relative_paths_lead_rays_workers_to_the_same_files(cluster: Cluster, tmp_path: Path) -> None:
    tree = project(tmp_path / "project", driver=RAY)
    cluster.regatta(tree, "rayrun", "--workers", "3", "--name", "rays", "driver.py")
    found = came(tmp_path / "results" / "rays")
    for node in cluster.lab.nodes:
        assert {f"{node}/out/task.txt", f"{node}/out/actor.txt"} <= found.keys()
    assert [path for path in found if path.endswith("train.txt")]


def test_nothing_outside_is_read_or_written(cluster: Cluster, tmp_path: Path) -> None:
    tree = project(tmp_path / "project", plants=PLANTS)
    said = cluster.regatta(tree, "torchrun", "--workers", "1", "--name", "plants", "plants.py").stdout
    folder = tmp_path / "results" / "plants"
    names = {path.name for path in folder.rglob("*") if not path.is_dir()}
    assert names == {"kept.txt", "inside", "odd \udcff\nname"}, said
    assert not [path for path in folder.rglob("*") if path.is_symlink()]
    assert (folder / "out" / "inside").read_text() == "kept"
    for left_out in ("out/token is a link that leads out", "out/root is a link that leads out", "out/pipe is a FIFO"):
        assert left_out in said
    token = cluster.lab.ssh(cluster.lab.nodes[0], "sudo cat /etc/regatta/ray_token").stdout.strip()
    assert not any(token in path.read_text() for path in folder.rglob("*") if path.is_file())
    # A run replaces its working directory by links: no file of root is read.
    work = "/var/lib/regatta/runs/plants/work"
    moved = f"mv {work} {work}.mine && ln -s /root {work}"
    cluster.lab.ssh(
        cluster.lab.nodes[0], f"sudo setpriv --reuid=regatta --regid=regatta --clear-groups sh -c {shlex.quote(moved)}"
    )
    again = cluster.regatta(tree, "fetch", "plants", check=False)
    assert again.returncode and "something else in the place" in again.stdout
