"""Start a run, inject a fault, read the person's messages, and look for what is left."""

import os
import re
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import typed_json
from clusters import Cluster, read_until

NEXT_STEP = re.compile(
    r"\b((fab|regatta) (logs|status|attach|repair|cancel|up|hdfs-status)|(make|regatta) provision|journalctl|df -h)\b"
)
PATIENCE_SECONDS = 120.0
RECOVERY_SECONDS = 400.0
# Ray Train starts an actor for the whole cluster, once, which Ray itself starts again whenever it ends.
LEFT = r"""
systemctl list-units --all --plain --no-legend "regatta-run-*"
for environ in $(grep -lz "^REGATTA_RUN_ID=" /proc/[0-9]*/environ 2>/dev/null); do
    grep -qs AutoscalingCoordinator "${environ%environ}cmdline" || echo "$environ"
done
ss -Hltn "sport >= :29400 and sport <= :29499"
cd /var/lib/regatta/runs && ls -d */scratch */*.new /opt/regatta/releases/.incoming-* /tmp/rg-* 2>/dev/null
true
"""


@dataclass
class Run:
    """A run in progress: process ids of its ranks on their hosts, by rank."""

    name: str
    framework: str
    process: "subprocess.Popen[str]"
    order: str
    said: str
    pids: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """A command's output after a fault; `seconds` from the fault to `message`, to the end where there was none."""

    code: int
    message: str
    seconds: float
    said: str

    @property
    def first(self) -> str:
        """The message's first line."""
        return self.message.partition("\n")[0]


def new_name() -> str:
    """An unused name for a run."""
    return f"f-{secrets.token_hex(4)}"


def command(framework: str, script: str, name: str, *words: str, options: Sequence[str] = ()) -> list[str]:
    """Words of `regatta` that run a script, which gets `words`, with three ranks, one a host."""
    task = {"torch": "torchrun", "ray": "rayrun"}[framework]
    return [task, "--workers", "3", "--name", name, *options, f"{framework}_{script}.py", *words]


def begin(cluster: Cluster, project: Path, framework: str, *options: str, rounds: int = 10**6) -> Run:
    """A run of three ranks, one a host, that has got going."""
    name = new_name()
    order = f"/tmp/{name}"
    words = command(framework, "ranks", name, order, str(rounds), options=options)
    run = Run(name, framework, cluster.background(project, *words), order, "")
    while len(run.pids) < 3:
        run.said += read_until(run.process, " goes as ")
        run.pids = {int(rank): int(pid) for rank, pid in re.findall(r"rank (\d) goes as (\d+)", run.said)}
    return run


def trained_and_kept(process: "subprocess.Popen[str]") -> None:
    """Wait until a training that keeps each epoch has kept one.

    Of a rank at most one epoch a second is shown, and others pass unseen: before the second that is shown, the first
    has been kept.
    """
    shown = 0
    while shown < 2:
        shown += bool(re.search(r"/0 +\| epochs ", read_until(process, " epochs ")))


def tell_rank(cluster: Cluster, run: Run, word: str) -> None:
    """Let rank 1, on node2, do what `scripts` knows under this word."""
    cluster.lab.ssh("node2", f"echo {word} > {run.order}")


def strike(process: "subprocess.Popen[str]", fault: Callable[[], object], patience: float = PATIENCE_SECONDS) -> Told:
    """Strike, and read until the command ends; the clock runs from when the fault is there."""
    lines: list[tuple[float, str]] = []

    def read() -> None:
        assert process.stdout is not None
        lines.extend((time.monotonic(), line) for line in iter(process.stdout.readline, ""))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    before = time.monotonic()
    fault()
    struck = time.monotonic()
    reader.join(patience)
    if reader.is_alive():
        os.killpg(process.pid, 9)
        raise AssertionError(f"still running {patience:g} s after the fault:\n{joined(lines)}")
    code = process.wait()
    at = next((n for n, (_, line) in enumerate(lines) if line.startswith(("error: ", "interrupted"))), None)
    message = "" if at is None else "".join(line for _, line in lines[at:])
    told = time.monotonic() if at is None else lines[at][0]
    # A message that was there before the fault's own command returned came after it began.
    return Told(code, message, told - struck if told > struck else told - before, joined(lines))


def joined(lines: list[tuple[float, str]]) -> str:
    return "".join(line for _, line in lines)


def explained(told: Told, node: str, cause: str) -> None:
    """The command has failed, with one message that names node, cause and next step."""
    assert told.code not in (0, None), told.said
    assert told.message, told.said
    assert node in told.message, told.message
    assert re.search(cause, told.message), told.message
    assert NEXT_STEP.search(told.message), told.message
    assert not re.search(r"^(Traceback|  File )", told.said, re.M), told.said


def left(cluster: Cluster) -> dict[str, str]:
    """Processes, units, ports and half files of runs, by node."""

    def look(node: str) -> str:
        return cluster.lab.ssh(node, f"sudo sh -c '{LEFT}'", check=False).stdout.strip()

    with ThreadPoolExecutor() as pool:
        found = dict(zip(cluster.lab.nodes, pool.map(look, cluster.lab.nodes), strict=True))
    return {node: text for node, text in found.items() if text}


def nothing_left(cluster: Cluster, project: Path) -> None:
    """Nothing of runs is left on any host, nor half a record here; what is ending gets some time."""
    end = time.monotonic() + 60
    while (found := left(cluster)) and time.monotonic() < end:
        time.sleep(0.3)
    assert not found, found
    results = project.parent / "results"
    assert not list(results.glob(".*.new"))


def whole(cluster: Cluster) -> None:
    """All services of all hosts are back by themselves, and HDFS lacks no copy."""
    end = time.monotonic() + RECOVERY_SECONDS
    while not healthy(cluster):
        assert time.monotonic() < end, "services are not back:\n" + cluster.fab("status", check=False).stdout
        time.sleep(3)  # asking costs the hosts of this machine what they need to come back


def healthy(cluster: Cluster) -> bool:
    status = cluster.fab("status", "--json", check=False)
    if status.returncode:
        return False
    told = typed_json.read("status", status.stdout)
    joined_ray = sorted(told.members["ray"]) == sorted(cluster.lab.addresses.values())
    said = cluster.fab("hdfs-status", check=False).stdout
    return joined_ray and f"{len(cluster.lab.nodes)} live, 0 dead" in said and ", 0 with too few copies" in said


def next_run(cluster: Cluster, project: Path, framework: str) -> None:
    """A run just works."""
    done = cluster.regatta(project, *command(framework, "ranks", new_name(), "/none", "3"), check=False)
    assert done.returncode == 0, done.stdout
    assert "sum 3" in done.stdout
