"""Brings the JSON object of an older record to the schema of this version, one version at a time."""

from collections.abc import Callable
from typing import Any


def migrate(document: Any) -> Any:
    """`document` in the newest schema as far as a step leads there; what is no record is given back as it is."""
    while isinstance(document, dict) and (step := _STEPS.get(_version(document))) is not None:
        document = step(document)
    return document


def _version(document: dict[str, Any]) -> int | None:
    version = document.get("schema_version")
    return version if isinstance(version, int) and not isinstance(version, bool) else None


def _progress_of_ranks(document: dict[str, Any]) -> dict[str, Any]:
    """1 to 2: ranks have their progress over time."""
    ranks = document.get("ranks")
    if isinstance(ranks, list):
        ranks = [{"progress": {}} | rank if isinstance(rank, dict) else rank for rank in ranks]
        document = document | {"ranks": ranks}
    return document | {"schema_version": 2}


def _use(document: dict[str, Any]) -> dict[str, Any]:
    """2 to 3: what the run used on its nodes, and the CPU of each rank; older records have no figures of it."""
    ranks = document.get("ranks")
    if isinstance(ranks, list):
        ranks = [{"cpu_seconds": None} | rank if isinstance(rank, dict) else rank for rank in ranks]
        document = document | {"ranks": ranks}
    return document | {"use": [], "schema_version": 3}


def _beside(document: dict[str, Any]) -> dict[str, Any]:
    """3 to 4: what else was on the run's nodes meanwhile; older records do not say."""
    return document | {"beside": [], "schema_version": 4}


def _repetitions(document: dict[str, Any]) -> dict[str, Any]:
    """4 to 5: the repetitions of a phase have that name."""
    ranks = document.get("ranks")
    if isinstance(ranks, list):
        names = {"laps": "repetitions"}
        ranks = [
            {names.get(key, key): value for key, value in rank.items()} if isinstance(rank, dict) else rank
            for rank in ranks
        ]
        document = document | {"ranks": ranks}
    return document | {"schema_version": 5}


def _packages(document: dict[str, Any]) -> dict[str, Any]:
    """5 to 6: the versions of all packages; older records do not say."""
    return document | {"packages": {}, "schema_version": 6}


def _shares(document: dict[str, Any]) -> dict[str, Any]:
    """6 to 7: which nodes share cores; older records do not say."""
    return _of_nodes(document, {"shares": []}) | {"schema_version": 7}


def _of_nodes(document: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The document with more fields of each node."""
    cluster = document.get("cluster")
    if isinstance(cluster, dict) and isinstance(cluster.get("nodes"), list):
        nodes = [more | node if isinstance(node, dict) else node for node in cluster["nodes"]]
        document = document | {"cluster": cluster | {"nodes": nodes}}
    return document


def _overhead(document: dict[str, Any]) -> dict[str, Any]:
    """7 to 8: what a framework's own log says; older records do not say."""
    return document | {"overhead": None, "schema_version": 8}


def _parts(document: dict[str, Any]) -> dict[str, Any]:
    """8 to 9: the part of its cores that a node may use; older records do not say."""
    return _of_nodes(document, {"cpu_limit": None}) | {"schema_version": 9}


def _gpus(document: dict[str, Any]) -> dict[str, Any]:
    """9 to 10: the GPUs of nodes; older records do not say."""
    return _of_nodes(document, {"gpus": [], "gpu_driver": None}) | {"schema_version": 10}


def _costs_and_exchanges(document: dict[str, Any]) -> dict[str, Any]:
    """10 to 11: what the cluster costs, the energy that its nodes took, what ranks sent to each other, and what a
    workload decided on; older records do not say.
    """
    cluster, beside, ranks = document.get("cluster"), document.get("beside"), document.get("ranks")
    if isinstance(cluster, dict):
        document = document | {"cluster": {"price_per_hour": None} | cluster}
    if isinstance(beside, list):
        beside = [{"joules": None} | one if isinstance(one, dict) else one for one in beside]
        document = document | {"beside": beside}
    if isinstance(ranks, list):
        nothing = {"exchanged_bytes": None, "exchanges": None}
        ranks = [rank | nothing if isinstance(rank, dict) else rank for rank in ranks]
        document = document | {"ranks": ranks}
    return document | {"chosen": {}, "schema_version": 11}


def _energy_of_gpus(document: dict[str, Any]) -> dict[str, Any]:
    """11 to 12: the energy that GPUs took; older records do not say."""
    beside = document.get("beside")
    if isinstance(beside, list):
        beside = [{"gpu_joules": None} | one if isinstance(one, dict) else one for one in beside]
        document = document | {"beside": beside}
    return document | {"schema_version": 12}


def _owner(document: dict[str, Any]) -> dict[str, Any]:
    """12 to 13: whose run it was; older records do not say."""
    identity = document.get("identity")
    if isinstance(identity, dict):
        document = document | {"identity": {"owner": None} | identity}
    return document | {"schema_version": 13}


_STEPS: dict[int | None, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _progress_of_ranks,
    2: _use,
    3: _beside,
    4: _repetitions,
    5: _packages,
    6: _shares,
    7: _overhead,
    8: _parts,
    9: _gpus,
    10: _costs_and_exchanges,
    11: _energy_of_gpus,
    12: _owner,
}
