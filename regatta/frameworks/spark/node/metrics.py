"""The metrics of a node's Spark daemons, as their Prometheus sinks say it on their pages on loopback."""

from __future__ import annotations

import json
import re
from typing import Dict, Iterator, Tuple

Sample = Tuple[str, Dict[str, str], float]

CONF = "/etc/regatta/spark.json"
PATH = "/metrics/prometheus/"
TIMEOUT_SECONDS = 2.0
MOST_BYTES = 1 << 20
MIB = 1 << 20
SERIES = {
    "metrics_master_aliveWorkers_Value": ("spark_master_alive_workers", 1),
    "metrics_master_workers_Value": ("spark_master_workers", 1),
    "metrics_master_apps_Value": ("spark_master_applications", 1),
    "metrics_master_waitingApps_Value": ("spark_master_waiting_applications", 1),
    "metrics_worker_executors_Value": ("spark_worker_executors", 1),
    "metrics_worker_coresUsed_Value": ("spark_worker_cores_used", 1),
    "metrics_worker_coresFree_Value": ("spark_worker_cores_free", 1),
    "metrics_worker_memUsed_MB_Value": ("spark_worker_memory_used_bytes", MIB),
    "metrics_worker_memFree_MB_Value": ("spark_worker_memory_free_bytes", MIB),
}
"""Spark's name of each -> ours, and what its value is multiplied by."""
HELP = {
    "spark_master_alive_workers": "Workers of Spark that its master hears of.",
    "spark_master_workers": "Workers of Spark that have registered, also lost ones.",
    "spark_master_applications": "Applications of Spark that wait or run.",
    "spark_master_waiting_applications": "Applications of Spark that have no executor yet.",
    "spark_worker_executors": "Executors of this worker of Spark.",
    "spark_worker_cores_used": "Cores of this worker that executors hold.",
    "spark_worker_cores_free": "Cores of this worker that no executor holds.",
    "spark_worker_memory_used_bytes": "Memory of this worker that was given to executors.",
    "spark_worker_memory_free_bytes": "Memory of this worker that no executor was given.",
}
_LINE = re.compile(r"(\w+)(?:\{[^}]*\})? (-?[\d.]+(?:[eE][-+]?\d+)?)$", re.M)


def samples() -> Iterator[Sample]:
    """Series of the master and the worker that provisioning made here; a daemon that does not answer has none."""
    try:
        with open(CONF) as file:
            told = json.load(file)
    except (OSError, ValueError):
        return
    for daemon in ("page", "worker"):
        if told.get(daemon):
            yield from parse(_page(int(told[daemon])))


def parse(text: str) -> Iterator[Sample]:
    """Those lines of a sink that we pass on."""
    for name, value in _LINE.findall(text):
        if name in SERIES:
            ours, unit = SERIES[name]
            yield ours, {}, float(value) * unit


def _page(port: int) -> str:
    import urllib.request  # takes longer than most looks at a node do

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}{PATH}", timeout=TIMEOUT_SECONDS) as answer:
            return str(answer.read(MOST_BYTES).decode("utf-8", "replace"))
    except OSError:
        return ""
