"""Calls to a store: each with a deadline, tried again while what fails may pass, and reads made in advance."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from workloads.common.storage.errors import StorageError, translate
from workloads.common.threads import in_order

Made = TypeVar("Made")

FIRST_PIECE_BYTES = 256 << 10
PIECE_BYTES = 2 << 20
AHEAD_PIECES = 8
AHEAD_THREADS = 3


def within(seconds: float, call: Callable[[], Made]) -> Made:
    """Return what `call` returns or raises; TimeoutError where it takes longer, and it is left to itself."""
    result: list[Made] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            result.append(call())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not result:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return result[0]


def again(
    call: Callable[[], Made],
    url: str,
    step: str,
    seconds: float,
    tries: int = 1000,
    explain: Callable[[BaseException, str, str], StorageError] = translate,
) -> Made:
    """Call until it succeeds, as long as what fails may pass by what `explain` makes of it, for `seconds` at most.

    Raises StorageError.
    """
    end = time.monotonic() + seconds
    pause = 0.3
    while True:
        tries -= 1
        try:
            return call()
        except Exception as error:
            found = explain(error, url, step)
            if not found.passing or not tries or time.monotonic() + pause > end:
                if found is error:
                    raise
                raise found from error
        time.sleep(pause)
        pause = min(2 * pause, 4.0)


def read_ahead(
    read: Callable[[int, int], bytes],
    start: int,
    end: int,
    piece_bytes: int = PIECE_BYTES,
    threads: int = AHEAD_THREADS,
) -> Iterator[bytes]:
    """The bytes [start, end) in order, in pieces that `threads` read in advance by offset and length."""
    pool = ThreadPoolExecutor(threads)
    try:
        pieces = _pieces(start, end, piece_bytes)
        yield from in_order(pool, lambda piece: read(*piece), pieces, AHEAD_PIECES)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _pieces(start: int, end: int, piece_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges (offset, length) that make up [start, end); small ones first, for those who only look at the beginning."""
    size = FIRST_PIECE_BYTES
    while start < end:
        yield start, min(size, end - start)
        start += size
        size = min(2 * size, piece_bytes)
