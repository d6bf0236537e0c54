"""Parts in ranks that TorchDistributor starts: this process is Spark's driver, rank -1."""

from __future__ import annotations

import contextlib
import io
import os
import queue
import secrets
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from regatta_protocol.events import Ready
from regatta_protocol.log import PREFIX
from workloads.common import events, failures
from workloads.common.events import BadInput
from workloads.common.failures import WorkerFailed
from workloads.common.part import MakePart
from workloads.common.ranks import group_timeout
from workloads.common.spark import eventlog, rank, wire
from workloads.common.spark.wire import Word

POLL_SECONDS = 0.2
GRACE_SECONDS = 1.0
"""A rank that dies may be heard of after its peers' complaint that it is gone: so long its death is waited for."""
SETTINGS = {
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "15",
}
"""A training is not begun again by Spark: a rank that fails ends the run, as under torch."""


@contextlib.contextmanager
def answers(make: MakePart, restarts: int) -> Iterator[Sequence[Any]]:
    """Run the parts by TorchDistributor, ``REGATTA_WORKERS`` of them, and give their answers by rank.

    Raises :class:`BadInput` as the parts do. When a rank fails, says which, and ends the process with status 1.
    """
    if restarts:
        raise BadInput("--restarts: under spark nothing starts lost ranks again; take torch or ray, or leave it out")
    events.set_rank(events.DRIVER)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(Plain(sys.stdout)))
        with events.phase("rendezvous"):
            session = stack.enter_context(_session())
            ears = stack.enter_context(wire.listening(session.conf.get("spark.driver.host")))
            stack.enter_context(failures.said())
            run = _Run(session, make, ears)
            run.wait_for("ready")
        events.ready()
        run.wait_for("done")
        with events.phase("collect"):
            gathered = run.answers()
        events.used()
        yield gathered


class Plain(io.TextIOBase):
    """Standard output for what ranks print, which TorchDistributor believes of whoever sends it: none is an event."""

    def __init__(self, out: Any) -> None:
        self._out = out

    def write(self, text: str) -> int:
        """Write text, in which nothing begins as an event does."""
        self._out.write(text.replace(PREFIX.strip(), "regatta:"))
        return len(text)

    def flush(self) -> None:
        """Write what waits."""
        self._out.flush()

    def fileno(self) -> int:
        """Return where events go by themselves."""
        return int(self._out.fileno())


@contextlib.contextmanager
def _session() -> Iterator[Any]:
    """A session of Spark. Raises :class:`BadInput` where there is none."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise BadInput("this cluster has no Spark: set spark_enabled: true and provision") from None
    builder = SparkSession.builder
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    asked = time.time()
    session = builder.getOrCreate()
    with eventlog.told(session.stop, session.sparkContext, asked):
        yield session


class _Run:
    """TorchDistributor's `run` in a thread, while the driver repeats what the ranks say."""

    def __init__(self, session: Any, make: MakePart, ears: wire.Ears) -> None:
        from pyspark.ml.torch.distributor import TorchDistributor

        self._world = int(os.environ.get("REGATTA_WORKERS") or session.sparkContext.defaultParallelism)
        self._said: dict[str, set[int | None]] = {"ready": set(), "done": set()}
        self._ears = ears
        self._error: BaseException | None = None
        self._answers: list[Any] = []
        _wait_for_slots(session.sparkContext, self._world)
        distributor = TorchDistributor(num_processes=self._world, local_mode=False, use_gpu=False)
        token = secrets.token_hex(8)

        def run() -> None:
            try:
                self._answers = distributor.run(rank.work, make, ears.place, token)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def wait_for(self, what: str) -> None:
        """Return when every rank has sent it. Raises :class:`WorkerFailed` and :class:`BadInput`."""
        while len(self._said[what]) < self._world:
            self._turn(POLL_SECONDS)
            if not self._thread.is_alive():
                self._end()
                return

    def answers(self) -> list[Any]:
        """The answers, by rank, once TorchDistributor has brought them."""
        while self._thread.is_alive():
            self._turn(POLL_SECONDS)
        self._end()
        return self._answers

    def _end(self) -> None:
        """Hear what ranks have said until their end, and why Spark gave them up, if it did."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._ears.words.get_nowait())
        if self._error is not None:
            end = time.monotonic() + GRACE_SECONDS
            while (left := end - time.monotonic()) > 0:
                self._turn(left)
            first = str(self._error).strip().partition("\n")[0]
            raise WorkerFailed(f"Spark gave the training up: {first}", str(self._error))

    def _turn(self, seconds: float) -> None:
        with contextlib.suppress(queue.Empty):
            self._take(self._ears.words.get(timeout=seconds))

    def _take(self, word: Word) -> None:
        if word.kind == "event":
            if isinstance(word.value, Ready):
                self._said["ready"].add(word.rank)
            events.replay([word.value])
        elif word.kind == "done":
            self._said["done"].add(word.rank)
        elif word.kind == "refused":
            raise BadInput(word.value)
        elif word.kind != "came":
            raise explained(self._first(word))

    def _first(self, failed: Word) -> Word:
        """Which rank ended the others: one that died, else the one that was heard of first."""
        end = time.monotonic() + GRACE_SECONDS
        while failed.kind != "died" and (left := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                word = self._ears.words.get(timeout=left)
                if word.kind == "refused":
                    raise BadInput(word.value)
                failed = word if word.kind == "died" else failed
        return failed


def explained(failed: Word) -> WorkerFailed:
    """Which rank failed, where and why. The last line of its words says in which executor of Spark."""
    name = "a rank" if failed.rank is None else f"rank {failed.rank}"
    words = str(failed.value or "").strip()
    if failed.kind == "died":
        how = "its process died: it was killed, or ended without a word"
    else:
        how = (words.splitlines() or ["it failed without a word"])[-1]
    how = f"executor {failed.executor}: {how}" if failed.executor else how
    where = f"{name} on {failed.address or 'an unknown host'} failed: {how}"
    return WorkerFailed(where, f"{words}\n{how}".strip(), failed.rank, failed.address)


def _wait_for_slots(context: Any, wanted: int) -> None:
    """Wait until Spark can begin all ranks at once, as long as ranks wait for each other. Raises WorkerFailed."""
    seconds = group_timeout().total_seconds()
    end = time.monotonic() + seconds
    inner = context._jsc.sc()
    profile = inner.resourceProfileManager().defaultResourceProfile()
    while (slots := int(inner.maxNumConcurrentTasks(profile))) < wanted:
        if time.monotonic() > end:
            raise WorkerFailed(
                f"Spark has given {slots} of {wanted} cores in {seconds:g} s, and ranks begin together: a rank takes a "
                "core of an executor, so there may be no more --workers than cores; or other runs have them"
            )
        time.sleep(POLL_SECONDS)
