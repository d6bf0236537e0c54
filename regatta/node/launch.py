"""Answers what a launch asks of a node before it starts anything."""

from __future__ import annotations

from typing import Any, Sequence

from regatta.node import facts, files, frameworks, layers, network, releases, rundirs


def inspect(  # noqa: PLR0913 (the keys of one question)
    place: dict[str, Any],
    release: str | None = None,
    hint: str | None = None,
    patch: dict[str, Any] | None = None,
    data: list[dict[str, Any]] | None = None,
    facts_wanted: bool = True,
    versions: Sequence[str] = (),
    ports: tuple[int, int] | None = None,
    layer: dict[str, str] | None = None,
    packages: bool = False,
    free: int = 1,
    asks: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return what a launch asks of a node in one round trip: facts, release, layer, data files, a free port.

    `versions`: of these packages, among the facts. `packages`: also the versions of all that is in its environment.
    `free`: how many free ports are wanted. `asks`: what a framework asks besides, see `frameworks.answers`.
    """
    answer: dict[str, Any] = {}
    if facts_wanted:
        answer["facts"] = facts.facts(place, versions)
    if release:
        answer["release"] = releases.check(place, release)
        if answer["release"]["state"] == "missing" and patch and releases.patched(place, release, patch):
            answer["release"] = {"state": "made"}
        elif answer["release"]["state"] == "missing":
            answer["begun"] = releases.begin(place, release, hint)
    if layer is not None:
        answer["layer"] = layers.check(place, **layer)
    if packages:
        answer["packages"] = facts.environment(place).get("packages", {})
    if data:
        answer["data"] = {item["sha256"]: files.have(place, **item) for item in data}
    if ports:
        unfinished = rundirs.unfinished(place)
        answer["ports"] = network.free_ports(place, *ports, unfinished["ports"], free)
        answer["port"] = answer["ports"][0]
        answer["unfinished"] = unfinished["runs"]
    return {**answer, **frameworks.answers(place, asks)}
