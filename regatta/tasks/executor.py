"""Fabric's executor with words after `--` left to the task."""

from typing import Any

import fabric.executor


class Executor(fabric.executor.Executor):  # type: ignore[misc]
    """Fabric would run the words after `--` as a shell command on hosts; the tasks read them themselves."""

    def expand_calls(self, calls: Any, apply_hosts: bool = True) -> Any:
        """See fabric.executor.Executor."""
        self.core.remainder = ""
        return super().expand_calls(calls, apply_hosts=apply_hosts)
