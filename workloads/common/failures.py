"""A rank that fails, as the driver tells of it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from workloads.common import events


class WorkerFailed(Exception):
    """A rank has no node, died or raised; the message names its rank and node. `log` is what else its node says.

    `rank` and the `address` of its host are None where they are not known.
    """

    def __init__(self, message: str, log: str = "", rank: int | None = None, address: str | None = None) -> None:
        super().__init__(message)
        self.log, self.rank, self.address = log, rank, address


@contextlib.contextmanager
def said() -> Iterator[None]:
    """Tell of a failed rank at once, since leaving the others takes its time, and end the process with status 1."""
    try:
        yield
    except WorkerFailed as failed:
        print(failed.log or failed, file=sys.stderr, flush=True)
        if failed.rank is not None:
            events.failed(failed.rank, failed.address, failed.log or str(failed))
        events.warning(str(failed))
        sys.exit(1)
