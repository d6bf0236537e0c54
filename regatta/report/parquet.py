"""Records as one Parquet file: columns for pandas and polars, and each record whole, so that it can come back."""

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from regatta import files
from regatta.errors import RecordError
from regatta.program import hint
from regatta.records import document
from regatta.records.clocks import Phases
from regatta.records.record import Record
from regatta.records.store import Listing
from regatta.report.listing import started

SUFFIX = ".parquet"
WHOLE = "record"
"""The column that holds each record's JSON."""

_PHASES = Phases.__struct_fields__


def write(path: Path, kept: Sequence[Record]) -> None:
    """Write the records, one a row; seconds and bytes as in the record, times in UTC. RecordError."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_pylist([_row(record) for record in kept], schema=_schema(pa))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as new:
            parquet.write_table(table, new, compression="zstd")
    except OSError as error:
        raise RecordError(f"{path} cannot be written: name another file ({error.strerror or error})") from error


def read(path: Path) -> Listing:
    """The records in a file that `write` made, earliest first. RecordError where it is no such file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        found = parquet.read_table(path, columns=[WHOLE])
    except (OSError, pa.ArrowException, KeyError) as error:
        text = str(error).split("\n", maxsplit=1)[0]
        raise RecordError(
            f"{path} is not a Parquet file of records ({hint('results-export')} makes one): {text}"
        ) from error
    if found.column_names != [WHOLE]:
        raise RecordError(f"{path} has no column '{WHOLE}': make it with {hint('results-export')}")
    made, broken = [], []
    for number, text in enumerate(found.column(WHOLE).to_pylist(), 1):
        try:
            made.append(document.parse(text or "", f"{path}, row {number}"))
        except RecordError as error:
            broken.append(str(error))
    made.sort(key=lambda record: (record.identity.started, record.run_id))
    return Listing(tuple(made), tuple(broken))


def _row(record: Record) -> dict[str, Any]:
    identity, failure, series = record.identity, record.exit.failure, record.series
    return {
        "run": record.run_id,
        "workload": identity.workload,
        "framework": identity.framework,
        "ranks": len(record.cluster.rank_map),
        "started": _time(record),
        "state": record.exit.state,
        "code": record.exit.code,
        "cause": failure.cause if failure else None,
        "cluster": record.cluster.name,
        "nodes": [node.name for node in record.cluster.nodes],
        "release": identity.release,
        "commit": identity.commit,
        "dirty": identity.dirty,
        "seed": identity.seed,
        "threads": record.speed.threads,
        "series": series.label if series else None,
        "repeat": series.index if series else None,
        "parameters": json.dumps(identity.parameters, sort_keys=True),
        "beside": list(record.others),
        "peak_bytes": record.peak_bytes,
        "cpu_seconds": record.cpu_seconds,
        "sent_bytes": record.sent_bytes,
        **{name: getattr(record.phases, name) for name in _PHASES},
        WHOLE: document.to_json(record),
    }


def _time(record: Record) -> datetime:
    return started(record).astimezone(timezone.utc)


def _schema(pa: Any) -> Any:
    text, whole = pa.string(), pa.int64()
    kinds = {
        "ranks": whole,
        "started": pa.timestamp("ms", tz="UTC"),
        "code": whole,
        "nodes": pa.list_(text),
        "dirty": pa.bool_(),
        "seed": whole,
        "threads": whole,
        "repeat": whole,
        "beside": pa.list_(text),
        "peak_bytes": whole,
        "cpu_seconds": pa.float64(),
        "sent_bytes": whole,
        **dict.fromkeys(_PHASES, pa.float64()),
    }
    names = (
        "run", "workload", "framework", "ranks", "started", "state", "code", "cause", "cluster", "nodes", "release",
        "commit", "dirty", "seed", "threads", "series", "repeat", "parameters", "beside", "peak_bytes",
        "cpu_seconds", "sent_bytes", *_PHASES, WHOLE,
    )  # fmt: skip
    return pa.schema([(name, kinds.get(name, text)) for name in names])
