"""One bench at a time on a cluster; who holds it is said."""

import contextlib
import getpass
import os
import platform
from datetime import datetime, timezone

from regatta.errors import BusyError, RegattaError
from regatta.hosts.channel import Stream
from regatta.hosts.remote import Remote


def who(plan: str) -> str:
    """What others are told of this bench."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"user {os.getuid()}"
    began = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    return f"{user} on {platform.node()} (process {os.getpid()}), plan {plan}, since {began} UTC"


class BenchLock:
    """The cluster's lock, held at its head within `with`; it ends with this process, however that ends."""

    def __init__(self, remote: Remote, plan: str) -> None:
        self.remote = remote
        self.plan = plan
        self._stream: Stream | None = None

    def __enter__(self) -> "BenchLock":
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def take(self) -> None:
        """Take the lock, also again after the head was away. Raises BusyError, RemoteError."""
        self.leave()
        cluster = self.remote.cluster
        self._stream = self.remote.stream(cluster.head, "bench.lock", who=who(self.plan))
        answer = next(iter(self._stream))
        if "taken" in answer:
            self.leave()
            raise BusyError(
                f"{cluster.name} is being benched by {answer['taken']}. Two benches at once would time each other: "
                f"wait for its end, or end it there with Ctrl-C"
            )

    def leave(self) -> None:
        """Let others have it."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with contextlib.suppress(OSError, RegattaError):
                stream.close()
