"""The shared folder: the head away, a worker cut off, a full disk, twenty nodes at once, ten generations of one run."""

import re
import secrets
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import kernel
import pytest
from clusters import Cluster, read_until, wait_for
from faulty import new_name, next_run, nothing_left, whole
from telling import Teller

from lab import cgroups
from lab.handle import LabHandle
from regatta.hosts import inventories
from regatta.provisioning import playbook

POINT = "/var/lib/regatta/shared"
DATA = "/var/lib/regatta-shared"
BOTH_SIDES = {"into": "drop", "out": "drop"}
WRITES = """\
import os, pathlib, sys, time
folder, size, most = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
folder.mkdir(parents=True, exist_ok=True)
for number in range(most):
    try:
        with open(folder / "new", "wb") as file:
            file.write(bytes([number % 256]) * size)
        os.rename(folder / "new", folder / "whole")
        print("wrote", number, flush=True)
    except OSError as error:
        print("refused", error.strerror, flush=True)
    if pathlib.Path("/tmp/enough").exists():
        break
    time.sleep(0.05)
print("done", flush=True)
"""
WHOLE = "import sys; body = open(sys.argv[1], 'rb').read(); print(len(body), len(set(body)))"
LASTS = """\
import hashlib, os, pathlib, signal, sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
folder, quiet = pathlib.Path(os.environ["REGATTA_SHARED"]), {4, 8}
last = folder / "last.pt"

def keep(state):
    body = torch.tensor([state["epoch"]] * 500_000)
    torch.save({**state, "body": body}, folder / f"new-{rank}.pt")
    if rank == 0:
        os.rename(folder / f"new-{rank}.pt", last)

state = torch.load(last, weights_only=True) if last.exists() else {"generation": 0, "epoch": 0, "total": 0}
assert "body" not in state or state["body"].unique().tolist() == [state["epoch"]], "torn"
dist.barrier()
state = {"generation": state["generation"] + 1, "epoch": state["epoch"], "total": state["total"]}
if rank == 0:
    print(f"generation {state['generation']} begins at epoch {state['epoch']} with {ranks} ranks", flush=True)
keep(state)
dist.barrier()
for step in range(10_000):
    state["total"] += state["epoch"]
    state["epoch"] += 1
    keep(state)
    dist.barrier()
    if step == 2 and rank == 0:
        print(f"generation {state['generation']} has kept epoch {state['epoch']}", flush=True)
    if step >= 3 and state["generation"] == 10:
        break
    if step >= 3 and state["generation"] not in quiet and rank == ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)
if rank == 0:
    print(f"ended at epoch {state['epoch']} with {state['total']}", flush=True)
dist.destroy_process_group()
"""
GENERATIONS = 10


class Writer:
    """A program of a node that writes files into the shared folder, as the account of runs, in its own unit."""

    def __init__(self, lab: LabHandle, node: str, folder: str, size: int = 4_000_000, most: int = 10_000) -> None:
        self.lab, self.node, self.folder = lab, node, folder
        self.unit = f"writes-{secrets.token_hex(4)}"  # what an earlier one has said is not its own
        lab.ssh(node, f"sudo tee /tmp/writes.py >/dev/null <<'END'\n{WRITES}\nEND\nsudo rm -f /tmp/enough")
        lab.ssh(
            node,
            f"sudo systemd-run --quiet --unit={self.unit} --uid=regatta --property=PrivateMounts=yes "
            f"/usr/bin/python3 /tmp/writes.py {folder} {size} {most}",
        )

    def said(self) -> str:
        """All that it has printed."""
        return self.lab.ssh(self.node, f"sudo journalctl --no-pager --output=cat --unit={self.unit}").stdout

    def written(self) -> int:
        """Return how many files it has written."""
        return self.said().count("wrote")

    def end(self) -> None:
        """End it."""
        self.lab.ssh(self.node, f"sudo touch /tmp/enough; sudo systemctl stop {self.unit}", check=False)


@contextmanager
def writing(lab: LabHandle, node: str, name: str) -> Iterator[Writer]:
    """A node that writes below `fault/NAME`; what it has made is removed."""
    writer = Writer(lab, node, f"{POINT}/fault/{name}")
    try:
        wait_for(lambda: writer.written() > 3)
        yield writer
    finally:
        writer.end()
        lab.ssh(lab.nodes[0], f"sudo rm -rf {DATA}/fault/{name}")


def is_whole(lab: LabHandle, node: str, path: str, size: int = 4_000_000) -> bool:
    """Whether a file has as many bytes as were written, of one write."""
    said = lab.ssh(node, f"sudo -u regatta python3 -c {shlex.quote(WHOLE)} {path}").stdout
    return said.split() == [str(size), "1"]


def carriers(lab: LabHandle, node: str) -> set[int]:
    """The processes of a worker that carry the folder to the head, seen from outside of it."""
    found = set()
    for pid in cgroups.processes(kernel.host(lab, node)):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[0] == b"ssh" and any(word.endswith(b"/sftp-server") for word in words):
                found.add(pid)
    return found


@pytest.mark.whole
def test_the_head_goes_in_the_middle_of_a_write(struck: Cluster, tell: Teller) -> None:
    tell.begin("shared", "the head is powered off in the middle of a write, and comes back", "-")
    one, two, _ = struck.lab.nodes
    with writing(struck.lab, two, "head") as writer:
        struck.lab.off(one)
        try:
            wait_for(lambda: "refused" in writer.said(), 60)
            said = struck.lab.ssh(two, f"sudo -u regatta timeout 60 ls {POINT}", check=False)
            assert said.returncode not in (0, 124), "a call while the head is away ends, with an error"
        finally:
            struck.lab.on(one)
        wait_for(lambda: "wrote" in writer.said().rpartition("refused")[2], 90)
        message = re.findall("refused (.*)", writer.said())[0]
        assert is_whole(struck.lab, one, f"{DATA}/fault/head/whole")
    whole(struck)
    tell.end("what is written meanwhile fails; what was renamed into place is whole; the next call works", message)


@pytest.mark.whole
def test_a_host_boots_while_the_head_is_away(struck: Cluster, tell: Teller) -> None:
    """Nothing that a run would write lands on its own disks."""
    tell.begin("shared", "a host boots while the head is away", "-")
    one, two, _ = struck.lab.nodes
    struck.lab.off(one, two)
    try:
        struck.lab.on(two)
        said = struck.lab.ssh(two, f"sudo -u regatta timeout 60 touch {POINT}/lost", check=False)
        assert said.returncode not in (0, 124), said.stderr
    finally:
        struck.lab.on(one)
        struck.fab("up")
    wait_for(lambda: struck.lab.ssh(two, f"sudo -u regatta touch {POINT}/found", check=False).returncode == 0, 60)
    assert struck.lab.ssh(one, f"sudo -u regatta ls {POINT}").stdout.count("found") == 1
    struck.lab.ssh(one, f"sudo rm {DATA}/found")
    whole(struck)
    message = said.stderr.strip().rpartition(": ")[2]
    tell.end("it boots; writing fails until the head is there, and lands on none of its disks", message)


@pytest.mark.whole
def test_a_worker_is_cut_off_in_the_middle_of_a_write(struck: Cluster, tell: Teller) -> None:
    tell.begin("shared", "a worker is cut off in the middle of a write, until SSH gives it up", "-")
    one, two, three = struck.lab.nodes
    with writing(struck.lab, two, "here") as here, writing(struck.lab, three, "cut") as cut:
        before, carried = here.written(), carriers(struck.lab, three)
        with kernel.bad_cable(struck.lab, three, **BOTH_SIDES):
            wait_for(lambda: here.written() > before + 50, 120)
            wait_for(lambda: not carried & carriers(struck.lab, three), 120)
            assert is_whole(struck.lab, one, f"{DATA}/fault/cut/whole")
        wait_for(lambda: "refused" in cut.said(), 90)
        wait_for(lambda: "wrote" in cut.said().rpartition("refused")[2], 90)
        message = re.findall("refused (.*)", cut.said())[0]
        assert "refused" not in here.said()
        for name in ("here", "cut"):
            assert is_whole(struck.lab, one, f"{DATA}/fault/{name}/whole")
    whole(struck)
    tell.end("what it writes meanwhile fails; the others continue; with its network it works again", message)


@pytest.mark.whole
def test_the_disk_of_the_head_gets_full(struck: Cluster, tell: Teller) -> None:
    """A file system of 10 MB below the folder, in which the second file of 4 MB after the first has no space."""
    tell.begin("shared", "the head's disk fills up while a worker writes", "-")
    one, two, _ = struck.lab.nodes
    folder, size = f"{DATA}/fault/full", 6_000_000
    mount = (
        f"install -d -o regatta {DATA}/fault {folder} && mount -t tmpfs -o size=10m,uid=$(id -u regatta) none {folder}"
    )
    struck.lab.ssh(one, f"sudo sh -c '{mount}'")
    writer = Writer(struck.lab, two, f"{POINT}/fault/full", size)
    try:
        wait_for(lambda: "refused" in writer.said(), 60)
        message = re.findall("refused (.*)", writer.said())[0]
        assert is_whole(struck.lab, one, f"{folder}/whole", size)
        assert is_whole(struck.lab, two, f"{POINT}/fault/full/whole", size)
        struck.lab.ssh(one, f"sudo mount -o remount,size=100m {folder}")
        wait_for(lambda: "wrote" in writer.said().rpartition("refused")[2], 60)
    finally:
        writer.end()
        struck.lab.ssh(one, f"sudo umount -l {folder}; sudo rm -r {DATA}/fault", check=False)
    whole(struck)
    tell.end("writing fails; what was renamed into place is whole; with space it works again", message)


@pytest.mark.whole
def test_twenty_nodes_write_at_once(make_lab: Callable[..., LabHandle], tell: Teller) -> None:
    """Bare hosts with what the folder needs and nothing else."""
    tell.begin("shared", "20 nodes write 8 files of 4 MB each at once", "-")
    lab = make_lab(nodes=20)
    try:
        chosen = inventories.load(str(lab.inventory))
        book = "../../tests/lab/faults/shared_alone"
        assert playbook.play(book, lab.inventory, chosen, []) == 0
        with ThreadPoolExecutor(len(lab.nodes)) as pool:
            writers = list(pool.map(lambda node: Writer(lab, node, f"{POINT}/all/{node}", most=8), lab.nodes))
            wait_for(lambda: all(pool.map(lambda writer: "done" in writer.said(), writers)), 300)
            said = list(pool.map(lambda writer: writer.said(), writers))
            assert [text.count("wrote") for text in said] == [8] * 20, said
            assert all(pool.map(lambda node: is_whole(lab, node, f"{POINT}/all/{node}/whole"), lab.nodes))
            other = dict(zip(lab.nodes, [*lab.nodes[1:], lab.nodes[0]], strict=True))
            assert all(pool.map(lambda node: is_whole(lab, node, f"{POINT}/all/{other[node]}/whole"), lab.nodes))
    finally:
        lab.down()
    tell.end("all of them are written, and each node reads those of another")


@pytest.mark.whole
def test_ten_generations_while_hosts_are_lost(struck: Cluster, project: Path, tell: Teller) -> None:
    """A rank is killed in seven of them, a host is lost in two."""
    tell.begin("shared", "ten generations: seven ranks are killed, two hosts lost (`--restarts 9 --elastic`)", "torch")
    _, two, three = struck.lab.nodes
    (project / "lasts.py").write_text(LASTS)
    name = new_name()
    words = ["torchrun", "--workers=3", "--restarts=9", "--elastic", "--launcher=c10d", f"--name={name}", "lasts.py"]
    process = struck.background(project, *words)
    said = ""
    try:
        for generation, node in ((4, three), (8, two)):
            said += read_until(process, f"generation {generation} has kept")
            struck.lab.off(node)
        said += process.communicate(timeout=300)[0]
    finally:
        process.kill()
        struck.lab.on(two, three)
        wait_for(lambda: all(struck.lab.ssh(node, "true", check=False).returncode == 0 for node in (two, three)), 60)
    assert process.returncode == 0, said
    begun = re.findall(r"generation (\d+) begins at epoch (\d+) with (\d) ranks", said)
    assert [int(number) for number, _, _ in begun] == list(range(1, GENERATIONS + 1)), said
    epochs = [int(epoch) for _, epoch, _ in begun]
    assert epochs[0] == 0 and all(later >= earlier + 3 for earlier, later in pairwise(epochs)), said
    ((last, total),) = re.findall(r"ended at epoch (\d+) with (\d+)", said)
    assert int(total) == sum(range(int(last))), "an epoch was lost, or done twice"
    whole(struck)
    next_run(struck, project, "torch")
    nothing_left(struck, project)
    tell.end("each continues from the last epoch that the one before it has kept")
