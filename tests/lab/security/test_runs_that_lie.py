"""Runs that would outlive their end: by SSH, by forging what they say, by stopping who watches them, by Ray."""

import secrets
from pathlib import Path

from clusters import Cluster, finish, read_until

LIES = """\
import json, os, subprocess, sys, time
os.environ["HOME"] = "/tmp"
for host in sys.argv[1:]:
    for login in (host, "regatta-relay@" + host):
        ssh = ["ssh", "-n", "-F", "/var/lib/regatta/.ssh/config", login]
        done = subprocess.run([*ssh, "id; setsid sleep 599"], capture_output=True, text=True, timeout=60)
        print("entered" if "uid=" in done.stdout else "refused", host, flush=True)
run = os.path.dirname(os.environ["REGATTA_SCRATCH"])
end = {"state": "succeeded", "code": 0, "failure": None, "codes": {}, "started": 1, "ended": 5}
open(run + "/exit.json", "w").write(json.dumps(end))
os.unlink(run + "/spec.json")
open(run + "/spec.json", "w").write(json.dumps({"framework": "x" * 7_000_000, "oom_kills": "x", "mode": "member"}))
error = {"event": "error", "rank": 0, "t": time.time(), "message": "\\x1b]52;c;aGk=\\x07 it lied"}
print("@regatta", json.dumps(error), flush=True)
print("has lied", flush=True)
time.sleep(600)
"""
STOPS = """\
import os, signal, time
os.kill(os.getppid(), signal.SIGSTOP)
time.sleep(600)
"""
STAYS = """\
import os, ray
ray.init()
@ray.remote(lifetime="detached", name="stays", namespace="n", max_restarts=-1, num_cpus=0)
class Stays:
    def pid(self):
        return os.getpid()
print("stays as", ray.get(Stays.remote().pid.remote()), flush=True)
"""


def project(folder: Path, name: str, text: str) -> Path:
    folder.mkdir()
    (folder / name).write_text(text)
    return folder


def left(cluster: Cluster, title: str) -> list[str]:
    """Processes of this title on all nodes."""
    found = [cluster.lab.ssh(node, f"pgrep -xaf '{title}'", check=False).stdout for node in cluster.lab.nodes]
    return [line for text in found for line in text.splitlines()]


def test_a_run_that_lies_is_listed_kept_and_cancelled_as_what_it_is(cluster: Cluster, tmp_path: Path) -> None:
    folder, run = project(tmp_path / "project", "lies.py", LIES), f"lies-{secrets.token_hex(2)}"
    nodes = cluster.lab.nodes
    process = cluster.background(folder, "torchrun", "--workers", "2", "--name", run, "lies.py", *nodes)
    said = read_until(process, "has lied")
    try:
        assert "refused" in said and "entered" not in said
        listed = cluster.fab("runs").stdout
        assert [line.split()[1] for line in listed.splitlines() if line.startswith(run)] == ["running"]
        assert run not in cluster.fab("runs-gc", "--before", "0m", "--yes").stdout
        assert f"still running: {run}" in cluster.make("rotate-secrets", check=False).stdout
        assert "cancelled on" in cluster.fab("cancel", run).stdout
    finally:
        cluster.fab("cancel", run, check=False)
        said += finish(process)
    assert "it lied" in said and "\x1b" not in said
    assert cluster.nothing_runs(run)
    assert left(cluster, "sleep 599") == []


def test_a_run_that_stops_its_supervisor_ends_at_its_time_limit(cluster: Cluster, tmp_path: Path) -> None:
    folder = project(tmp_path / "project", "stops.py", STOPS)
    done = cluster.regatta(folder, "torchrun", "--workers", "1", "--time-limit", "2", "stops.py", check=False)
    assert done.returncode == 124 and "time limit of 2 s" in done.stdout


def test_a_detached_actor_ends_with_its_run(cluster: Cluster, tmp_path: Path) -> None:
    folder = project(tmp_path / "project", "stays.py", STAYS)
    for _ in range(2):  # the name is free again
        said = cluster.regatta(folder, "rayrun", "stays.py").stdout
        assert "stays as" in said
        assert left(cluster, "ray::Stays") == []
