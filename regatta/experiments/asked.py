"""What a point of a plan asks its workload for, in the words of `fab run-*`."""

from typing import Any

from regatta.experiments.pagerank import Ppr
from regatta.experiments.plans import Point
from regatta.experiments.training import Training


def ppr(point: Point, graph: str | None) -> Ppr:
    """For PageRank of a graph."""
    words = {key: str(value) for key, value in point.parameters.items() if key != "undirected"}
    return Ppr(graph=graph, undirected=bool(point.parameters.get("undirected", False)), **words)


def training(point: Point, data: str | None) -> Training:
    """For a training with data."""
    values = dict(point.parameters)
    batch = int(values.pop("batch")) if "batch" in values else None
    scale = bool(values.pop("scale_batch", False))
    words: dict[str, Any] = {key: str(value) for key, value in values.items()}
    return Training(point.workload, data, batch=batch, scale_batch=scale, **words)


def options(point: Point) -> list[str]:
    """The workload's options, as a run's record keeps them."""
    if point.workload == "ppr":
        return ppr(point, None).options()
    return training(point, None).options(None, 1, point.workers)
