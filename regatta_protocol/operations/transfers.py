"""Input files on a node, and what relays keep for the nodes behind them."""

from typing import Optional

from regatta_protocol.decoding import Path
from regatta_protocol.operations.layers import Incoming
from regatta_protocol.operations.operation import Operation
from regatta_protocol.value import Value


class ProvenFile(Value):
    """Whether a file has the content that was asked for, and which one it has otherwise."""

    ok: bool
    actual: Optional[str] = None


class BeginFile(Operation[Incoming]):
    """Make room for an input file."""

    op = "data.begin"
    size: int


class CommitFile(Operation[ProvenFile]):
    """Prove an input file that arrived and put it in its place."""

    op = "data.commit"
    incoming: str
    sha256: str
    name: Path


class FetchFile(Operation[None]):
    """Have an input file from the relay at the address `host`."""

    op = "data.fetch"
    host: str
    source: Path
    incoming: str


class CachePlace(Value):
    """The place where a relay keeps a file."""

    path: str


class Offer(Operation[CachePlace]):
    """Make room in a relay's cache; what it has itself at `own` need not be sent to it."""

    op = "relay.offer"
    name: str
    own: str


class Take(Operation[None]):
    """Let the relay have its own copy."""

    op = "relay.take"
    name: str
    target: str


class Fetch(Operation[None]):
    """Have a file from the cache of the relay at the address `host`."""

    op = "relay.fetch"
    host: str
    source: str
    target: str


class Drop(Operation[None]):
    """Clear the cache."""

    op = "relay.drop"
