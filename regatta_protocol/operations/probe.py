"""The speed of a node, in short measurements of its processors, memory, disk and network."""

from typing import Dict

from regatta_protocol.operations.operation import Operation, Telling
from regatta_protocol.value import Value


class Probed(Value):
    """Figures by name, each a rate: the larger, the faster."""

    figures: Dict[str, float]


class Probe(Operation[Probed]):
    """Measure one `part` of the node (`processor`, `memory` or `disk`) for about so many seconds."""

    op = "probe.part"
    part: str
    seconds: float


class Listening(Value):
    """The port at which a node waits for data."""

    port: int


class Receive(Telling[Probed, Listening]):
    """Receive data from the node at the address `peer` for so many seconds; tells its port first."""

    op = "probe.receive"
    peer: str
    seconds: float


class Send(Operation[None]):
    """Send data to an address and port until the other side ends it, for so many seconds at most."""

    op = "probe.send"
    address: str
    port: int
    seconds: float
