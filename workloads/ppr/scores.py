"""All scores of all sources as a file: Parquet, or CSV where its name ends in .csv; a row a node, a column a source."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common import storage
from workloads.common.events import BadInput
from workloads.ppr.graph import Graph

NODE, NAME = "node", "name"
"""The columns before those of the sources: a node's id as it was given, and its name where some have one."""

Scores = list[tuple[int, NDArray[np.float64]]]
"""The place of each source among all, and its scores (n,), by place of the node."""


def looked_at(address: str, *, writes: bool) -> None:
    """Make the folder of a file, if this process `writes` it. Raises BadInput where nothing can be written there."""
    if not address.endswith((".parquet", ".csv")):
        raise BadInput(f"--scores {address}: name a file that ends in .parquet or .csv")
    if writes and not storage.is_remote(address):
        folder = Path(address.removeprefix("file://")).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"--scores {address}: {folder}: {error.strerror or error}: name another folder") from error


def nodes(graph: Graph) -> dict[str, Any]:
    """The first columns of the file, as Arrow's arrays."""
    import pyarrow as pa

    if graph.by_words:
        return {NODE: _texts(graph)}
    first = {
        NODE: pa.Array.from_buffers(
            pa.from_numpy_dtype(graph.ids.dtype), len(graph.ids), [None, pa.py_buffer(graph.ids)]
        )
    }
    return {**first, NAME: _texts(graph)} if len(graph.name_ends) else first


def labels(graph: Graph, sources: Sequence[int]) -> list[str]:
    """The names of the sources' columns: their ids as they were given."""
    taken = {NODE, NAME}
    found = [str(graph.name(place)) if graph.by_words else str(graph.ids[place]) for place in sources]
    return [f"{name} (source)" if name in taken else name for name in found]


def write(address: str, first: dict[str, Any], names: Sequence[str], scores: Scores) -> str:
    """Write the file in one step; gives a line for a person. Raises BadInput where it cannot be written."""
    import pyarrow as pa

    columns = [pa.array([], pa.float64())] * len(names)
    for place, values in scores:
        columns[place] = pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(values)])
    table = pa.table({**first, **dict(zip(names, columns, strict=True))})
    made = io.BytesIO()
    if address.endswith(".csv"):
        import pyarrow.csv

        pa.csv.write_csv(table, made, pa.csv.WriteOptions(quoting_style="needed", batch_size=1 << 16))
    else:
        import pyarrow.parquet

        ways = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        pa.parquet.write_table(table, made, **ways)
    storage.replace(address, made.getbuffer())
    return f"scores of {len(names):,} source{'s' * (len(names) != 1)} for {table.num_rows:,} nodes: {address}"


def _texts(graph: Graph) -> Any:
    """The nodes' names as Arrow's text, by place: between two newlines each."""
    import pyarrow as pa

    ends = np.asarray(graph.name_ends, np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) + 1
    text = np.asarray(graph.name_text)
    kept = np.ones(len(text), bool)
    kept[0] = False
    kept[ends] = False
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - starts)])
    return pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(text[kept]))
