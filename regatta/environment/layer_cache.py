"""The layer of a run: what was resolved before is remembered here, and a node is only asked whether it has it."""

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from regatta import paths
from regatta.environment import requirements
from regatta.environment.requirements import Requirements, Wanted
from regatta.errors import EnvironmentFault
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta_protocol.operations.launch import Inspect, Inspected
from regatta_protocol.operations.layers import WantedLayer

if TYPE_CHECKING:
    from regatta.environment.resolve import Resolution


@dataclass(frozen=True)
class Layer:
    """The packages of a run beyond the nodes' environment: `key` names them on the nodes; versions by name."""

    key: str
    packages: Mapping[str, str]


class _Gone(Exception):
    """A layer that was resolved before cannot be made now: a folder of wheels has moved, an index has another name."""


class Layers:
    """Layers of one cluster. `question` goes with the release's; `ready` makes good what the nodes lack."""

    def __init__(self, remote: Remote, say: Callable[[str], None]) -> None:
        self._remote = remote
        self._say = say
        self._said: set[str] = set()

    def asked(
        self,
        given: Requirements,
        root: Path,
        fixed: tuple[str, ...] = (),
        provided: Mapping[str, str] = MappingProxyType({}),
    ) -> "LayerRequest | None":
        """Return what a run of the tree `root` asks for; None where that is nothing. EnvironmentFault says where.

        `fixed`: packages that stay as the nodes have them; `provided`: those that a service has besides.
        """
        if line := requirements.unread(given, root):
            self._tell(line)
        wanted = requirements.of(given, root, (*fixed, *provided))
        if wanted is None:
            return None
        if line := requirements.unread_own(wanted, root):
            self._tell(line)
        wanted = replace(wanted, provided=provided)
        return LayerRequest(wanted, root, _memory(wanted, self._remote.cluster))

    def ready(self, asked: "LayerRequest", answers: Mapping[str, Inspected]) -> Layer | None:
        """The layer on every node, by what each has answered to `question`; None where the base has all."""
        from regatta.environment import base as bases

        base = bases.same(answers)
        if asked.known and asked.known["base"] == base and asked.known["layer"] is None:
            return None
        found = asked.resolution(base)
        if found is not None:
            with contextlib.suppress(_Gone):
                return self._placed(found, asked, answers, remembered=True)
            self._say("environment: what was found for it before cannot be had any more")
        found = self._resolved(asked, base)
        return self._placed(found, asked, answers) if found else None

    def _resolved(self, asked: "LayerRequest", base: str) -> "Resolution | None":
        """Return what the list comes to now; remembered."""
        from regatta.environment import base as bases
        from regatta.environment import bundled, resolve

        if asked.wanted.asks:
            self._say(f"environment: resolving {asked.wanted.label}")
        told = bases.ask(self._remote, self._remote.cluster.head)
        found = bundled.find(asked.wanted, told)
        if found is None:
            found = resolve.resolve(asked.wanted, told, asked.root, self._say)
        _remember(asked.wanted, self._remote.cluster, base, found)
        if found is None:
            self._say(f"environment: the nodes have all of {asked.wanted.label}")
        return found

    def _placed(
        self,
        found: "Resolution",
        asked: "LayerRequest",
        answers: Mapping[str, Inspected],
        *,
        remembered: bool = False,
    ) -> Layer:
        """The layer on every node. `remembered`: _Gone, and not a word of it, where it cannot be made any more."""
        from regatta.environment import base as bases

        if not remembered:
            self._announce(found, asked.wanted)
        key = found.key
        if not (asked.known and asked.known["layer"] and asked.known["layer"]["key"] == key):
            answers = self._looked(key, asked, answers)
        states = bases.states(answers)
        if (own := next(iter(states.values())).own) and not all(said.there for said in states.values()):
            key += own
            states = bases.states(self._looked(key, asked, answers))
        lacking = [name for name, said in states.items() if not said.there]
        if lacking:
            self._bring(found, key, lacking, asked, remembered)
        self._announce(found, asked.wanted)
        return Layer(key, found.versions)

    def _looked(self, key: str, asked: "LayerRequest", answers: Mapping[str, Inspected]) -> Mapping[str, Inspected]:
        """The answers of the same nodes about a layer."""
        nodes = [self._remote.cluster.node(name) for name in answers]
        return self._remote.everywhere(nodes, Inspect(layer=WantedLayer(key, asked.label)))

    def _announce(self, found: "Resolution", wanted: Wanted) -> None:
        """Once: what is brought, from where, and what is left out."""
        from regatta.environment import told

        for line in told.lines(found, wanted):
            self._tell(line)

    def _tell(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)

    def _bring(
        self, found: "Resolution", key: str, lacking: list[str], asked: "LayerRequest", remembered: bool
    ) -> None:
        from regatta.environment import build, compiler, distribution

        nodes = [self._remote.cluster.node(name) for name in lacking]
        try:
            archive = build.make(found, self._say, compiler.Compiler(self._remote, nodes[0], self._say))
        except EnvironmentFault as error:
            if remembered:
                raise _Gone from error
            raise
        self._announce(found, asked.wanted)
        self._say(f"environment: putting layer {key} ({archive.bytes / 1e6:.1f} MB unpacked) on {len(nodes)} node(s)")
        distribution.bring(self._remote, found, key, archive, nodes, asked.label)


@dataclass(frozen=True)
class LayerRequest:
    """A list of requirements and what is known of it: {"base", "layer"}, as it was resolved for this cluster last."""

    wanted: Wanted
    root: Path
    known: Mapping[str, Any] | None

    @property
    def label(self) -> str:
        """For whom the layer is."""
        return self.root.name

    def question(self) -> WantedLayer:
        """Return what each node is asked with the release."""
        layer = (self.known or {}).get("layer")
        return WantedLayer(layer["key"] if layer else None, self.label)

    def resolution(self, base: str) -> "Resolution | None":
        """Return what is remembered for a base."""
        from regatta.environment.resolve import Resolution

        if not self.known or self.known["base"] != base or not self.known["layer"]:
            return None
        with contextlib.suppress(KeyError, TypeError, ValueError):
            return Resolution.from_json(self.known["layer"])
        return None


def _file(wanted: Wanted, cluster: Cluster) -> Path:
    more = [dict(wanted.provided)] if wanted.provided else []
    name = requirements.digest([wanted.digest, str(cluster.folder), *more])[:24]
    return paths.cache_dir() / "environments" / f"{name}.json"


def _memory(wanted: Wanted, cluster: Cluster) -> Mapping[str, Any] | None:
    try:
        known = json.loads(_file(wanted, cluster).read_text())
        own = {package["name"] for package in known["layer"]["packages"]} if known["layer"] else set()
        return known if "base" in known and not own & {*wanted.fixed} else None
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None


def _remember(wanted: Wanted, cluster: Cluster, base: str, found: "Resolution | None") -> None:
    file = _file(wanted, cluster)
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
        json.dump({"base": base, "layer": found.as_json() if found else None}, opened)
    new.rename(file)
