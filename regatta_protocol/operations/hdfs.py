"""HDFS, as its head and its DataNodes see it."""

from typing import Dict, Tuple

from regatta_protocol.operations.operation import Operation, Telling
from regatta_protocol.value import Value


class HdfsState(Value):
    """Addresses of DataNodes that are live and expected, the NameNode's words about its safe mode, and a problem."""

    installed: bool
    expected: Tuple[str, ...] = ()
    live: Tuple[str, ...] = ()
    safe_mode: str = ""
    problem: str = ""


class AskHdfs(Operation[HdfsState]):
    """The state of HDFS."""

    op = "hdfs.state"


class Moved(Value):
    """The block pool that was moved; empty where the DataNode is not live, so that nothing was."""

    pool: str


class Moving(Value):
    """The progress of that."""

    progress: str


class Decommission(Telling[Moved, Moving]):
    """Move all blocks of a DataNode to the others; `stall`: seconds without progress after which it stays."""

    op = "hdfs.decommission"
    address: str
    name: str
    stall: float


class Forget(Operation[None]):
    """Strike a DataNode, whose blocks have moved away, from the lists."""

    op = "hdfs.forget"
    address: str


class BytesRead(Value):
    """Bytes of copies that were read, so far or in all."""

    read: int


class ReadOwn(Telling[BytesRead, BytesRead]):
    """Read a DataNode's copies of all that is below a path."""

    op = "hdfs.read_own"
    path: str
    address: str


class DamagedCopy(Value):
    """A copy of a block on the host of this address, and how many good ones there are."""

    file: str
    block: str
    address: str
    live: int


class Damaged(Value):
    """The damaged copies, and how many good ones there are of blocks that were asked for."""

    copies: Tuple[DamagedCopy, ...]
    live: Dict[str, int]


class AskDamaged(Operation[Damaged]):
    """The NameNode's knowledge of the copies of all that is below a path."""

    op = "hdfs.damaged"
    path: str
    blocks: Tuple[str, ...] = ()


class Aside(Value):
    """The place where copies were put."""

    folder: str


class PutAside(Operation[Aside]):
    """Move a host's copies of blocks out of its DataNode's folder."""

    op = "hdfs.put_aside"
    blocks: Tuple[str, ...]


class ReportBlocks(Operation[None]):
    """Have a DataNode say what it holds."""

    op = "hdfs.report"
