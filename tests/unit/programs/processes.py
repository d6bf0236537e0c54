"""The first programs of a post on multiprocessing, in their shape: a loop, a process for each item, join, a pool."""

import time
from multiprocessing import Pool, Process, Queue

BELOW = 500


def perfect(number: int) -> bool:
    return number > 1 and number == sum(part for part in range(1, number) if number % part == 0)


def tell(number: int, found: "Queue[int]") -> None:
    if perfect(number):
        found.put(number)


def nap(seconds: float) -> None:
    time.sleep(seconds)


def in_processes(numbers: list[int]) -> list[int]:
    """A process for each number."""
    found: Queue[int] = Queue()
    processes = [Process(target=tell, args=(number, found)) for number in numbers]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return sorted(found.get() for _ in range(found.qsize()))


def naps(*, join: bool) -> bool:
    """Two processes sleep; whether this one waited for them."""
    begun = time.monotonic()
    processes = [Process(target=nap, args=(0.5,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes if join else ():
        process.join()
    waited = time.monotonic() - begun >= 0.5
    for process in processes:
        process.join()
    return waited


def main() -> None:
    print("loop", [number for number in range(BELOW) if perfect(number)])
    print("processes", in_processes([6, 12, 28, 100, 496]))
    print("join", naps(join=True), naps(join=False))
    with Pool(2) as pool:
        print("pool", [number for number, one in enumerate(pool.map(perfect, range(BELOW))) if one])


if __name__ == "__main__":
    main()
