"""The shared folder on hosts of a lab: the same one everywhere, at once; runs that continue; nothing left."""

import re
import shutil
from pathlib import Path

import pytest
from clusters import Cluster
from provisioning import left, logged, provision, teardown, verify

from lab.model import PROJECT
from regatta.run import kept_folders

POINT = "/var/lib/regatta/shared"
DATA = "/var/lib/regatta-shared"
UNIT = "regatta-shared-folder"
RESUMES = """\
import os, pathlib
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
last = pathlib.Path("out/last.pt")
epoch = torch.load(last, weights_only=True)["epoch"] + 1 if last.exists() else 0
print("rank", rank, "begins at epoch", epoch, flush=True)
dist.barrier()
if rank == dist.get_world_size() - 1:
    torch.save({"epoch": epoch}, "out/new.pt")
    os.rename("out/new.pt", last)
pathlib.Path(os.environ["REGATTA_SHARED"], f"rank{rank}").write_text(str(rank))
dist.barrier()
assert torch.load(last, weights_only=True)["epoch"] == epoch
assert {path.name for path in pathlib.Path(os.environ["REGATTA_SHARED"]).iterdir()} >= {"rank0", "rank1"}
"""
SHARDS = """\
import os
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(64, 50)
expected = model.weight.detach().clone()
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
there = os.path.exists("out/state/.metadata")
dist.barrier()
if there:
    with torch.no_grad():
        model.weight.zero_()
    dcp.load({"model": get_model_state_dict(model)}, checkpoint_id="out/state")
    assert torch.equal(model.weight.full_tensor(), expected)
    print("loaded by", dist.get_world_size(), flush=True)
else:
    dcp.save({"model": get_model_state_dict(model)}, checkpoint_id="out/state")
    print("saved by", dist.get_world_size(), flush=True)
dist.barrier()  # a rank that leaves while others still talk can end by SIGABRT in gloo
dist.destroy_process_group()
"""


def of_run(cluster: Cluster, node: str, script: str, check: bool = True) -> str:
    """A shell script on a node, as the account of runs."""
    done = cluster.lab.ssh(node, f"sudo -u regatta sh -c '{script}'", check=check)
    return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(RESUMES)
    (folder / "shards.py").write_text(SHARDS)
    return folder


@pytest.mark.first
def test_what_one_node_does_the_others_see_at_once(cluster: Cluster) -> None:
    one, two, three = cluster.lab.nodes
    assert "what each node writes, every node reads" in verify(cluster.lab)
    for number in range(5):
        for writer, reader in ((one, two), (two, one), (three, two)):
            look = f"cat {POINT}/at-once 2>/dev/null; test -e {POINT}/gone-{number}-{writer} && echo there"
            of_run(cluster, reader, look, check=False)
            text = f"{writer}-{number}" * 1000
            of_run(
                cluster,
                writer,
                f"echo {text} > {POINT}/new && mv {POINT}/new {POINT}/at-once && touch {POINT}/gone-{number}-{writer}",
            )
            assert of_run(cluster, reader, look).split() == [text, "there"]
    of_run(cluster, one, f"rm -r {POINT}/at-once {POINT}/gone-*")
    assert of_run(cluster, two, f"ls {POINT}").split() == of_run(cluster, three, f"ls {POINT}").split()
    owned = cluster.lab.ssh(one, f"sudo stat -c '%a %U' {DATA}").stdout
    assert owned.split() == ["700", "regatta"]
    for node in (two, three):
        assert "Permission denied" in cluster.lab.ssh(node, f"sudo ls {POINT}", check=False).stderr
        options = cluster.lab.ssh(node, f"findmnt --noheadings --output FSTYPE,OPTIONS {POINT}").stdout
        assert options.startswith("fuse.sshfs") and "nosuid" in options and "allow_other" not in options
    of_run(cluster, two, f"ln -s /etc/hostname {POINT}/link && test -e {POINT}/link && rm {POINT}/link")


@pytest.mark.first
def test_the_next_run_goes_on_on_whichever_nodes(cluster: Cluster, project: Path) -> None:
    (project / "regatta.toml").write_text('keep = ["out/"]\n')
    one, two, three = cluster.lab.nodes
    words = ["torchrun", "--workers=2"]
    first = cluster.regatta(project, *words, f"--nodes={one},{two}", "--name=goes-on-1", "train.py").stdout
    assert first.count("begins at epoch 0") == 2
    again = cluster.regatta(project, *words, f"--nodes={one},{three}", "--name=goes-on-2", "train.py").stdout
    assert again.count("begins at epoch 1") == 2
    listed = cluster.regatta(project, "ls", "goes-on-2").stdout
    for words in (["shared", "rank1"], ["kept", "out/last.pt"]):
        assert words in [[line.split()[0], line.split()[-1]] for line in listed.splitlines() if line.strip()]
    cluster.regatta(project, "fetch", "goes-on-2", "--to=here")
    assert (project / "here/shared/rank1").read_text() == "1"
    said = cluster.regatta(project, "runs-gc", "--before=2099-01-01").stdout
    assert "goes-on-2" in said and "stays" in said
    assert "last.pt" in of_run(cluster, cluster.lab.nodes[1], f"find {POINT}/projects")
    assert "goes-on" not in of_run(cluster, cluster.lab.nodes[1], f"find {POINT}/runs")
    cluster.regatta(project, "runs-gc", "--before=2099-01-01", f"--project={kept_folders.project(project)}")


def test_shards_of_six_ranks_are_loaded_by_four(cluster: Cluster, project: Path) -> None:
    """FSDP2 and torch.distributed.checkpoint, as they are."""
    saved = cluster.regatta(project, "torchrun", "--workers=6", "--keep=out", "shards.py").stdout
    assert saved.count("saved by 6") == 6
    loaded = cluster.regatta(project, "torchrun", "--workers=4", "--keep=out", "shards.py").stdout
    assert loaded.count("loaded by 4") == 4
    cluster.regatta(project, "runs-gc", "--before=2099-01-01", f"--project={kept_folders.project(project)}")


@pytest.mark.whole  # other tests here prove the folder with less
@pytest.mark.parametrize(
    ("example", "words"),
    [
        ("train/examples/pytorch/torch_linear_example.py", ["--num-workers=3"]),
        ("tune/examples/custom_func_checkpointing.py", ["--smoke-test"]),
    ],
)
def test_rays_own_examples_keep_their_checkpoints(
    cluster: Cluster, project: Path, example: str, words: list[str]
) -> None:
    (packages,) = (PROJECT / ".venv-node").glob("lib/python3*/site-packages/ray")
    shutil.copy(packages / example, project / "example.py")
    done = cluster.regatta(project, "rayrun", "--workers=3", "example.py", *words)
    assert "succeeded" in done.stdout
    (run,) = re.findall(r"^(\S+): succeeded in", done.stdout, re.M)
    listed = cluster.regatta(project, "ls", run).stdout
    kept = [line for line in listed.splitlines() if line.startswith("shared ") and "/checkpoint_" in line]
    assert kept and "ray_results/" in kept[0], done.stdout + listed


@pytest.mark.whole
@pytest.mark.last
@pytest.mark.provisioning
def test_teardown_unmounts_and_keeps_the_files(cluster: Cluster) -> None:
    one, two, _ = cluster.lab.nodes
    provision(cluster.lab)  # another test that comes last may have removed it
    of_run(cluster, two, f"mkdir -p {POINT}/kept/deep && echo state > {POINT}/kept/deep/file")
    holds = f"sudo systemd-run --unit=holds --uid=regatta --working-directory={POINT}/kept sleep 600"
    cluster.lab.ssh(two, holds)
    teardown(cluster.lab)
    assert "nothing is left" in logged(cluster.lab) and left(cluster.lab) == {}
    for node in cluster.lab.nodes:
        assert POINT not in cluster.lab.ssh(node, "cat /proc/self/mountinfo").stdout
    assert cluster.lab.ssh(one, f"sudo stat -c '%a %U' {DATA}; sudo cat {DATA}/kept/deep/file").stdout.split() == [
        "700",
        "root",
        "state",
    ]
    assert cluster.lab.ssh(two, f"ls -d {DATA}", check=False).stdout == ""
    provision(cluster.lab)
    assert of_run(cluster, two, f"cat {POINT}/kept/deep/file").strip() == "state"
    of_run(cluster, two, f"rm -r {POINT}/kept")
