"""The present state of a run's processes on a node, and what its host does meanwhile.

A run may have written any of the texts, and believe what it likes of itself: who shows them makes them harmless.
"""

import re
from typing import Annotated, Any, Dict, Optional, Tuple

from regatta_protocol.decoding import AS_IT_IS
from regatta_protocol.value import Value

TIMED_OUT = re.compile(r"tim(ed|e)[- ]?out|failed to pass monitoredBarrier", re.IGNORECASE)
"""So a rank complains that others did not come."""
Text = Annotated[str, AS_IT_IS]


class Frame(Value):
    """A call in progress; `own`: in a file of the run's working directory, whose path is then relative to that."""

    name: Text = ""
    file: Text = ""
    line: int = 0
    own: bool = False


class Thread(Value):
    """A thread: its calls, the innermost first, and what the kernel does for it (see `Waiting`)."""

    name: Text = ""
    frames: Tuple[Frame, ...] = ()


class Waiting(Value):
    """The thing that a process's main thread waits for in the kernel.

    `what`: `sleep`, `lock`, `child`, `read`, `write`, `connect`, `accept`, `poll`, `disk`, `memory` (the limit of its
    unit), `stopped`, another name of a system call; empty where it computes. `on`: the pipe, file or address that it
    is about.
    """

    what: str = ""
    on: Text = ""


class Standing(Value):
    """A process of a run. `rank`: its own, or that of the rank that has started it. `main`: it is the rank itself.

    `state`: the kernel's letter. `cpu`: cores that it used while it was looked at. `faults`: pages of its memory that
    the kernel has read from a disk, each second. `links`: what its connections wait for. `unseen`: why its calls are
    not known.
    """

    pid: int = 0
    parent: int = 0
    rank: Optional[int] = None
    main: bool = False
    program: Text = ""
    state: str = ""
    cpu: float = 0.0
    faults: float = 0.0
    waiting: Waiting = Waiting()
    threads: Tuple[Thread, ...] = ()
    links: Tuple[Text, ...] = ()
    unseen: Text = ""


class Stood(Value):
    """All of a run on a node. `before`, `after`: counters of the host, as `regatta.node.sample.counters` has them.

    `limits`: what the run's unit has met: parts of 1 of its `memory`, of the time in which its CPU was `throttled`.
    `more`: how many further processes it has.
    """

    processes: Tuple[Standing, ...] = ()
    before: Dict[str, Any] = {}
    after: Dict[str, Any] = {}
    limits: Dict[str, float] = {}
    more: int = 0
