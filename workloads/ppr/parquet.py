"""Edges from a Parquet file: its two columns, or the two that are named as source and target."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from workloads.common.events import BadInput
from workloads.ppr import dialect, sniffing, words
from workloads.ppr.dialect import HEADERS, Dialect
from workloads.ppr.words import Words

BATCH_ROWS = 1 << 20


def edges(
    path: Path | str, stream: BinaryIO, part: int, parts: int, *, weights: bool = False
) -> tuple[Dialect, Iterator[tuple[NDArray[Any], Words | None, NDArray[np.float64] | None]]]:
    """The columns, and the edges of every `parts`-th row group in batches: ids (2 m,), and the words that they number.

    `weights`: also those, (m,). Raises BadInput where the file is damaged, or its columns are no edges.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _damaged_said(path):
        file = pq.ParquetFile(stream)
        schema = file.schema_arrow
        chosen = _chosen(path, schema.names)
        kinds = [_is_words(path, schema.field(place)) for place in chosen]
        names = [schema.names[place] for place in chosen]
    weight = next((name for name in dialect.WEIGHTS if name in schema.names), None) if weights else None
    if weights and weight is None:
        sniffing.with_weights(path, Dialect(header=",".join(schema.names)))
    others = [name for place, name in enumerate(schema.names) if place not in chosen and name != weight]
    header = ",".join(names) + (f" (without {', '.join(others)})" if others else "")
    groups = list(range(file.num_row_groups))[part::parts]
    firsts = np.cumsum([0, *(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))])

    def read() -> Iterator[tuple[NDArray[Any], Words | None, NDArray[np.float64] | None]]:
        for group in groups:
            row = int(firsts[group])
            with _damaged_said(path):
                for batch in file.iter_batches(BATCH_ROWS, [group], columns=names + ([weight] if weight else [])):
                    columns = [batch.column(batch.schema.get_field_index(name)) for name in names]
                    for name, column in zip(names, columns, strict=True):
                        if column.null_count:
                            missing = row + 1 + int(np.argmax(_flags(column.is_null())))
                            raise BadInput(
                                f"{path}: row {missing}: column {name}: a node id is missing: remove this row"
                            )
                    heavy = _weights(path, batch, weight, row) if weight else None
                    if any(kinds):
                        both = pa.concat_arrays([column.cast(pa.large_string()) for column in columns])
                        codes, known = words.of_arrow(both)
                        if wrong := known.fault():
                            raise BadInput(f"{path}: {wrong}")
                        yield np.stack(np.split(codes, 2), axis=1).ravel(), known, heavy
                    else:
                        ids = [_numbers(path, *one, row) for one in zip(names, columns, strict=True)]
                        yield _narrow(np.stack(ids, axis=1).ravel()), None, heavy
                    row += batch.num_rows

    return Dialect(words=any(kinds), header=header, plain=False, weight=0 if weight else None), read()


def _weights(path: Path | str, batch: Any, name: str, row: int) -> NDArray[np.float64]:
    """The weights of a batch, (m,); `row`: how many rows of the file come before."""
    import pyarrow as pa

    column = batch.column(batch.schema.get_field_index(name)).cast(pa.float64()).fill_null(float("nan"))
    values = _values(column, np.float64)
    wrong = ~(values >= 0) | np.isinf(values)
    if wrong.any():
        place = int(np.argmax(wrong))
        raise BadInput(
            f"{path}: row {row + place + 1}: column {name}: a weight is a number from 0 on, not {values[place]}"
        )
    return values


def _chosen(path: Path | str, names: list[str]) -> tuple[int, int]:
    pair = dialect.named_pair(names)
    if pair is None and len(names) != 2:
        known = " or ".join(",".join(pair) for pair in HEADERS[:3])
        raise BadInput(
            f"{path}: an edge is exactly two node ids, here are the columns {', '.join(names)}: "
            f"name the two {known}, or leave the others out"
        )
    return pair or (0, 1)


def _is_words(path: Path | str, field: Any) -> bool:
    from pyarrow import types

    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if types.is_integer(kind):
        return False
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return True
    raise BadInput(f"{path}: column {field.name} is of type {field.type}: a node id is an integer or text")


def _numbers(path: Path | str, name: str, column: Any, row: int) -> NDArray[np.uint64]:
    """Ids of a column; `row`: how many rows of the file come before."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_unsigned_integer(column.type):
        return _values(column.cast(pa.uint64()), np.uint64)
    values = _values(column.cast(pa.int64()), np.int64)
    if (values < 0).any():
        place = int(np.argmax(values < 0))
        raise BadInput(
            f"{path}: row {row + place + 1}: column {name}: a negative node id: {values[place]}; remove or renumber it"
        )
    return values.view(np.uint64)


def _narrow(ids: NDArray[np.uint64]) -> NDArray[Any]:
    return ids.astype(np.uint32) if len(ids) and ids.max() < 2**32 else ids


def _values(array: Any, dtype: Any) -> NDArray[Any]:
    """The same memory as numbers (`to_numpy` would import pandas)."""
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * 8) if len(array) else np.zeros(0, dtype)


def _flags(array: Any) -> NDArray[np.bool_]:
    import pyarrow as pa

    return np.frombuffer(array.cast(pa.uint8()).buffers()[1], np.uint8, len(array)).astype(bool)


@contextlib.contextmanager
def _damaged_said(path: Path | str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except BadInput:
        raise
    except (pa.ArrowException, OSError) as error:
        raise BadInput(
            f"{path}: damaged or truncated Parquet file; copy it again ({str(error).splitlines()[0]})"
        ) from error
