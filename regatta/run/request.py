"""What a person or a program asks to run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regatta.environment.requirements import Requirements
from regatta.environment.variables import Variables
from regatta.frameworks import plan
from regatta.records import record
from regatta.release import tree


@dataclass(frozen=True)
class Request:
    """What to run. `root` is the tree to sync, `source` what was read of it just now, if anything was.

    `workers` is None for one rank a core of the cluster, `launcher` for what the framework takes by itself; `cache` and
    `notes` (warnings) are kept in the record.
    `restarts`: how often torchrun starts lost ranks again; where it is `elastic`, also how often it goes on without
    hosts that are lost, as a further generation of `first_run`.
    `fetch`: patterns of the files that are brought here when it has ended, `fetch_gb` at most.
    `environment`: which packages it has beyond the nodes'; `variables`: those that its processes get.
    `keep`: folders of its working directory that it shares with the other runs of the project.
    """

    program: plan.Program
    framework: record.Framework
    root: Path
    workers: int | None = None
    name: str | None = None
    launcher: str | None = None
    pg_timeout: int = plan.PG_TIMEOUT_SECONDS
    time_limit: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    series: record.Series | None = None
    source: tree.Tree | None = None
    restarts: int = 0
    elastic: bool = False
    first_run: str | None = None
    cache: Literal["cold", "warm"] | None = None
    notes: tuple[str, ...] = ()
    fetch: tuple[str, ...] = ()
    fetch_gb: float = 2.0
    environment: Requirements = field(default_factory=Requirements)
    variables: Variables = field(default_factory=Variables)
    keep: tuple[str, ...] = ()
