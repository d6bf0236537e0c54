"""TensorFlow's ranks: how they meet by the TF_CONFIG of their environment, add up tensors, and gather answers."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from workloads.common.events import BadInput

CONFIG = "TF_CONFIG"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}
"""For TensorFlow, before it is imported: only warnings and errors."""


class _State:
    strategy: Any = None


def imported() -> Any:
    """TensorFlow, which is imported now if it is not yet, with the threads of ``OMP_NUM_THREADS`` for an operation.

    Raises :class:`BadInput` where it is not there.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import tensorflow
    except ImportError as error:
        raise BadInput(f"TensorFlow cannot be imported ({error}): the run needs the package tensorflow-cpu") from error
    tensorflow.get_logger().setLevel("WARNING")
    threads = int(os.environ.get("OMP_NUM_THREADS") or 0)
    with contextlib.suppress(RuntimeError):  # it has begun to compute
        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(2)
    return tensorflow


@contextlib.contextmanager
def met() -> Iterator[None]:
    """Wait for all ranks, in a MultiWorkerMirroredStrategy; `summed` and `gathered` then are over all of them.

    Raises :class:`BadInput` where nothing has set ``TF_CONFIG``.
    """
    if not os.environ.get(CONFIG):
        raise BadInput(f"ranks of TensorFlow find each other by {CONFIG}, which Regatta and Ray Train set")
    tensorflow = imported()
    _State.strategy = tensorflow.distribute.MultiWorkerMirroredStrategy()
    gathered(None)  # the first collective makes the connections
    try:
        yield
    finally:
        _State.strategy = None


def run(function: Any, *tensors: Any) -> Any:
    """In a graph, call a function of tensors so that `summed` works in it: where ranks have met, as their replica."""
    return _State.strategy.run(function, args=tensors) if _State.strategy else function(*tensors)


def summed(tensors: Sequence[Any]) -> list[Any]:
    """The sums of tensors over all ranks, within `run`."""
    if not _State.strategy:
        return list(tensors)
    tensorflow = imported()
    here = [tensorflow.identity(tensor) for tensor in tensors]  # on a device: arguments of a graph have none yet
    return list(tensorflow.distribute.get_replica_context().all_reduce(tensorflow.distribute.ReduceOp.SUM, here))


def gathered(answer: Any) -> list[Any]:
    """Return what each rank gives, by rank, on all of them; it can be pickled."""
    if not _State.strategy:
        return [answer]
    own = pickle.dumps(answer)
    lengths = _every([len(own)])[:, 0]
    rows = _every([*own, *bytes(int(max(lengths)) - len(own))])
    return [pickle.loads(bytes(row[:length].tolist())) for row, length in zip(rows, lengths, strict=True)]


def _every(numbers: list[int]) -> Any:
    """Whole numbers of each rank, as many on all of them, by rank: the sum of tables which have a rank's row each."""
    tensorflow = imported()
    rank = int(json.loads(os.environ[CONFIG])["task"]["index"])
    table = [numbers if one == rank else [0] * len(numbers) for one in range(_State.strategy.num_replicas_in_sync)]
    together = tensorflow.function(lambda own: run(lambda one: summed([one])[0], own), autograph=False)
    return together(tensorflow.constant(table, tensorflow.int32)).numpy()
