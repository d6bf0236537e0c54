"""A function over items, and what a worker does with a chunk of them, under any framework."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

SHOWN = 80
"""The number of an item's characters that are shown."""


@dataclass(frozen=True)
class Work:
    """`function` of each of the `items`, which do not depend on each other.

    The function and what it gives can be pickled, and so can the items. `prepare` loads what is heavy: it is called
    in the driver before workers start, which those that are forked have from there.
    """

    function: Callable[[Any], Any]
    items: Sequence[Any]
    prepare: Callable[[], object] | None = None


@dataclass(frozen=True)
class Task:
    """A chunk of the items, as one worker takes it: from number `first` on."""

    first: int
    items: Sequence[Any]


@dataclass(frozen=True)
class Fault:
    """The failure of one item: its number, the item, the exception, and its traceback."""

    number: int
    item: str
    words: str
    trace: str


@dataclass(frozen=True)
class Done:
    """A worker's answer to a task: the pickled list of its results, or the `fault` that ended it.

    `worker`: host and process. `cpu`: seconds that the task took of it; `peak`: the most memory it has had, in bytes.
    `address`: of its host in the cluster, where that may be another one than the driver's.
    """

    first: int
    count: int
    results: bytes
    fault: Fault | None
    worker: tuple[str, int]
    cpu: float
    peak: int
    address: str | None = None


@dataclass(frozen=True)
class Doing:
    """The function that workers call with each task. An item that raises is tried again `retries` times.

    `seconds`: an item that takes longer raises TimeoutError; 0: as long as it likes.
    """

    function: Callable[[Any], Any]
    retries: int = 0
    seconds: float = 0.0

    def __call__(self, task: Task) -> Done:
        """Apply the function to each item of the task, up to one that fails."""
        start, results, fault = time.process_time(), bytearray(), None
        made: list[Any] = []
        for number, item in enumerate(task.items, task.first):
            try:
                made.append(self._tried(item))
            except Exception as error:
                fault = _fault(number, item, error)
                break
        if fault is None:
            results, fault = _packed(task, made)
        cpu, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return Done(task.first, len(task.items), bytes(results), fault, this_process(), cpu, peak)

    def _tried(self, item: Any) -> Any:
        for _ in range(self.retries):
            try:
                return self._once(item)
            except Exception:
                traceback.print_exc()
        return self._once(item)

    def _once(self, item: Any) -> Any:
        if not self.seconds:
            return self.function(item)
        with _within(self.seconds):
            return self.function(item)


def tasks(items: Sequence[Any], chunk: int) -> Iterator[Task]:
    """The items in chunks of so many, the last one with what is left."""
    for first in range(0, len(items), chunk):
        yield Task(first, items[first : first + chunk])


def this_process() -> tuple[str, int]:
    """Host and number of this process."""
    return socket.gethostname(), os.getpid()


def shown(item: Any) -> str:
    """An item for a person, shortened."""
    text = repr(item)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _packed(task: Task, made: list[Any]) -> tuple[bytearray, Fault | None]:
    """The results, pickled here, where it can be said which of them cannot be."""
    try:
        return bytearray(pickle.dumps(made, pickle.HIGHEST_PROTOCOL)), None
    except Exception as error:
        for number, (item, one) in enumerate(zip(task.items, made, strict=True), task.first):
            try:
                pickle.dumps(one, pickle.HIGHEST_PROTOCOL)
            except Exception as own:
                return bytearray(), _fault(number, item, own, f"its result, {shown(one)}, cannot be pickled: ")
        return bytearray(), _fault(task.first, task.items[0], error, "the results of its chunk cannot be pickled: ")


def _fault(number: int, item: Any, error: Exception, before: str = "") -> Fault:
    words = f"{before}{type(error).__name__}: {error}"
    return Fault(number, shown(item), words, "".join(traceback.format_exception(error)))


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in here after so many seconds; only the main thread can be told so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        raise TimeoutError(f"took more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
