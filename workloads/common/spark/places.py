"""Which rank a process is that Spark has put somewhere."""

from __future__ import annotations

from collections.abc import Sequence

from workloads.common.ranks import Ranks


def numbered(found: Sequence[str], wanted: Sequence[str]) -> list[Ranks]:
    """The rank that each process is to be; `found`: the address of each one's host, `wanted`: that of each rank.

    Spark puts processes where cores are free. So each takes a rank that is wanted on its host, as long as there is one;
    what is left goes in turn.
    """
    free = list(range(len(found)))
    numbers: dict[int, int] = {}
    for process, address in enumerate(found):
        number = next((one for one in free if one < len(wanted) and wanted[one] == address), None)
        if number is not None:
            numbers[process] = number
            free.remove(number)
    for process in range(len(found)):
        if process not in numbers:
            numbers[process] = free.pop(0)
    made = []
    for process, address in enumerate(found):
        beside = sorted(numbers[other] for other, place in enumerate(found) if place == address)
        own = numbers[process]
        made.append(Ranks(own, len(found), beside.index(own), len(beside)))
    return made
