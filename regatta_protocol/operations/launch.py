"""The questions of a launch to a node before it starts anything, in one round trip."""

from typing import Any, Dict, Optional, Tuple

from regatta_protocol.decoding import Path
from regatta_protocol.operations.layers import LayerState, WantedLayer
from regatta_protocol.operations.operation import Operation
from regatta_protocol.operations.releases import BegunRelease, Patch, ReleaseState
from regatta_protocol.value import Value


class InputFile(Value):
    """An input file: its content, its name, its bytes."""

    sha256: str
    name: Path
    size: int


class Inspected(Value):
    """A node's answer to a launch; `facts` as records keep them.

    `begun`: where a release that is missing can be sent to. `packages`: of its environment. `data`: which files it has,
    by content. `unfinished`: runs that have not ended. `gpus_taken`: UUIDs of GPUs of
    runs in progress. `told`: what frameworks asked for, by name. `lacking`: Debian packages that are not
    installed. `slurm`: whether it keeps the cluster's Slurm.
    """

    facts: Dict[str, Any] = {}
    release: Optional[ReleaseState] = None
    begun: Optional[BegunRelease] = None
    layer: Optional[LayerState] = None
    packages: Dict[str, str] = {}
    data: Dict[str, bool] = {}
    ports: Tuple[int, ...] = ()
    unfinished: Tuple[str, ...] = ()
    gpus_taken: Tuple[str, ...] = ()
    told: Dict[str, Any] = {}
    lacking: Tuple[str, ...] = ()
    slurm: bool = False


class Inspect(Operation[Inspected]):
    """Ask for facts, a release, a layer, input files, free ports.

    `versions`: of these packages, among the facts. `packages`: the versions of all that is in the node's environment.
    `ports`: the lowest and the highest that may be free, of which `free` are wanted. `asks`: what frameworks ask.
    `apt`: Debian packages that have to be there.
    """

    op = "inspect"
    release: Optional[str] = None
    hint: Optional[str] = None
    patch: Optional[Patch] = None
    data: Tuple[InputFile, ...] = ()
    facts_wanted: bool = True
    versions: Tuple[str, ...] = ()
    ports: Tuple[int, ...] = ()
    layer: Optional[WantedLayer] = None
    packages: bool = False
    free: int = 1
    asks: Dict[str, str] = {}
    apt: Tuple[str, ...] = ()
