"""Answers what a launch asks of a node before it starts anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Sequence

from regatta.node import debian, facts, files, frameworks, layers, network, queue, releases, rundirs
from regatta_protocol.operations.launch import InputFile, Inspected
from regatta_protocol.operations.layers import WantedLayer
from regatta_protocol.operations.releases import Held, Patch, ReleaseState

if TYPE_CHECKING:
    from regatta_protocol.place import Place


def inspect(  # noqa: PLR0913 (the keys of one question)
    place: Place,
    release: str | None = None,
    hint: str | None = None,
    patch: Patch | None = None,
    data: Sequence[InputFile] = (),
    facts_wanted: bool = True,
    versions: Sequence[str] = (),
    ports: Sequence[int] = (),
    layer: WantedLayer | None = None,
    packages: bool = False,
    free: int = 1,
    asks: Dict[str, str] | None = None,
    apt: Sequence[str] = (),
) -> Inspected:
    """The questions of a launch to a node, in one round trip: facts, release, layer, data files, a free port."""
    answer: dict[str, Any] = {}
    if facts_wanted:
        answer["facts"] = facts.facts(place, versions)
    if release:
        answer["release"] = releases.check(place, release)
        if answer["release"].state is Held.MISSING and patch and releases.patched(place, release, patch):
            answer["release"] = ReleaseState(Held.MADE)
        elif answer["release"].state is Held.MISSING:
            answer["begun"] = releases.begin(place, release, hint)
    if layer is not None:
        answer["layer"] = layers.check(place, layer.key, layer.label)
    if packages:
        answer["packages"] = facts.environment(place).get("packages", {})
    if data:
        answer["data"] = {item.sha256: files.have(place, **vars(item)) for item in data}
    if ports:
        low, high = ports
        unfinished = rundirs.unfinished(place)
        answer["ports"] = tuple(network.free_ports(place, low, high, unfinished["ports"], free))
        answer["unfinished"] = tuple(unfinished["runs"])
        answer["gpus_taken"] = tuple(unfinished["gpus"])
    if apt:
        answer["lacking"] = tuple(debian.lacking(apt))
    return Inspected(**answer, told=frameworks.answers(place, asks or {}), slurm=queue.there(place))
