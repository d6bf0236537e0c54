"""The first programs of a course on Ray, in their shape: chain and tree of tasks, objects, an actor, a pool.

Each prints its name and what it found.
"""

import time

import ray
from ray.util.multiprocessing import Pool

BELOW = 500


@ray.remote
def add(one: int, other: int) -> int:
    time.sleep(0.05)
    return one + other


@ray.remote
class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, more: int) -> int:
        self.count += more
        return self.count


@ray.remote
def perfect_task(number: int) -> bool:
    return perfect(number)


def perfect(number: int) -> bool:
    return number > 1 and number == sum(part for part in range(1, number) if number % part == 0)


def chain(numbers: list[int]) -> int:
    """Seven additions, each of which needs the one before."""
    total, *rest = numbers
    for number in rest:
        total = add.remote(total, number)
    return ray.get(total)


def tree(numbers: list[int]) -> int:
    """Seven additions in three layers."""
    while len(numbers) > 1:
        numbers = [add.remote(numbers[at], numbers[at + 1]) for at in range(0, len(numbers), 2)]
    return ray.get(numbers[0])


def slices(edge: int) -> int:
    """The sum of i x j x k, with i in tasks."""

    @ray.remote
    def plane(i: int) -> int:
        return sum(i * j * k for j in range(edge) for k in range(edge))

    return sum(ray.get([plane.remote(i) for i in range(edge)]))


def main() -> None:
    ray.init()
    print("chain", chain([*range(1, 9)]))
    print("tree", tree([*range(1, 9)]))
    counter = Counter.remote()
    print("actor", ray.get([counter.add.remote(2) for _ in range(3)]))
    stored = ray.put([*range(1000)])
    done, left = ray.wait([add.remote(1, 2), add.remote(3, 4)], num_returns=2)
    print("objects", sum(ray.get(stored)), sorted(ray.get(done)), left)
    found = ray.get([perfect_task.remote(number) for number in range(BELOW)])
    print("tasks", [number for number in range(BELOW) if found[number]])
    with Pool() as pool:
        print("pool", [number for number, one in enumerate(pool.map(perfect, range(BELOW))) if one])
    print("cube", slices(12))


if __name__ == "__main__":
    main()
