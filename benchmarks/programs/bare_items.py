"""Perfect numbers under each framework of items, as people write it who know nothing of Regatta.

`bare_items.py FRAMEWORK BELOW CHUNK WORKERS` prints the seconds from when workers are ready until the last result is
there, and the perfect numbers, as JSON.
"""

import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Numbers = list[int]
Spread = Callable[[list[Numbers]], list[Numbers]]


def perfect(numbers: Numbers) -> Numbers:
    """Those that are the sum of their divisors."""
    found = []
    for number in numbers:
        total = 0
        for divisor in range(1, number):
            if number % divisor == 0:
                total += divisor
        if total == number:
            found.append(number)
    return found


def nothing(_: int) -> None:
    """Something to do for a worker that is to start."""
    time.sleep(0.2)


def _into(queue: "multiprocessing.Queue[tuple[int, Numbers]]", place: int, chunk: Numbers) -> None:
    queue.put((place, perfect(chunk)))


@contextmanager
def by_loop(_workers: int) -> Iterator[Spread]:
    """A plain loop."""
    yield lambda chunks: [perfect(chunk) for chunk in chunks]


@contextmanager
def by_pool(workers: int) -> Iterator[Spread]:
    """multiprocessing.Pool."""
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        pool.map(nothing, range(workers), chunksize=1)
        yield lambda chunks: pool.map(perfect, chunks, chunksize=1)


@contextmanager
def by_processes(workers: int) -> Iterator[Spread]:
    """A multiprocessing.Process for each chunk, so many at a time."""

    def spread(chunks: list[Numbers]) -> list[Numbers]:
        context = multiprocessing.get_context("fork")
        queue: multiprocessing.Queue[tuple[int, Numbers]] = context.Queue()
        found: dict[int, Numbers] = {}
        waiting, going = list(enumerate(chunks)), {}
        while waiting or going:
            while waiting and len(going) < workers:
                place, chunk = waiting.pop(0)
                going[place] = context.Process(target=_into, args=(queue, place, chunk))
                going[place].start()
            place, result = queue.get()
            found[place] = result
            going.pop(place).join()
        return [found[place] for place in range(len(chunks))]

    yield spread


@contextmanager
def by_joblib(workers: int, backend: str = "loky") -> Iterator[Spread]:
    """joblib.Parallel."""
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend, n_jobs=workers), Parallel(batch_size=1) as parallel:
        parallel(delayed(nothing)(number) for number in range(workers))
        yield lambda chunks: list(parallel(delayed(perfect)(chunk) for chunk in chunks))


@contextmanager
def _ray(workers: int) -> Iterator[None]:
    import ray

    ray.init(num_cpus=workers, include_dashboard=False)
    yield
    ray.shutdown()


@contextmanager
def by_ray(workers: int) -> Iterator[Spread]:
    """Ray, a task for each chunk."""
    import ray

    with _ray(workers):
        stand, task = ray.remote(nothing), ray.remote(perfect)
        ray.get([stand.remote(number) for number in range(workers)])
        yield lambda chunks: list(ray.get([task.remote(chunk) for chunk in chunks]))


@contextmanager
def by_ray_actors(workers: int) -> Iterator[Spread]:
    """Ray, an ActorPool."""
    import ray
    from ray.util import ActorPool

    class Worker:
        def perfect(self, numbers: Numbers) -> Numbers:
            return perfect(numbers)

    with _ray(workers):
        actors = [ray.remote(Worker).remote() for _ in range(workers)]
        ray.get([actor.perfect.remote([]) for actor in actors])
        pool = ActorPool(actors)
        yield lambda chunks: list(pool.map(lambda actor, chunk: actor.perfect.remote(chunk), chunks))


@contextmanager
def by_ray_pool(workers: int) -> Iterator[Spread]:
    """ray.util.multiprocessing.Pool."""
    from ray.util.multiprocessing import Pool

    with _ray(workers), Pool(workers) as pool:
        pool.map(nothing, range(workers), chunksize=1)
        yield lambda chunks: pool.map(perfect, chunks, chunksize=1)


@contextmanager
def by_joblib_ray(workers: int) -> Iterator[Spread]:
    """joblib.Parallel over Ray."""
    from ray.util.joblib import register_ray

    register_ray()
    with _ray(workers), by_joblib(workers, "ray") as spread:
        yield spread


@contextmanager
def by_dask(workers: int) -> Iterator[Spread]:
    """dask.distributed with its own processes."""
    from distributed import Client, LocalCluster

    settings = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(host="127.0.0.1", **settings) as cluster, Client(cluster) as client:
        client.wait_for_workers(workers)
        yield lambda chunks: list(client.gather(client.map(perfect, chunks, pure=False)))


@contextmanager
def by_mpi(workers: int) -> Iterator[Spread]:
    """mpi4py.futures.MPICommExecutor: `mpirun -n WORKERS+1`; rank 0 gives out the work."""
    from mpi4py.futures import MPICommExecutor

    with MPICommExecutor(root=0) as executor:
        if executor is not None:
            list(executor.map(nothing, range(workers)))
            yield lambda chunks: list(executor.map(perfect, chunks))
    if executor is None:
        sys.exit()


@contextmanager
def by_spark(workers: int) -> Iterator[Spread]:
    """Spark's RDD in this process and a JVM."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master(f"local[{workers}]").getOrCreate()
    context = session.sparkContext
    context.parallelize(range(workers), workers).foreach(nothing)
    yield lambda chunks: context.parallelize(chunks, len(chunks)).map(perfect).collect()
    session.stop()


def _serve(address: str) -> None:
    import zmq

    socket = zmq.Context().socket(zmq.REQ)
    socket.connect(address)
    socket.send_pyobj(None)
    while (asked := socket.recv_pyobj()) is not None:
        socket.send_pyobj((asked[0], perfect(asked[1])))


@contextmanager
def by_zeromq(workers: int) -> Iterator[Spread]:
    """A ROUTER of pyzmq, from which processes ask for chunks."""
    import zmq

    socket = zmq.Context().socket(zmq.ROUTER)
    address = f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"
    made = [multiprocessing.get_context("spawn").Process(target=_serve, args=(address,)) for _ in range(workers)]
    for process in made:
        process.start()
    idle = [socket.recv_multipart()[0] for _ in made]

    def give(name: bytes, value: object) -> None:
        import pickle

        socket.send_multipart([name, b"", pickle.dumps(value)])

    def spread(chunks: list[Numbers]) -> list[Numbers]:
        import pickle

        found: dict[int, Numbers] = {}
        waiting = list(enumerate(chunks))
        while len(found) < len(chunks):
            while idle and waiting:
                give(idle.pop(), waiting.pop(0))
            name, _, answer = socket.recv_multipart()
            place, result = pickle.loads(answer)  # of our own processes
            found[place] = result
            idle.append(name)
        return [found[place] for place in range(len(chunks))]

    yield spread
    for name in idle:
        give(name, None)
    for process in made:
        process.join()


FRAMEWORKS = {
    "single": by_loop,
    "multiprocessing": by_pool,
    "processes": by_processes,
    "joblib-loky": by_joblib,
    "zeromq": by_zeromq,
    "dask": by_dask,
    "mpi": by_mpi,
    "ray": by_ray,
    "ray-actors": by_ray_actors,
    "ray-pool": by_ray_pool,
    "joblib-ray": by_joblib_ray,
    "spark": by_spark,
}


def main() -> None:
    """Run with the arguments of the process."""
    framework, below, chunk, workers = sys.argv[1], *map(int, sys.argv[2:])
    numbers = range(1, below)
    chunks = [[*numbers[first : first + chunk]] for first in range(0, len(numbers), chunk)]
    with FRAMEWORKS[framework](workers) as spread:
        began = time.perf_counter()
        found = [number for one in spread(chunks) for number in one]
        print(json.dumps({"seconds": time.perf_counter() - began, "found": found}), flush=True)


if __name__ == "__main__":
    main()
