"""Programs that hang, each in another way: what one rank does while the others wait for it, and how `why` names it."""

PROGRAM = """
import mmap, os, signal, socket, subprocess, sys, threading, time
import torch
import torch.distributed as dist

def loop():
    while True:
        pass

def lock():
    held = threading.Lock()
    held.acquire()
    held.acquire()

def two_locks():
    first, second = threading.Lock(), threading.Lock()
    def other():
        second.acquire()
        time.sleep(0.2)
        first.acquire()
    first.acquire()
    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    time.sleep(0.4)
    second.acquire()

def sleep():
    time.sleep(600)

def child():
    subprocess.run(["sleep", "600"])

def pipe():
    reader, writer = os.pipe()
    os.write(writer, b"x" * (1 << 20))

def server():
    taken = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(taken.getsockname()).recv(1)

def accept():
    socket.create_server(("127.0.0.1", 0)).accept()

def fifo():
    os.mkfifo("answers")
    open("answers").read()

def garbage():
    import gc
    kept = [[number] for number in range(3000000)]
    while True:
        gc.collect()

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 10
    def __getitem__(self, at):
        os.kill(os.getpid(), signal.SIGSTOP)
        return at

def loader():
    for _ in torch.utils.data.DataLoader(Slow(), num_workers=1):
        pass

def queue():
    import queue
    queue.Queue().get()

def event():
    threading.Event().wait()

def stop():
    os.kill(os.getpid(), signal.SIGSTOP)

def order():
    dist.broadcast(torch.ones(1), 0)

def branch():
    dist.barrier()

def alone():
    pass

def mapped():
    with open("big", "wb") as file:
        file.truncate(1 << 28)
    file = os.open("big", os.O_RDONLY)
    pages = mmap.mmap(file, 0, prot=mmap.PROT_READ)
    pages.madvise(mmap.MADV_RANDOM)
    while True:
        for at in range(0, len(pages), mmap.PAGESIZE):
            pages[at]
        pages.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

def disk():
    block, file = mmap.mmap(-1, 1 << 22), os.open("big", os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    while True:
        os.pwrite(file, block, 0)

def memory():
    kept = []
    while True:
        kept.append(b"x" * (1 << 20))
        time.sleep(0.01)

def served():
    open("/mnt/served/answers").read()

def hdfs():
    socket.create_connection((sys.argv[3], 9866)).recv(1)

def again():
    while True:
        dist.all_reduce(torch.ones(1))

dist.init_process_group("gloo")
print("begun", flush=True)
dist.all_reduce(torch.ones(1))
if sys.argv[1] == "again":
    again()
if dist.get_rank() == 1:
    globals()[sys.argv[1]]()
else:
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
    dist.all_reduce(torch.ones(1))
time.sleep(600)
"""
NOT_THERE = r"^rank 1 is not in the collective that ranks 0, 2 wait in \(all_reduce at train\.py:\d+\): on node2 it "
DIFFERENT = r"ranks 0, 2 in all_reduce at train\.py:\d+.*rank 1 in {}|rank 1 in {} at .*ranks 0, 2 in all_reduce"
KINDS = {
    "loop": NOT_THERE + r"computes at train\.py:\d+ \(loop\)",
    "lock": NOT_THERE + r"waits for a lock at train\.py:\d+ \(lock\)",
    "two_locks": NOT_THERE + r"waits for a lock at train\.py:\d+ \(two_locks\)",
    "sleep": NOT_THERE + r"sleeps at train\.py:\d+ \(sleep\)",
    "child": NOT_THERE + r"waits for its child process 'sleep 600' \(\d+\) at train\.py:\d+ \(child\), in run",
    "pipe": NOT_THERE + r"writes to a pipe \(\d+\) at train\.py:\d+ \(pipe\)",
    "server": NOT_THERE + r"reads from 127\.0\.0\.1:\d+ at train\.py:\d+ \(server\)",
    "accept": NOT_THERE + r"waits for connections at 127\.0\.0\.1:\d+ at train\.py:\d+ \(accept\), in socket\.accept",
    "fifo": NOT_THERE + r"opens answers at train\.py:\d+ \(fifo\)",
    "garbage": NOT_THERE + r"computes at train\.py:\d+ \(garbage\)",
    "loader": NOT_THERE + r"waits for .* at train\.py:\d+ \(loader\), in _BaseDataLoaderIter\.__next__",
    "queue": NOT_THERE + r"waits for a lock at train\.py:\d+ \(queue\), in Queue\.get",
    "event": NOT_THERE + r"waits for a lock at train\.py:\d+ \(event\), in Event\.wait",
    "alone": NOT_THERE + r"sleeps at train\.py:\d+",
    "mapped": NOT_THERE + r"reads its memory from the disk \(\d+ pages a second: .*\) at train\.py:\d+ \(mapped\)",
    "stop": r"^rank 1 is stopped by a signal at train\.py:\d+ \(stop\): 'kill -CONT \d+' on node2 continues it",
    "order": DIFFERENT.format("broadcast", "broadcast"),
    "branch": DIFFERENT.format("barrier", "barrier"),
}
IN_CI = ("sleep",)
RAY = """
import os, ray, time
ray.init()
@ray.remote(num_gpus=1)
def on_a_gpu():
    return 1
print("begun", flush=True)
ray.get(on_a_gpu.remote())
"""
MEMORY = NOT_THERE + r"waits for memory, as its limit is reached at train\.py:\d+ \(memory\)"
SLOW_DISK = NOT_THERE + r"(waits for a disk or a file server: \S*|writes to \S*)big at train\.py:\d+ \(disk\)"
SERVED = NOT_THERE + r"(waits for a disk or a file server: |opens )/mnt/served/answers at train\.py:\d+ \(served\)"
HDFS = NOT_THERE + r"reads from [\d.]+:9866 at train\.py:\d+ \(hdfs\)"
THROTTLED = NOT_THERE + r".* at train\.py:\d+ \(loop\).*; on node2 its limit of CPU holds the run back"
CROWDED = NOT_THERE + r".* at train\.py:\d+ \(loop\).*; node2 has no core left: other processes use"
LOSSY = r"; node\d sends \d+% of TCP's segments again: its network loses packets"
CUT = r"the network does not carry their data: .*does not acknowledge what was sent"
HERE = """
import os
import torch.distributed as dist
os.environ["MASTER_ADDR"] = "localhost"
print("begun", flush=True)
dist.init_process_group("gloo")
"""
