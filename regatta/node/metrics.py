"""A node's services, GPUs and runs in progress, for Prometheus: `python3 -m regatta.node.metrics STATE ADDRESS PORT`.

Everything is looked up when it is asked for: a series is there while its run is, and a run that was killed, or went
down with its host, has none.
"""

from __future__ import annotations

import http.server
import itertools
import re
import sys
import threading
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Tuple

from regatta.node import frameworks, gpus, progress, queuemetrics, rundirs
from regatta_protocol.run import PlanKept
from regatta_protocol.states import Mode

if TYPE_CHECKING:
    from regatta_protocol.place import Place

Labels = Dict[str, str]
Sample = Tuple[str, Labels, float]

DRIVER = "-1"
MOST_RUNS = 50
"""A node that has more runs at a time shows the first by name."""
LABEL_LENGTH = 100
TIMEOUT_SECONDS = 10.0
GPU_SECONDS = 10.0
OF_GPUS = {
    "regatta_gpu_utilization_ratio": ("utilization", "Part of the last seconds in which a GPU worked, 0 to 1."),
    "regatta_gpu_memory_used_bytes": ("memory_used", "Memory of a GPU in use."),
    "regatta_gpu_memory_total_bytes": ("memory_total", "Memory of a GPU."),
    "regatta_gpu_temperature_celsius": ("temperature", "Temperature of a GPU."),
    "regatta_gpu_power_watts": ("power", "Power that a GPU draws."),
}
"""Each series of a GPU, with its figure as `gpus.FIGURES` names it."""
OF_FRAMEWORKS = frameworks.metrics()
HELP = {
    "regatta_service_up": "Whether a service that provisioning made here is started.",
    "regatta_run_info": "A run that has processes here.",
    "regatta_run_start_time_seconds": "When the run was started, Unix time.",
    "regatta_run_quiet_seconds": "Seconds since a run has printed anything here.",
    "regatta_run_rank_info": "A rank of a run, its node, and the last phase that has ended (running: it tells none).",
    "regatta_run_progress_done": "Units of what a rank counts that are done.",
    "regatta_run_progress_total": "Units that there are in all.",
    "regatta_run_loss": "Loss as a rank has told it last.",
    "regatta_run_residual": "Residual as a rank has told it last.",
    **queuemetrics.HELP,
    **{name: text for name, (_, text) in OF_GPUS.items()},
    **{name: text for module in OF_FRAMEWORKS for name, text in module.HELP.items()},
}


def samples(place: Place, runs: progress.Runs) -> Iterator[Sample]:
    """Every series of this node with its value."""
    started = set(progress.units())
    for service in progress.installed():
        yield "regatta_service_up", {"service": service}, float(service in started)
    yield from queuemetrics.samples()
    for module in OF_FRAMEWORKS:
        yield from module.samples()
    for number, run in enumerate(runs.going()):
        if number == MOST_RUNS:
            break
        yield from _run(place, run)


def of_gpus(cards: List[Dict[str, Any]]) -> Iterator[Sample]:
    """The series of cards of which `gpus.Meter` tells."""
    for card in cards:
        labels = {"gpu": card["index"], "uuid": card["uuid"], "name": card["name"]}
        for name, (figure, _) in OF_GPUS.items():
            if figure in card:
                yield name, labels, card[figure]


def _run(place: Place, run: dict[str, Any]) -> Iterator[Sample]:
    spec = rundirs.spec(place, run["id"], rundirs.SHARE_BYTES)
    if spec is None:
        return
    # The folder of a Ray run is on every node; its own process is the driver, on the head.
    if spec.mode is Mode.MEMBER and rundirs.supervisor_pid(place, run["id"]) is None:
        return
    plan = spec.plan or PlanKept()
    nodes = plan.ranks
    own = {str(one.rank) for one in spec.ranks}
    shown = nodes if DRIVER in own else own & set(nodes)
    named = {"run": run["id"]}
    about = {"workload": plan.label, "framework": run["framework"], "workers": str(len(nodes))}
    yield "regatta_run_info", {**named, **about}, 1.0
    yield "regatta_run_start_time_seconds", named, float(spec.started or 0.0)
    yield "regatta_run_quiet_seconds", named, float(run["quiet"])
    for rank in sorted(shown, key=int):
        state = run["ranks"].get(rank, {})
        place_of = {**named, "rank": rank, "node": nodes[rank]}
        yield "regatta_run_rank_info", {**place_of, "phase": state.get("phase", run["phase"])}, 1.0
        yield from _progress(place_of, state.get("progress") or {})


def _progress(labels: Labels, told: dict[str, Any]) -> Iterator[Sample]:
    counted = {**labels, "what": str(told.get("what", ""))}
    for name, key, its in (
        ("regatta_run_progress_done", "done", counted),
        ("regatta_run_progress_total", "total", counted),
        ("regatta_run_loss", "loss", labels),
        ("regatta_run_residual", "residual", labels),
    ):
        if isinstance(told.get(key), (int, float)):
            yield name, its, float(told[key])


def exposition(found: Iterator[Sample]) -> str:
    """Samples in Prometheus' text format, each name's together."""
    lines: dict[str, List[str]] = {}
    for name, labels, value in found:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.setdefault(name, []).append(f"{name}{{{pairs}}} {value!r}")
    return "".join(
        f"# HELP {name} {HELP[name]}\n# TYPE {name} gauge\n" + "\n".join(of) + "\n" for name, of in lines.items()
    )


def _escaped(text: object) -> str:
    """A label's value: one line of bounded length, whatever a run calls itself."""
    plain = re.sub(r"[^\x20-\x7e]", "?", str(text))[:LABEL_LENGTH]
    return plain.replace("\\", "\\\\").replace('"', '\\"')


class Server(http.server.ThreadingHTTPServer):
    """Serves `/metrics`; one look at a time."""

    daemon_threads = True

    def __init__(self, address: Tuple[str, int], place: Place) -> None:
        super().__init__(address, Handler)
        self._place = place
        self._runs = progress.Runs(place)
        self._gpus = gpus.Meter(GPU_SECONDS)
        self._lock = threading.Lock()

    def look(self) -> bytes:
        """Return what there is now."""
        with self._lock:
            found = itertools.chain(samples(self._place, self._runs), of_gpus(self._gpus.look()))
            return exposition(found).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    """GET /metrics."""

    timeout = TIMEOUT_SECONDS
    server: Server

    def do_GET(self) -> None:
        """Answer with what there is now, as text of Prometheus' format; 404 for every other path."""
        if self.path != "/metrics":
            self.send_error(404)
            return
        body = self.server.look()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def main() -> None:
    """Serve until the unit is stopped."""
    state, address, port = sys.argv[1:]
    Server((address, int(port)), {"state": state}).serve_forever()


if __name__ == "__main__":
    main()
