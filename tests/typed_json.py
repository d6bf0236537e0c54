"""What commands print with --json, held to its type."""

import json
from typing import Any

import msgspec

from regatta.tasks import shown


def read(command: str, text: str) -> Any:
    """Return the output of a command by the type that its schema (`regatta/tasks/schemas/`) is made of: all of it."""
    found = msgspec.json.decode(text, type=shown.TYPES[command])
    assert json.loads(msgspec.json.encode(found)) == json.loads(text), f"{command} prints what its schema lacks"
    return found
