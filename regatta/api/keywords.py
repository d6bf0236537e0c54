"""Options of a run as keyword arguments, made by `make docs` from `regatta/options/declaration.py`: edit that."""

from pathlib import Path
from typing import TypedDict


class RunKeywords(TypedDict, total=False):
    """See docs/reference/options.md. One that is missing, or None, is that of `regatta.toml` or its default."""

    workers: int | None
    name: str | None
    gpus: int | None
    time_limit: float | None
    requirements: str | Path | None
    with_: list[str] | tuple[str, ...]
    extra: list[str] | tuple[str, ...]
    group: list[str] | tuple[str, ...]
    no_environment: bool
    env: list[str] | tuple[str, ...]
    env_file: list[str] | tuple[str, ...]
    keep: list[str] | tuple[str, ...]
    fetch: list[str] | tuple[str, ...]
    max_gb: float
    now: bool
    cores: int | None
    threads_per_rank: int | None
    memory: float | None
    detach: bool
    priority: str
    after: str | None
    notify: list[str] | tuple[str, ...]
    launcher: str | None
    pg_timeout: int
    restarts: int
    elastic: bool
