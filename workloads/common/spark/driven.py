"""A part that only Spark's driver has: executors do its work, by its jobs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from workloads.common import events, failures
from workloads.common.events import BadInput
from workloads.common.failures import WorkerFailed
from workloads.common.items.gathering import workers
from workloads.common.part import SparkPart, steps
from workloads.common.spark import eventlog

SETTINGS = {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.locality.wait": "500ms"}
"""The first job waits for all executors, half a minute at most, so that the run is ready when they are.

After one is lost the others have what it had, and a free one soon reads it from there: by default each step would wait
3 s for the one that has it.
"""


@contextlib.contextmanager
def answers(part: SparkPart) -> Iterator[Sequence[Any]]:
    """Run the only part. Spark does again what a lost executor had. Raises :class:`BadInput` as the part does."""
    with contextlib.ExitStack() as stack:
        with events.phase("rendezvous"):
            context = stack.enter_context(joined(SETTINGS))
            stack.enter_context(failures.said())
            stack.enter_context(gives_up())
            part.over_spark(context, workers())
        events.ready()
        steps(part, None)
        with events.phase("collect"):
            answer = part.answer()
        yield [answer]


@contextlib.contextmanager
def joined(settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[Any]:
    """The driver's context, which ends its executors when it is left. `settings`: defaults."""
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError:
        raise BadInput("this cluster has no Spark: set spark_enabled: true and provision") from None
    conf = SparkConf()
    for name, value in settings.items():
        conf.setIfMissing(name, value)
    asked = time.time()
    context = SparkContext(conf=conf)
    with eventlog.told(context.stop, context, asked):
        yield context


@contextlib.contextmanager
def gives_up() -> Iterator[None]:
    """A job that Spark has given up is a worker that has failed."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as error:
        raise WorkerFailed(f"Spark gave the job up: {error.java_exception.getMessage()}") from None
    except PySparkException as error:
        raise WorkerFailed(f"Spark gave the job up: {error}") from None
