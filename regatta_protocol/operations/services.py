"""Services of a node: their units, and how they are."""

from typing import Any, Dict, Optional, Tuple

from regatta_protocol.operations.operation import Operation
from regatta_protocol.run import Listed
from regatta_protocol.value import Value


class UnitState(Value):
    """What systemd says of a unit, and since when it is so."""

    state: str
    since: str


class Acted(Value):
    """The units that are installed, by name, and what systemd complained of."""

    units: Dict[str, UnitState]
    message: str = ""


class Act(Operation[Acted]):
    """`systemctl ACTION` for units; `status` changes nothing."""

    op = "services"
    action: str
    units: Tuple[str, ...]


class NodeTold(Value):
    """What a node is and does now; `facts` as records keep them, `told`: what frameworks asked for, by name."""

    facts: Dict[str, Any]
    runs: Tuple[Listed, ...]
    units: Dict[str, UnitState]
    told: Dict[str, Any] = {}


class AskStatus(Operation[NodeTold]):
    """How a node is; `versions`: of these packages, among the facts; `asks`: as in `Inspect`."""

    op = "status"
    units: Tuple[str, ...]
    asks: Dict[str, str] = {}
    versions: Tuple[str, ...] = ()


class MonitoringState(Value):
    """The port of Prometheus at the head's loopback, how many targets answer, and which do not."""

    installed: bool
    prometheus: Optional[int]
    up: int
    down: Tuple[str, ...]
    problem: str


class AskMonitoring(Operation[MonitoringState]):
    """Whether monitoring works; for the head."""

    op = "monitoring.state"


class Page(Value):
    """A web page on the head; `host`: where that is not the head's loopback."""

    title: str
    port: int
    host: Optional[str] = None


class Pages(Value):
    """The web pages of services."""

    pages: Tuple[Page, ...]


class AskPages(Operation[Pages]):
    """Which web pages there are; for the head."""

    op = "pages"


class CallFramework(Operation[Any]):
    """What a function of a framework on the node says, named as `framework.module.function`."""

    op = "framework.call"
    function: str
