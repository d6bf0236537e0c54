"""python -m benchmarks.shared_folder INVENTORY [ROUNDS|costs [TURNS]]: the folder against others, or what it costs.

Compared with a local disk, HDFS, and rsync to the head, on the last worker: a checkpoint of 500 MB in one file, and
5,000 files of 1 kB, written (the large one until the disk has it, where the method can sync) and read, interleaved, so
many rounds (3); medians. Files that were just written may be read from memory. 5,000 files in HDFS take minutes: they
are measured only in the last round, and not by `hdfs dfs`.

`costs`: the cluster is provisioned without it and with it, in so many turns (2): from the one to the other, then again,
when nothing changes; then a run of nothing on each node is started four times. It ends as the inventory has it.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import shell
from benchmarks.shell import BenchError
from regatta import paths
from regatta.hosts import inventories
from regatta.hosts.remote import Remote
from regatta.records.store import Store

ROUNDS = 3
TURNS, RUNS = 2, 4
SCRIPT = """
import json, os, shutil, subprocess, sys, time
from hdfs_native import Client
state, head, last = sys.argv[1:]
local, shared, far = f"{state}/home/.bench", f"{state}/shared/.bench", f"{state}/home/.bench-rsync"
back = f"{state}/home/.bench-back"
HDFS, SSH = "/opt/regatta/hadoop/bin/hdfs", ["ssh", head]
block = os.urandom(1 << 20)
hdfs = Client(config_dir="/etc/regatta/hadoop")

def large(folder):
    with open(f"{folder}/large", "wb") as file:
        for _ in range(500):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())

def small(folder):
    for number in range(5000):
        with open(f"{folder}/{number}", "wb") as file:
            file.write(block[:1000])

def native_large(folder):
    with hdfs.create(f"{folder}/large") as file:
        for _ in range(500):
            file.write(block)

def native_small(folder):
    for number in range(5000):
        with hdfs.create(f"{folder}/{number}") as file:
            file.write(block[:1000])

def read(folder):
    for name in os.listdir(folder):
        with open(f"{folder}/{name}", "rb") as file:
            while file.read(1 << 20):
                pass

def native_read(folder):
    for info in hdfs.list_status(folder, False):
        with hdfs.read(info.path) as file:
            while file.read(1 << 20):
                pass

def run(*command):
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr}")

def seconds(work, *words):
    began = time.perf_counter()
    work(*words)
    return time.perf_counter() - began

def write_again(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)

def clear():
    for folder in (local, shared, back):
        shutil.rmtree(folder, ignore_errors=True)
    run(*SSH, "rm", "-rf", far)
    for folder in ("/tmp/.bench", "/tmp/.bench-native"):
        hdfs.delete(folder, True)

found = {}
for what, write, native in (("500 MB", large, native_large), ("5,000 files", small, native_small)):
    clear()
    for name, folder in (("local disk", local), ("shared folder", shared)):
        write_again(folder)
        found[f"{what}, {name}"] = [seconds(write, folder), seconds(read, folder)]
    write_again(back)
    put = seconds(run, "rsync", "-r", f"{local}/", f"{head}:{far}/")
    found[f"{what}, rsync to the head"] = [put, seconds(run, "rsync", "-r", f"{head}:{far}/", f"{back}/rsync/")]
    if write is small and last == "no":
        continue
    put = seconds(native, "/tmp/.bench-native")
    found[f"{what}, HDFS (hdfs-native)"] = [put, seconds(native_read, "/tmp/.bench-native")]
    if write is small:
        continue
    put = seconds(run, HDFS, "dfs", "-put", local, "/tmp/.bench")
    found[f"{what}, HDFS (hdfs dfs)"] = [put, seconds(run, HDFS, "dfs", "-get", "/tmp/.bench", f"{back}/hdfs")]
clear()
print(json.dumps(found))
"""


def places(inventory: str, rounds: int) -> None:
    """Print what it takes to write and to read in each place."""
    cluster = inventories.load(inventory)
    node = next((one for one in reversed(cluster.workers) if one != cluster.head), None)
    if node is None:
        raise BenchError("this needs a worker besides the head: add one to the inventory")
    remote = Remote(cluster)
    taken: dict[str, list[list[float]]] = {}
    for number in range(rounds):
        words = [*remote.ssh(node), remote.destination(node), "sudo", "-H", "-u", "regatta", node.python, "-"]
        last = "yes" if number + 1 == rounds else "no"
        done = subprocess.run(
            [*words, node.state, cluster.head.name, last], input=SCRIPT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise BenchError(f"{node.name}: {done.stderr.strip()}")
        for name, pair in json.loads(done.stdout.splitlines()[-1]).items():
            taken.setdefault(name, []).append(pair)
        print(f"{number + 1} of {rounds}: {done.stdout.splitlines()[-1]}", file=sys.stderr, flush=True)
    for name, pairs in taken.items():
        written, read = (statistics.median(pair[number] for pair in pairs) for number in (0, 1))
        print(f"{name:32} written in {written:6.2f} s, read in {read:6.2f} s")


def costs(inventory: str, turns: int) -> None:
    """Print what provisioning and a run's start take without and with it."""
    switched: dict[bool, list[float]] = {False: [], True: []}
    again: dict[bool, list[float]] = {False: [], True: []}
    launched: dict[bool, list[float]] = {False: [], True: []}
    ranks = str(len(inventories.load(inventory).workers))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "nothing.py").touch()
        for _ in range(turns):
            for there in (False, True):
                for taken in (switched, again):
                    taken[there].append(_provision(inventory, there).seconds)
                results = Path(tempfile.mkdtemp(dir=folder, prefix=".results-"))
                env = {"REGATTA_RESULTS": str(results), "REGATTA_INVENTORY": str(Path(inventory).resolve())}
                for _ in range(RUNS):
                    words = [Path(sys.executable).with_name("regatta"), "torchrun", f"--workers={ranks}", "nothing.py"]
                    shell.run(words, env=env, cwd=Path(folder))
                launched[there] += [one.phases.total for one in Store(results).list().records]
    rows = {"provision, from the other to this": switched, "provision, again": again, "a run of nothing": launched}
    for name, taken in rows.items():
        without, with_it = (statistics.median(taken[there]) for there in (False, True))
        every = "; ".join(" ".join(f"{one:.2f}" for one in taken[there]) for there in (False, True))
        print(f"{name:36} without {without:6.2f} s, with {with_it:6.2f} s ({every})")


def _provision(inventory: str, there: bool) -> shell.Done:
    program = [sys.executable, "-m", "regatta.provisioning.commands", "provision", "--inventory", inventory]
    env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return shell.run([*program, "-e", f"shared_folder_enabled={str(there).lower()}"], env=env, cwd=paths.PROJECT)


def main() -> None:
    """Prints the figures."""
    shell.interruptible()
    inventory, *words = sys.argv[1:]
    if words[:1] == ["costs"]:
        costs(inventory, int(words[1]) if words[1:] else TURNS)
    else:
        places(inventory, int(words[0]) if words else ROUNDS)


if __name__ == "__main__":
    main()
