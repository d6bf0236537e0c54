"""python -m benchmarks.shared_folder INVENTORY: the shared folder beside a local disk, HDFS, and rsync to the head.

On the last worker: a checkpoint of 500 MB in one file, and 5,000 files of 1 kB, written (until the disk has them, where
the way there can say so) and read, in turns, three times; medians. What has just been written may be read from memory.
"""

import json
import statistics
import subprocess
import sys

from benchmarks.shell import BenchError
from regatta.hosts import inventories
from regatta.hosts.remote import Remote

ROUNDS = 3
SCRIPT = """
import json, os, shutil, subprocess, sys, time
state, head = sys.argv[1:]
local, shared, far = f"{state}/home/.bench", f"{state}/shared/.bench", f"{state}/home/.bench-rsync"
HDFS, SSH = "/opt/regatta/hadoop/bin/hdfs", ["ssh", head]
block = os.urandom(1 << 20)

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

def read(folder):
    for name in os.listdir(folder):
        with open(f"{folder}/{name}", "rb") as file:
            while file.read(1 << 20):
                pass

def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

def seconds(work, *words):
    began = time.perf_counter()
    work(*words)
    return time.perf_counter() - began

def anew(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)

def clear():
    for folder in (local, shared):
        shutil.rmtree(folder, ignore_errors=True)
    run(*SSH, "rm", "-rf", far)
    run(HDFS, "dfs", "-rm", "-r", "-f", "-skipTrash", "/tmp/.bench")

found = {}
for what, write in (("500 MB", large), ("5,000 files", small)):
    clear()
    for name, folder in (("local disk", local), ("shared folder", shared)):
        anew(folder)
        found[f"{what}, {name}"] = [seconds(write, folder), seconds(read, folder)]
    back = f"{state}/home/.bench-back"
    anew(back)
    put = seconds(run, HDFS, "dfs", "-put", local, "/tmp/.bench")
    found[f"{what}, HDFS (hdfs dfs)"] = [put, seconds(run, HDFS, "dfs", "-get", "/tmp/.bench", f"{back}/hdfs")]
    put = seconds(run, "rsync", "-r", f"{local}/", f"{head}:{far}/")
    found[f"{what}, rsync to the head"] = [put, seconds(run, "rsync", "-r", f"{head}:{far}/", f"{back}/rsync/")]
    shutil.rmtree(back)
clear()
print(json.dumps(found))
"""


def main() -> None:
    """Prints the figures."""
    cluster = inventories.load(sys.argv[1])
    node = next((one for one in reversed(cluster.workers) if one != cluster.head), None)
    if node is None:
        raise BenchError("this needs a worker beside the head")
    remote = Remote(cluster)
    taken: dict[str, list[list[float]]] = {}
    for _ in range(ROUNDS):
        words = [*remote.ssh(node), remote.destination(node), "sudo", "-u", "regatta", node.python, "-", node.state]
        done = subprocess.run([*words, cluster.head.name], input=SCRIPT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"{node.name}: {done.stderr.strip()}")
        for name, pair in json.loads(done.stdout).items():
            taken.setdefault(name, []).append(pair)
    for name, pairs in taken.items():
        written, read = (statistics.median(pair[number] for pair in pairs) for number in (0, 1))
        print(f"{name:32} written in {written:6.2f} s, read in {read:6.2f} s")


if __name__ == "__main__":
    main()
