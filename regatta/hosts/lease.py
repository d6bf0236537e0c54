"""One command at a time changes or measures a cluster, whatever checkout or machine it comes from; messages name it."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

from regatta.errors import BusyError, RegattaError, RemoteError, UsageError
from regatta.hosts.channel import Stream
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote, ourselves
from regatta.program import option
from regatta_protocol.operations.hosts import Holder, HoldLease, LeaseWord

GONE_MINUTES = 20
"""Until a head notices that a connection is dead whose other end has said nothing any more (TCP's own limit, 16)."""


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr, flush=True)


class Lease:
    """The lease on a cluster, kept at its head within `with`; it ends with this process, however that ends.

    `breaks`: take it from whoever has it. `told` hears that it is lost, once. Where another user takes it away, this
    process gets SIGINT, as by Ctrl-C.
    """

    def __init__(
        self, remote: Remote, command: str, told: Callable[[str], object] = _warn, breaks: bool = False
    ) -> None:
        self.remote, self.command, self.told, self.breaks = remote, command, told, breaks
        self._stream: Stream[None, LeaseWord] | None = None
        self._watcher: threading.Thread | None = None

    def __enter__(self) -> "Lease":
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def take(self) -> None:
        """Take it, also again after the head was away. Raises BusyError, RemoteError."""
        self.leave()
        head = self.remote.cluster.head
        stream = self.remote.stream(head, HoldLease(_who(), self.command, self.breaks))
        lines = iter(stream)
        try:
            answer = next(lines)
        except BaseException:
            stream.close()
            raise
        if answer.taken:
            stream.close()
            raise BusyError(_taken(self.remote.cluster.name, answer.taken))
        self._stream = stream
        self._watcher = threading.Thread(target=self._watch, args=(stream, lines), daemon=True)
        self._watcher.start()

    def leave(self) -> None:
        """Let others have it."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with contextlib.suppress(OSError, RegattaError):
                stream.close()
        if self._watcher:
            self._watcher.join(1)

    def _watch(self, stream: Stream[None, LeaseWord], lines: Iterator[LeaseWord]) -> None:
        name, reason = self.remote.cluster.name, "its head has let it go"
        try:
            for line in lines:
                if line.broken:
                    self.told(f"{name}: another user has taken its lease away ({option(lease='break')}): ending")
                    os.kill(os.getpid(), signal.SIGINT)
                    return
        except (RegattaError, OSError, ValueError) as error:
            reason = str(error)
        if self._stream is stream:
            self.told(f"{name}: the lease on it is lost ({reason}); another command may begin there")


@contextlib.contextmanager
def held(cluster: Cluster, command: str, breaks: bool = False) -> Iterator[None]:
    """Hold the lease while a command changes the hosts, bare ones too. Raises BusyError.

    Where the head cannot be asked, a warning says that: whatever the command does there says what is wrong.
    """
    with contextlib.ExitStack() as stack:
        # Its own connection: provisioning ends those that it shares with Ansible.
        remote = Remote(cluster, accept_new=True, alone=True)
        try:
            stack.enter_context(Lease(remote, command, breaks=breaks))
        except RemoteError as error:
            _warn(f"{error}. So whether another command works on {cluster.name} is not known")
        yield


def may_break(given: str) -> bool:
    """Whether a lease is to be taken away. UsageError for a word that is not `break`."""
    if given not in ("", "break"):
        raise UsageError(f"a lease takes 'break' (from a command that is gone) or nothing, not '{given}'")
    return given == "break"


def _who() -> str:
    """Return what other controllers see of this process."""
    return f"{ourselves()} (process {os.getpid()})"


def _taken(cluster: str, holder: Holder) -> str:
    minutes, seconds = divmod(int(holder.seconds), 60)
    age = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    return (
        f"{cluster} is in use: {holder.command} by {holder.who}, for {age} now. Wait for its end, or end it "
        f"there with Ctrl-C. If that process is gone, its lease ends within {GONE_MINUTES} minutes, or at once if "
        f"you say the same with {option(lease='break')}. Nothing was changed"
    )
