"""The record of a run that has ended, of what the controller and the nodes know of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from regatta.records.clocks import Clocks
from regatta.records.plain import plain
from regatta.records.record import (
    Beside,
    ClusterFacts,
    ExitInfo,
    NodeUse,
    Overhead,
    RankRecord,
    Record,
    RunIdentity,
    Series,
    Speed,
)
from regatta_protocol.events import OverheadEvent
from regatta_protocol.operations.runs import Contended


@dataclass(frozen=True)
class Account:
    """Further facts of a run; `driver_node` is where the Ray driver ran.

    `warnings` of the controller come before those of the workload; `used` is what nodes say that the run used there,
    `beside` what else was there. `packages`: versions of those that it could import.
    """

    series: Series | None = None
    driver_node: str | None = None
    warnings: Sequence[str] = ()
    used: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    beside: Mapping[str, Contended] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)


def build(
    identity: RunIdentity, cluster: ClusterFacts, speed: Speed, clocks: Clocks, exit: ExitInfo, known: Account
) -> Record:
    """The record of a run that has ended, in whatever way."""
    nodes = {rank: node.name for node in cluster.nodes for rank in node.ranks}
    nodes |= {-1: known.driver_node} if known.driver_node else {}
    result = clocks.result
    return Record(
        identity=replace(identity, parameters=plain(identity.parameters)),
        cluster=cluster,
        speed=speed,
        phases=clocks.phases(),
        ranks=tuple(
            RankRecord(
                r.rank,
                nodes.get(r.rank),
                r.phases,
                plain(r.repetitions),
                r.peak_bytes,
                {what: [*points] for what, points in r.progress.items()},
                r.cpu_seconds,
                r.exchanged_bytes,
                r.exchanges,
            )
            for r in clocks.ranks
        ),
        exit=exit,
        answer=plain(result.answer) if result else None,
        tolerance=result.tolerance if result else {},
        show=result.show if result else (),
        warnings=(*known.warnings, *clocks.warnings),
        series=known.series,
        use=tuple(_use(node.name, said) for node in cluster.nodes if (said := known.used.get(node.name))),
        beside=tuple(_beside(name, said) for name, said in known.beside.items()),
        packages=known.packages,
        overhead=_overhead(clocks.overhead),
        chosen=clocks.chosen,
    )


def _overhead(told: OverheadEvent | None) -> Overhead | None:
    return Overhead(**{name: getattr(told, name) for name in Overhead.__struct_fields__}) if told else None


def _use(node: str, said: Mapping[str, Any]) -> NodeUse:
    """Return what a node says; a run may have written there what it likes, so that only what fits is believed."""
    numbers = {
        name: value
        for name in NodeUse.__struct_fields__
        if name not in ("node", "interface") and _is_amount(value := said.get(name), name)
    }
    name = said.get("interface")
    return NodeUse(node, interface=name if isinstance(name, str) else None, **numbers)


def _beside(node: str, said: Contended) -> Beside:
    return Beside(node, said.runs, said.load, said.joules, said.gpu_joules)


def _is_amount(value: Any, name: str) -> bool:
    kinds = int | float if name == "cpu_seconds" else int
    return isinstance(value, kinds) and not isinstance(value, bool) and bool(0 <= value < 2**63)
