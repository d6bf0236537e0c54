"""Commands made from declared options, and the cluster that they are about."""

import contextlib
import fcntl
import inspect
import os
import select
import stat
import struct
import termios
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from regatta.errors import NodesError, RunError
from regatta.options.option import Option
from regatta.program import hint
from regatta.tasks.common import task

if TYPE_CHECKING:
    from regatta.api.cluster import Cluster
    from regatta.hosts import cluster
    from regatta_protocol.operations.queue import Submitted

SCRIPT = Option("Python script of this tree; all words after it are its own")


@contextlib.contextmanager
def opened(inventory: str | None = None, **chosen: Any) -> Iterator["Cluster"]:
    """A cluster, or its `chosen` hosts, whose runs are shown on a console that is left as it was found."""
    from regatta.api.cluster import Cluster
    from regatta.terminal.console import Console

    with Console() as console, Cluster(inventory, console=console, **chosen) as made:
        yield made


@contextlib.contextmanager
def advising(used: "cluster.Cluster") -> Iterator[None]:
    """Say how to run without hosts that do not answer, where nothing can be started because of them."""
    from regatta.hosts import selection

    try:
        yield
    except NodesError as error:
        if advice := selection.hint(error, used):
            raise RunError(f"{error}\n{advice}") from None
        raise


def tell_of_input(say: Callable[[str], None]) -> None:
    """Say that a run does not read what was piped into this program."""
    if _has_input(0):
        say(
            "a run has no standard input: what was piped in here is not read. Put it in a file of the tree, or give it "
            "as an argument of the script"
        )


def tell_of_queued(run: str, queued: "Submitted") -> None:
    """Say what is ahead of a run in the queue, and how to see it."""
    ahead = [one.run for one in queued.ahead]
    more = [f"{len(ahead) - 3} more"] if len(ahead) > 3 else []
    behind = f", behind {', '.join([*ahead[:3], *more])}" if ahead else ""
    print(f"{run}: queued{behind}. It continues without this program: {hint('queue')}, {hint('attach', run)}")


def _has_input(descriptor: int) -> bool:
    """Whether something can be read there that was not typed."""
    with contextlib.suppress(OSError, ValueError):
        info = os.fstat(descriptor)
        if stat.S_ISREG(info.st_mode):
            return os.lseek(descriptor, 0, os.SEEK_CUR) < info.st_size
        if stat.S_ISFIFO(info.st_mode) and select.select([descriptor], [], [], 0)[0]:
            (waiting,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))
            return bool(waiting)
    return False


def command(
    name: str,
    about: str,
    options: Mapping[str, Option],
    body: Callable[[dict[str, Any]], None],
    *,
    positional: Mapping[str, Option] | None = None,
    script: bool = False,
) -> Any:
    """A task with these options as flags; `body` gets what was typed, by name. `script`: it runs one, its last word."""
    words = {**(positional or {}), **({"script": SCRIPT} if script else {})}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter("c", kind),
        *(inspect.Parameter(word, kind) for word in words),
        *(inspect.Parameter(name, kind, default=False if one.kind.switch else None) for name, one in options.items()),
    ]

    def typed(c: Any, **given: Any) -> None:
        body(given)

    typed.__doc__ = about
    typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    help = {name.rstrip("_").replace("_", "-"): one.about for name, one in {**words, **options}.items() if one.about}
    many = [name for name, one in options.items() if one.kind.many]
    return task(name=name, help=help, runs_script=script, positional=[*words], iterable=many)(typed)
