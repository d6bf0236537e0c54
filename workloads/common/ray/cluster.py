"""The Ray that a run uses: how its driver joins it, what its ranks have in their environment, what it consists of."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workloads.common import events, failures

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")

_OBJECT_STORE_BYTES = 128 << 20
_INHERITED = ("RAY_JOB_CONFIG_JSON_ENV_VAR", "REGATTA_RUN_ID")
"""Variables; if one is set, actors have the driver's environment already; giving it again costs 1.5 s to start them
again.
"""
_ROOT = Path(__file__).resolve().parents[3]

Node = dict[str, Any]
"""A node as ``ray.nodes()`` tells of it."""


@contextlib.contextmanager
def driver() -> Iterator[dict[str, Any]]:
    """Make this process the driver; gives the arguments for ``ray.init``, and leaves Ray in the end.

    A rank that fails is reported at once, and ends the process. Ray reads its environment when it is imported: what is
    done with this may import it, this module must not.
    """
    events.set_rank(events.DRIVER)
    with _arguments() as arguments:
        import ray

        try:
            with failures.said():
                yield arguments
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _arguments() -> Iterator[dict[str, Any]]:
    """For ``ray.init``: of the cluster at ``RAY_ADDRESS``, or of a private one with its own token."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if os.environ.get("RAY_ADDRESS"):
        inherited = any(os.environ.get(name) for name in _INHERITED)
        yield {} if inherited else {"runtime_env": {"env_vars": _passed_on()}}
        return
    with tempfile.TemporaryDirectory(prefix="regatta-ray-", ignore_cleanup_errors=True) as folder:
        if not os.environ.get("RAY_AUTH_MODE"):
            token = Path(folder) / "token"
            token.touch(mode=0o600)
            token.write_text(secrets.token_hex(32))
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token))
        os.environ.update(_passed_on())
        yield {
            "include_dashboard": False,
            "object_store_memory": _OBJECT_STORE_BYTES,
            "_temp_dir": folder,
            "_node_ip_address": "127.0.0.1",
        }


def _passed_on() -> dict[str, str]:
    """Return what actors must have in their environment before they import anything."""
    passed = {name: value for name, value in os.environ.items() if name.startswith("REGATTA_")}
    passed.update({name: value for name, value in threads().items() if value})
    passed["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    return passed


def threads() -> dict[str, str | None]:
    """The thread counts that libraries see when they are imported here."""
    return {name: os.environ.get(name) for name in THREAD_VARIABLES}


def workers(nodes: Sequence[Node]) -> int:
    """Return how many ranks: ``REGATTA_WORKERS``, or one a core."""
    return int(os.environ.get("REGATTA_WORKERS") or max(resource(nodes, "CPU"), 1))


def resource(nodes: Sequence[Node], name: str) -> int:
    """Return how much of a resource the cluster has."""
    return sum(int(node["Resources"].get(name, 0)) for node in nodes if node["Alive"])
