"""Programs to strike: three ranks that do something together until a file on their host tells one what to do."""

import shutil
from pathlib import Path

from lab.model import PROJECT

_STRIKES = """\
import os, signal, sys, time

def struck(order):
    if not os.path.exists(order):
        return
    word = open(order).read().strip()
    if word == "exit":
        os._exit(1)
    if word == "raise":
        raise ValueError("the rank was told to fail")
    if word == "memory":
        held = []
        while True:
            held.append(b"x" * (1 << 25))
"""
_GREEDY = """\
import os, subprocess, sys, time
print("rank", os.environ["RANK"], "on its own", flush=True)
what = sys.argv[1]
if what == "memory":
    held = []
    while True:
        held.append(os.urandom(1 << 25))
if what == "processes":
    children = []
    while True:
        children.append(subprocess.Popen(["sleep", "600"]))
if what == "disk":
    with open("filling", "wb") as file:
        while True:
            file.write(os.urandom(1 << 18))
            file.flush()
if what == "log":
    while True:
        print("again and again " * 8)
"""
_TORCH = """\
import os, sys, time
import torch
import torch.distributed as dist
from strikes import struck
dist.init_process_group("gloo")
rank, order, rounds = dist.get_rank(), sys.argv[1], int(sys.argv[2])
print(f"rank {rank} goes as {os.getpid()}", flush=True)
for step in range(rounds):
    struck(order)
    dist.all_reduce(torch.ones(1))
    time.sleep(0.05)
print("sum", step + 1, flush=True)
dist.destroy_process_group()
"""
_RAY = """\
import json, os, sys, time
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init()
order, rounds = sys.argv[1], int(sys.argv[2])

@ray.remote(num_cpus=0)
class Rank:
    def pid(self):
        return os.getpid()
    def step(self):
        from strikes import struck
        struck(order)
        time.sleep(0.05)
        return 1

there = {node["NodeManagerAddress"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}
places = json.loads(os.environ["REGATTA_RANK_MAP"])
ranks = [Rank.options(scheduling_strategy=On(there[at], soft=False)).remote() for at in places]
for rank, pid in enumerate(ray.get([one.pid.remote() for one in ranks])):
    print(f"rank {rank} goes as {pid}", flush=True)
total = 0
for _ in range(rounds):
    total += sum(ray.get([one.step.remote() for one in ranks])) // len(ranks)
print("sum", total, flush=True)
"""
_READ = """\
import hashlib, sys, time
from workloads.common import storage
digest = hashlib.sha256()
with storage.open(sys.argv[1]) as file:
    for piece in range(10**6):
        block = file.read(1 << 20)
        if not block:
            break
        digest.update(block)
        if piece % 10 == 0:
            print("reads", flush=True)
        time.sleep(0.04)
print("sum", digest.hexdigest(), flush=True)
"""
_RAYREAD = """\
import json, os, subprocess, sys
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init()

@ray.remote(num_cpus=0)
def read(words):
    process = subprocess.Popen([sys.executable, "torch_read.py", *words], stdout=subprocess.PIPE, text=True,
                               cwd=os.environ["REGATTA_RELEASE"])
    said = [print(line, end="", flush=True) or line for line in process.stdout]
    if process.wait():
        raise RuntimeError("the reader failed: " + "".join(said[-3:]))
    return said[-1].strip()

there = {node["NodeManagerAddress"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}
places = json.loads(os.environ["REGATTA_RANK_MAP"])
tasks = [read.options(scheduling_strategy=On(there[at], soft=False)).remote(sys.argv[1:]) for at in places]
for line in ray.get(tasks):
    print(line, flush=True)
"""


def write_project(folder: Path) -> Path:
    """Make the folder of scripts; it has the nodes' storage library with it, as one's own workload would."""
    folder.mkdir()
    files = {"strikes": _STRIKES, "torch_ranks": _TORCH, "ray_ranks": _RAY, "torch_read": _READ, "ray_read": _RAYREAD}
    files["greedy"] = _GREEDY
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    for tree in ("workloads/common", "regatta_protocol"):
        shutil.copytree(PROJECT / tree, folder / tree, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "workloads/__init__.py").touch()
    return folder
