"""The JSON file of a record: written, read and checked. For a damaged one, the error names the place."""

import json
from pathlib import Path
from typing import Any

from regatta import typed
from regatta.errors import RecordError
from regatta.records.migrate import migrate
from regatta.records.plain import plain
from regatta.records.record import PARTIAL, SCHEMA_VERSION, Record
from regatta.text import clean
from regatta_protocol.decoding import FaultError


def to_dict(record: Record) -> dict[str, Any]:
    """The JSON object of the schema, not yet validated."""
    return {"schema_version": record.schema_version, **plain(record)}


def to_json(record: Record) -> str:
    """The text of the record's file; raises RecordError when it does not fit the schema."""
    document = to_dict(record)
    validate(document, f"record of run {record.run_id}")
    try:
        return json.dumps(document, indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise RecordError(f"record of run {record.run_id} cannot be written as JSON: {error}") from error


def validate(document: object, source: str) -> Record:
    """The record that is this JSON object. Raises RecordError with `source` and the place of the first fault."""
    if not isinstance(document, dict) or not {"schema_version", "identity"} & document.keys():
        raise RecordError(f"{source} is JSON, but no record of a run: move it out of the folder of records")
    if "schema_version" in document:
        version = document["schema_version"]
        if isinstance(version, bool) or version != SCHEMA_VERSION:
            raise RecordError(
                f"{source}: schema version {str(version)[:40]} is unknown, this Regatta reads 1 to {SCHEMA_VERSION}: "
                "read it with the Regatta that wrote it"
            )
    try:
        return typed.whole(document, Record, partial=PARTIAL)
    except FaultError as error:
        raise RecordError(
            f"{source} does not fit the schema: {_shorten(clean(str(error)))}; move it out of the folder"
        ) from None


def parse(text: str, source: str) -> Record:
    """The record in `text`, brought to this version's schema; RecordError names `source` and the place of the fault."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RecordError(
            f"{source} is truncated or not JSON: restore it from a copy, or move it away ({error})"
        ) from error
    return validate(migrate(document), source)


def load(path: Path) -> Record:
    """The record in the file `path`; RecordError when it is unreadable, truncated or does not fit the schema."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read ({error}): move it out of the folder") from error
    return parse(text, str(path))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _shorten(message: str) -> str:
    return message if len(message) <= 200 else f"{message[:120]} ... {message[-70:]}"
