"""A workload's account of its run."""

import json
from typing import Any

PREFIX = "@regatta "


def events(output: str, kind: str) -> list[dict[str, Any]]:
    """The events of one kind in what a workload printed."""
    every = [json.loads(line.removeprefix(PREFIX)) for line in output.splitlines() if line.startswith(PREFIX)]
    return [one for one in every if one["event"] == kind]
