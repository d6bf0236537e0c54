"""Layers and environments on a node: packages of its runs."""

from typing import Dict, Optional, Tuple

from regatta_protocol.operations.operation import Operation
from regatta_protocol.value import Value


class WantedLayer(Value):
    """The layer that is asked for, if there is one yet, and for whom it is."""

    key: Optional[str] = None
    label: str = ""


class LayerState(Value):
    """The id of a node's environment, and whether it has the layer.

    `own`: what the keys of layers that who asks may bring end with; nothing for who has sudo.
    """

    base: str
    there: bool
    own: str = ""


class InstalledPackage(Value):
    """A package of an environment: its name as others ask for it, and what it needs itself."""

    name: str
    version: str
    requires: Tuple[str, ...] = ()
    extras: Tuple[str, ...] = ()


class LayerBase(Value):
    """The environment that layers are made for."""

    id: str
    python: str
    machine: str
    glibc: str
    packages: Tuple[InstalledPackage, ...]


class Incoming(Value):
    """A folder that receives something."""

    incoming: str


class AboutLayer(Value):
    """A node's data of a layer; `tree`: the hash of its files, `compiled`: whether byte code is among them."""

    tree: str
    compiled: bool
    bytes: int
    packages: Dict[str, str]
    instead: Dict[str, str]
    label: str


class Proven(Value):
    """Whether what arrived has the content that was asked for; `pruned`: older ones that went."""

    ok: bool
    pruned: Tuple[str, ...] = ()


class BuiltWheel(Value):
    """A wheel and its content in base64, or the last lines of a build that failed."""

    name: str = ""
    content: str = ""
    error: str = ""


class LayerThere(Value):
    """A layer on a node: for which projects, when made and used last (Unix time), and whether runs have it now."""

    key: str
    packages: Dict[str, str]
    bytes: int
    whose: Tuple[str, ...]
    used: float
    going: bool


class LayersThere(Value):
    """All layers of a node, the one that was used last first."""

    layers: Tuple[LayerThere, ...]


class AskBase(Operation[LayerBase]):
    """The target of layers."""

    op = "layer.base"


class BeginLayer(Operation[Incoming]):
    """Make room for `size` bytes of a layer, or of what is built for one."""

    op = "layer.begin"
    key: str
    size: int


class BuildWheel(Operation[BuiltWheel]):
    """Make the wheel of a source archive.

    `needs`: an archive next to it with what it is built with. `backend`, `backend_path`: see PEP 517.
    """

    op = "layer.build"
    incoming: str
    source: str
    sha256: str
    needs: Optional[str]
    backend: str
    backend_path: Tuple[str, ...] = ()


class CommitLayer(Operation[Proven]):
    """Prove an archive that arrived and let it be the layer."""

    op = "layer.commit"
    key: str
    incoming: str
    archive: str
    sha256: str
    about: AboutLayer


class FetchLayer(Operation[Proven]):
    """Have a layer from the relay at the address `host`, whose root folder is `root`."""

    op = "layer.fetch"
    key: str
    incoming: str
    host: str
    root: str
    about: AboutLayer


class LookAtLayers(Operation[LayersThere]):
    """Which layers there are."""

    op = "layer.look"


class EnvironmentThere(Value):
    """An environment on a node, since when it is there (Unix time), and versions in it."""

    hash: str
    since: float
    packages: Dict[str, Optional[str]]


class EnvironmentsThere(Value):
    """All environments, the one that was switched to last first, and the `current` one."""

    current: Optional[str]
    there: Tuple[EnvironmentThere, ...]


class LookAtEnvironments(Operation[EnvironmentsThere]):
    """Which environments there are, and the versions of these packages in each."""

    op = "env.look"
    packages: Tuple[str, ...]


class SwitchEnvironment(Operation[None]):
    """Let runs have another environment; `units` are restarted by the next provisioning."""

    op = "env.switch"
    name: str
    units: Tuple[str, ...]
