"""Services of a node: their units, and how they are."""

from typing import Any, Dict, Optional, Tuple

from regatta_protocol.operations.operation import Operation
from regatta_protocol.run import Listed
from regatta_protocol.value import Value


class UnitState(Value):
    """The state of a unit by systemd, and since when it has it."""

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
    """A node's facts and present state; `facts` as records keep them, `told`: what frameworks asked for, by name."""

    facts: Dict[str, Any]
    runs: Tuple[Listed, ...]
    units: Dict[str, UnitState]
    told: Dict[str, Any] = {}


class AskStatus(Operation[NodeTold]):
    """The state of a node; `versions`: of these packages, among the facts; `asks`: as in `Inspect`."""

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
    """The answer of a framework's function on the node, named as `framework.module.function`, to these words."""

    op = "framework.call"
    function: str
    words: Tuple[str, ...] = ()
