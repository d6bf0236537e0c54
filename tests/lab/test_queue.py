"""The cluster's queue on two hosts: runs take turns, with and without a controller; nothing holds nodes after that."""

import contextlib
import http.server
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typed_json
from clusters import Cluster, finish, known, read_until, wait_for
from provisioning import changed, left, logged, play, provision, teardown

from lab.handle import LabHandle, read_lab
from regatta.node import queuemetrics

pytestmark = pytest.mark.whole
SCRIPT = """\
import os, sys, time
print("begins", os.environ["RANK"], "on", *sorted(os.sched_getaffinity(0)), flush=True)
time.sleep(float(sys.argv[1]))
if os.environ["RANK"] == sys.argv[2]:
    raise SystemExit(7)
print("ends", os.environ["RANK"], flush=True)
"""
WAITS = "waits for its turn"
THEIRS = """\
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update && apt-get -qq install --no-install-recommends munge slurm-client slurmd %(daemons)s > /dev/null
printf %%s '%(key)s' > /etc/munge/munge.key
cat > /etc/slurm/slurm.conf << END
%(conf)s
END
mkdir -p /var/lib/slurm/slurmctld && chown slurm /var/lib/slurm/slurmctld
systemctl restart munge slurmd %(daemons)s
"""
"""Slurm as others set it up, with the distribution's units; the partition `half` has one host."""
THEIR_STATE = """\
find /etc/slurm /etc/munge /etc/systemd /usr/sbin/slurm* /var/lib/slurm -path /etc/systemd/system -prune -o \
    -path /var/lib/slurm/slurmctld -prune -o -path /var/lib/slurm/slurmd -prune -o -type f -print0 | xargs -0 sha256sum
ls /etc/systemd/system /var/lib/slurm | grep -v regatta
systemctl show --property=MainPID munge slurmd %(daemons)s
dpkg --list 'slurm*' munge
"""

KEY = "head -c 64 /dev/urandom | base64 -w0 >/etc/regatta/slurm/munge.key"
DROP_IN = "/run/systemd/system/regatta-munge.service.d"
CLOCK = f"""\
apt-get -qq update && apt-get -qq install --no-install-recommends faketime >/dev/null
mkdir {DROP_IN}
echo "[Service]" >{DROP_IN}/clock.conf
echo "Environment=FAKETIME=+2h LD_PRELOAD=$(dpkg -L libfaketime | grep /libfaketime.so.1)" >>{DROP_IN}/clock.conf"""
"""Two ways in which MUNGE on a host lacks the others' trust: by its key, and by its clock."""


@contextlib.contextmanager
def listening() -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """A server that hosts reach: its port, and what it was sent; below /hangs it answers only at the end."""
    heard: list[dict[str, Any]] = []
    end = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if self.path == "/hangs":
                end.wait()
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("0.0.0.0", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, heard
        finally:
            end.set()
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def bare(make_lab: Callable[..., LabHandle]) -> LabHandle:
    """Two fresh hosts. `$REGATTA_TEST_QUEUE_LAB` names such a lab to use instead."""
    name = os.environ.get("REGATTA_TEST_QUEUE_LAB")
    lab = read_lab(name) if name else make_lab(nodes=2)
    settings = lab.inventory / "group_vars/all.yml"
    settings.parent.mkdir(exist_ok=True)
    off = dict.fromkeys(("hdfs_enabled", "monitoring_enabled", "shared_folder_enabled"), False)
    settings.write_text(json.dumps(off))
    return lab


@pytest.fixture(scope="module")
def queue(bare: LabHandle) -> Cluster:
    """They have Slurm."""
    provision(bare)
    made = Cluster(bare)
    made.fab("runs-gc", "--before", "0m", "--yes")  # names of an earlier session's runs are free again
    return made


@pytest.fixture(scope="module")
def people(queue: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cluster]:
    """Two people: they share an account, and each has a key of their own."""
    copy = tmp_path_factory.mktemp("bob") / queue.lab.name
    shutil.copytree(queue.lab.inventory, copy)
    key = copy / "secrets" / "lab_key"
    key.unlink()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    for node in queue.lab.nodes:
        queue.lab.ssh(node, f"echo {key.with_name('lab_key.pub').read_text().strip()} >> ~/.ssh/authorized_keys")
    return {"ann": queue, "bob": Cluster(replace(queue.lab, inventory=copy))}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A project with a script: seconds that it takes, and the rank that fails (or none)."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "job.py").write_text(SCRIPT)
    return folder


def entries(cluster: Cluster, folder: Path) -> list[dict[str, Any]]:
    """The queue now."""
    said = cluster.regatta(folder, "queue", "--json").stdout
    return [vars(one) for one in typed_json.read("queue", said).entries]


def names(cluster: Cluster, folder: Path) -> list[str]:
    """The names of runs in the queue now."""
    return [one["run"] for one in entries(cluster, folder)]


def listed(cluster: Cluster, folder: Path) -> dict[str, dict[str, Any]]:
    """Ended runs by name, with records of those that no controller has followed."""
    cluster.regatta(folder, "runs")  # it writes records, and prints that
    return {one["run"]: one for one in known(cluster, folder)}


def job(workers: int, name: str, seconds: float, fails: int = -1, *options: str) -> list[str]:
    """A command that starts the script."""
    words = ["torchrun", "--workers", str(workers), "--name", name, *options]
    return [*words, "job.py", str(seconds), str(fails)]


@pytest.mark.provisioning
def test_a_host_with_another_slurm_is_refused_before_it_is_changed(bare: LabHandle) -> None:
    node = bare.nodes[1]
    if bare.ssh(node, "ls -d /etc/regatta 2>/dev/null; true").stdout:
        pytest.skip("these hosts have Regatta's")
    bare.ssh(node, "sudo mkdir -p /etc/slurm && echo ClusterName=theirs | sudo tee /etc/slurm/slurm.conf")
    said = play(bare, "provision", good=False)
    assert f"{node} has a Slurm that Regatta did not make" in said and "Nothing was" in said
    assert bare.ssh(bare.nodes[0], "ls /etc/regatta 2>&1; true").stdout.startswith("ls:")
    bare.ssh(node, "sudo rm -r /etc/slurm")


def test_runs_that_say_their_cores_share_nodes(queue: Cluster, own: Path) -> None:
    first = queue.background(own, *job(2, "shares-1", 600, -1, "--cores", "1"))
    second = queue.background(own, *job(2, "shares-2", 600, -1, "--cores", "1"))
    cores = []
    for process in (first, second):
        said = "".join(read_until(process, "begins") for _ in range(2))
        cores.append({*re.findall(r"begins (\d on \d)$", said, re.M)})  # of ranks that are on the same nodes
    assert len(cores[0]) == len(cores[1]) == 2 and not cores[0] & cores[1], cores
    queue.regatta(own, "cancel", "shares-2")
    finish(second)
    queue.regatta(own, *job(2, "shares-3", 600, -1, "--cores", "1", "--detach"))
    wait_for(lambda: len(re.findall("begins", queue.regatta(own, "logs", "shares-3", check=False).stdout)) == 2, 60)
    said = queue.regatta(own, "logs", "shares-3").stdout
    assert {*re.findall(r"begins (\d on \d)$", said, re.M)} == cores[1]
    third = queue.background(own, *job(1, "whole", 0))
    assert "hold nodes" in read_until(third, WAITS)
    for name in ("shares-1", "shares-3"):
        queue.regatta(own, "cancel", name)
    finish(first)
    assert "ends 0" in finish(third)
    ended = listed(queue, own)
    assert ended["shares-1"]["beside"] == ["shares-2", "shares-3"] and ended["whole"]["beside"] == []
    for words, why in (
        (job(1, "no", 0, -1, "--cores", "1", "--now"), "--cores needs a turn"),
        (job(1, "no", 0, -1, "--cores", "64"), "got no nodes from the queue"),
        (["rayrun", "--name", "no", "--cores", "1", "job.py", "0", "-1"], "places work itself"),
    ):
        assert why in queue.regatta(own, *words, check=False).stdout


def test_the_queue_counts_memory_and_the_units_of_runs_have_it_as_their_limit(queue: Cluster, own: Path) -> None:
    """Hosts of a lab cannot write to their cgroups: what systemd was told is proven, and not what the kernel does."""
    asked = ("--cores", "1", "--memory")
    whole = int(queue.lab.ssh(queue.lab.nodes[0], "sinfo --all --noheader --format=%m").stdout.splitlines()[0]) / 953.7
    first = queue.background(own, *job(2, "most-of-it", 600, -1, *asked, f"{0.8 * whole:.2f}"))
    read_until(first, "begins")
    unit = queue.lab.ssh(queue.lab.nodes[0], "systemctl show -p MemoryMax --value regatta-run-most-of-it").stdout
    assert abs(int(unit) / 1e9 - 0.8 * whole) < 0.01 * whole
    second = queue.background(own, *job(2, "as-much", 0, -1, *asked, f"{0.4 * whole:.2f}"))
    read_until(second, WAITS)
    assert "ends" in queue.regatta(own, *job(2, "a-little", 0, -1, *asked, f"{0.1 * whole:.2f}")).stdout
    queue.regatta(own, "cancel", "most-of-it")
    finish(first)
    assert "ends 0" in finish(second)
    said = queue.regatta(own, *job(1, "no", 0, -1, "--detach", "--memory", f"{2 * whole:.2f}"), check=False).stdout
    assert "the queue refused no" in said


def test_runs_without_a_controller_start_in_turn_and_end_everywhere_when_one_rank_fails(
    queue: Cluster, own: Path
) -> None:
    assert "queued." in queue.regatta(own, *job(4, "alone-1", 600, -1, "--detach")).stdout
    assert "behind alone-1" in queue.regatta(own, *job(4, "alone-2", 60, 3, "--detach")).stdout
    assert (
        "is in the queue, or was here: choose"
        in queue.regatta(own, *job(4, "alone-2", 1, -1, "--detach"), check=False).stdout
    )
    queue.regatta(own, *job(1, "alone-3", 0, -1, "--detach"))
    assert names(queue, own)[-2:] == ["alone-2", "alone-3"]
    assert "alone-3 has not begun" in queue.regatta(own, "attach", "alone-3", check=False).stdout
    assert "alone-3" in queue.regatta(own, *job(1, "alone-5", 0, -1, "--detach", "--after", "alone-3")).stdout
    assert "needs --detach" in queue.regatta(own, *job(1, "no", 0, -1, "--after", "alone-3"), check=False).stdout
    queue.regatta(own, "cancel", "alone-2")
    queue.regatta(own, *job(4, "alone-4", 1, 3, "--detach"))
    queue.regatta(own, *job(4, "alone-6", 1, -1, "--detach", "--after", "alone-4"))
    queue.regatta(own, "cancel", "alone-1")
    wait_for(lambda: names(queue, own) == ["alone-6"], 60)
    assert "the run before did not succeed" in queue.regatta(own, "queue").stdout
    queue.regatta(own, "cancel", "alone-6")
    ended = listed(queue, own)
    assert {name: one["state"] for name, one in ended.items() if name.startswith("alone")} == {
        "alone-1": "cancelled",
        "alone-3": "succeeded",
        "alone-4": "failed",
        "alone-5": "succeeded",
    }
    order = [name for name in ended if name.startswith("alone")]
    assert order[:2] == ["alone-1", "alone-3"] and {*order[2:]} == {"alone-4", "alone-5"}
    assert "rank 3: exited with code 7" in queue.regatta(own, "show", "alone-4").stdout
    assert queue.nothing_runs("alone-4")


def test_a_run_without_a_controller_takes_the_nodes_that_are_free_when_it_begins(queue: Cluster, own: Path) -> None:
    first, second = queue.lab.nodes
    holder = queue.background(own, *job(1, "one-node", 600))
    read_until(holder, "begins")
    held = entries(queue, own)[0]["nodes"]
    queue.regatta(own, *job(1, "other-node", 0, -1, "--detach"))
    wait_for(lambda: names(queue, own) == ["one-node"], 60)
    assert held == [first] and listed(queue, own)["other-node"]["state"] == "succeeded"
    kept = json.loads((own.parent / "results/other-node.json").read_text())
    assert [one["node"] for one in kept["ranks"]] == [second] and [*kept["cluster"]["nodes"]] != []
    queue.regatta(own, "cancel", "one-node")
    finish(holder)

    every = queue.background(own, *job(4, "both-nodes", 600))
    read_until(every, "begins")
    queue.regatta(own, *job(1, "after-a-loss", 0, -1, "--detach"))
    queue.lab.off(second)
    finish(every)
    wait_for(lambda: not names(queue, own), 120)
    queue.lab.on(second)
    wait_for(lambda: "idle" in queue.lab.ssh(first, f"sinfo --all --noheader --nodes={second} --format=%t").stdout, 300)
    assert listed(queue, own)["after-a-loss"]["state"] == "succeeded"


def test_a_node_is_lost_while_a_run_starts_on_it_and_while_one_waits_for_it(queue: Cluster, own: Path) -> None:
    """Slurm still believes in it when the run begins; then it gives nothing to it until it is back."""
    first, second = queue.lab.nodes
    partition = "sudo scontrol update partitionname=all state="
    queue.lab.ssh(first, f"{partition}down")
    for name in ("starts-in-half", "waits-for-both"):
        queue.regatta(own, *job(4, name, 0, -1, "--detach"))
    queue.lab.off(second)
    queue.lab.ssh(first, f"{partition}up")
    try:
        wait_for(lambda: names(queue, own) == ["waits-for-both"], 120)
        wait_for(lambda: f"Slurm gives no run to {second}" in queue.regatta(own, "queue").stdout, 120)
        assert not queue.processes(first, "REGATTA_RUN_ID=starts-in-half")
    finally:
        queue.lab.on(second)
    wait_for(lambda: not names(queue, own), 300)
    ended = listed(queue, own)
    assert (ended["starts-in-half"]["state"], ended["waits-for-both"]["state"]) == ("failed", "succeeded")
    assert f"it could not start: {second} did not answer" in queue.regatta(own, "logs", "starts-in-half").stdout
    assert queue.nothing_runs("starts-in-half")


def test_a_run_that_cannot_start_without_a_controller_says_why(queue: Cluster, own: Path) -> None:
    ahead = queue.background(own, *job(4, "ahead", 600))
    read_until(ahead, "begins")
    queue.regatta(own, *job(4, "in-vain", 0, -1, "--detach"))
    release = queue.lab.ssh(queue.lab.nodes[1], "sudo ls -t /opt/regatta/releases | head -n 1").stdout.strip()
    queue.lab.ssh(queue.lab.nodes[1], f"sudo mv /opt/regatta/releases/{release} /opt/away")
    queue.regatta(own, "cancel", "ahead")
    finish(ahead)
    wait_for(lambda: not names(queue, own), 60)
    queue.lab.ssh(queue.lab.nodes[1], f"sudo mv /opt/away /opt/regatta/releases/{release}")
    assert listed(queue, own)["in-vain"]["state"] == "failed"
    why = f"{queue.lab.nodes[1]}: it could not start: release {release} is not on this node"
    assert why in queue.regatta(own, "show", "in-vain").stdout
    assert "it could not start: release" in queue.regatta(own, "logs", "in-vain").stdout
    assert queue.nothing_runs("in-vain")


def test_workloads_restarts_and_ray_scripts_do_without_a_controller(queue: Cluster, own: Path) -> None:
    queue.fab("run-pi", "--workers", "2", "--framework", "ray", "--name", "a-workload", "--detach")
    (own / "once.py").write_text(
        "import os, pathlib, sys\n"
        "mark = pathlib.Path('mark')\n"
        "if not mark.exists():\n    mark.touch()\n    sys.exit(3)\n"
    )
    queue.regatta(own, "torchrun", "--workers", "1", "--restarts", "1", "--name", "restarted", "--detach", "once.py")
    (own / "on_ray.py").write_text(
        "import ray, sys\nray.init()\n"
        "alive = [one for one in ray.nodes() if one['Alive']]\n"
        "print('nodes', len(alive), ray.get(ray.remote(lambda: 7).remote()))\nsys.exit(int(sys.argv[1]))\n"
    )
    for name, code in (("on-ray", "0"), ("fails-on-ray", "3")):
        queue.regatta(own, "rayrun", "--workers", "2", "--name", name, "--detach", "on_ray.py", code)
    wait_for(lambda: not names(queue, own), 180)
    ended = listed(queue, own)
    states = {name: ended[name]["state"] for name in ("a-workload", "restarted", "on-ray", "fails-on-ray")}
    assert states == {**dict.fromkeys(("a-workload", "restarted", "on-ray"), "succeeded"), "fails-on-ray": "failed"}
    assert "nodes 2 7" in queue.regatta(own, "logs", "on-ray").stdout
    assert queue.nothing_runs("on-ray") and queue.nothing_runs("fails-on-ray")


ELASTIC = """\
import os, time
run, first, rank = (os.environ[name] for name in ("REGATTA_RUN_ID", "REGATTA_FIRST_RUN", "RANK"))
print("begins", rank, "of", os.environ["WORLD_SIZE"], flush=True)
time.sleep(600 if run == first else 0)
"""


def test_an_elastic_run_without_a_controller_continues_without_a_lost_node(queue: Cluster, own: Path) -> None:
    first, second = queue.lab.nodes
    (own / "elastic.py").write_text(ELASTIC)
    elastic = ("torchrun", "--workers", "4", "--elastic", "--detach", "--name")
    queue.regatta(own, *job(2, "fails-by-itself", 0, 1, "--elastic", "--detach"))
    queue.regatta(own, *elastic, "cancelled", "elastic.py")
    queue.regatta(own, "cancel", "cancelled")
    queue.regatta(own, *elastic, "shrinks", "elastic.py")
    wait_for(lambda: queue.regatta(own, "logs", "shrinks", check=False).stdout.count("of 4") == 4, 180)
    unit, program = "regatta-further-shrinks", "/var/lib/slurm/regatta/.further-fails-by-itself"
    queue.lab.ssh(first, f"sudo systemctl stop {unit}; sudo systemctl restart regatta-slurmctld")  # as a reboot does
    wait_for(lambda: not queue.lab.ssh(first, f"systemctl is-active {unit}", check=False).returncode, 60)
    wait_for(lambda: queue.lab.ssh(first, f"sudo ls {program}", check=False).returncode, 120)
    queue.lab.off(second)
    try:
        wait_for(lambda: queue.regatta(own, "logs", "shrinks-g2", check=False).stdout.count("of 2") == 2, 180)
    finally:
        queue.lab.on(second)
    wait_for(lambda: "idle" in queue.lab.ssh(first, f"sinfo --all --noheader --nodes={second} --format=%t").stdout, 300)
    wait_for(lambda: not queue.lab.ssh(first, "sudo find /var/lib/slurm/regatta -name '.further-*'").stdout, 120)
    ended = listed(queue, own)
    states = [ended[name]["state"] for name in ("fails-by-itself", "shrinks", "shrinks-g2")]
    assert (states[0], states[2]) == ("failed", "succeeded") and states[1] in ("failed", "lost"), states
    assert not {"fails-by-itself-g2", "cancelled-g2"} & {*ended}
    assert "generation 2 of shrinks, after a lost host" in queue.regatta(own, "show", "shrinks-g2").stdout
    assert (
        queue.nothing_runs("shrinks")
        and not queue.lab.ssh(
            first, "systemctl list-units --all --plain --no-legend 'regatta-further-*'"
        ).stdout.strip()
    )


def test_a_priority_is_among_ones_own_and_what_never_was_or_failed_comes_before_nothing(
    queue: Cluster, own: Path
) -> None:
    first = queue.background(own, *job(4, "in-front", 600))
    read_until(first, "begins")
    for name, priority in (("usual", "normal"), ("whenever", "low"), ("usual-2", "normal"), ("urgent", "high")):
        queue.regatta(own, *job(4, name, 0, -1, "--detach", "--priority", priority))
    assert names(queue, own)[1:] == ["urgent", "usual", "usual-2", "whenever"]
    assert "high priority" in queue.regatta(own, "queue").stdout
    said = queue.regatta(own, *job(1, "no", 0, -1, "--detach", "--priority", "soon"), check=False).stdout
    assert "must be one of low, normal, high" in said
    for before in ("no", "never-was"):
        said = queue.regatta(own, *job(1, "no", 0, -1, "--detach", "--after", before), check=False).stdout
        assert before in said and "Traceback" not in said
    queue.regatta(own, "cancel", "in-front")
    finish(first)
    wait_for(lambda: not names(queue, own), 120)
    order = [name for name in listed(queue, own) if name in ("urgent", "usual", "usual-2", "whenever")]
    assert order == ["urgent", "usual", "usual-2", "whenever"]
    said = queue.regatta(own, *job(1, "no", 0, -1, "--detach", "--after", "in-front"), check=False).stdout
    assert "in-front has" in said and "would never begin" in said


def test_prometheus_hears_that_the_queue_is_stuck_and_planned_nodes_are_well(queue: Cluster, own: Path) -> None:
    head = queue.lab.nodes[0]
    source = Path(queuemetrics.__file__).read_text() + "for one in samples():\n    print(one[0], one[2])\n"

    def heard() -> dict[str, float]:
        said = queue.lab.ssh(head, f"sudo runuser -u regatta -- python3 -c {shlex.quote(source)}").stdout
        return {name: float(value) for name, value in map(str.split, said.splitlines())}

    first = queue.background(own, *job(1, "on-one", 600, -1, "--time-limit", "900"))
    read_until(first, "begins")
    queue.regatta(own, *job(4, "on-both", 0, -1, "--detach"))
    wait_for(lambda: "plnd" in queue.lab.ssh(head, "sinfo --all --noheader --Node --format=%t").stdout, 60)
    assert "Slurm: 2 of 2 nodes take runs" in play(queue.lab, "verify")
    assert heard() == {"regatta_queue_holding": 1, "regatta_queue_waiting": 1, "regatta_queue_stuck": 0}
    queue.lab.ssh(head, "sudo scontrol update partitionname=all state=down")
    queue.regatta(own, "cancel", "on-one")
    finish(first)
    wait_for(lambda: heard() == {"regatta_queue_holding": 0, "regatta_queue_waiting": 1, "regatta_queue_stuck": 1})
    queue.lab.ssh(head, "sudo scontrol update partitionname=all state=up")
    wait_for(lambda: heard() == {"regatta_queue_holding": 0, "regatta_queue_waiting": 0, "regatta_queue_stuck": 0}, 60)


def test_somebody_is_told_of_runs_with_and_without_a_controller(queue: Cluster, own: Path) -> None:
    gateway = queue.lab.ssh(queue.lab.nodes[0], "ip route show default").stdout.split()[2]
    with listening() as (port, heard):
        url = f"http://{gateway}:{port}/key"
        queue.regatta(own, *job(1, "told", 0, -1, "--notify", url))
        queue.regatta(own, *job(2, "told-of-a-failure", 0, 1, "--detach", "--notify", url))
        queue.regatta(own, *job(2, "told-of-success", 0, -1, "--detach", "--notify", url))
        held = queue.regatta(own, *job(1, "hung", 0, -1, "--notify", url.replace("key", "hangs"))).stdout
        assert "has not got the message" in held
        said = queue.regatta(own, *job(1, "no", 0, -1, "--detach", "--notify", "mailto://a.example"), check=False)
        assert "apt install apprise" in said.stdout
        wait_for(lambda: len(heard) == 4, 60)
    assert {one["run"]: one["state"] for one in heard} == {
        "told": "succeeded",
        "told-of-a-failure": "failed",
        "told-of-success": "succeeded",
        "hung": "succeeded",
    }
    assert not queue.lab.ssh(queue.lab.nodes[0], "sudo ls -A /var/lib/slurm/notify").stdout


def test_what_a_killed_controller_held_is_free_when_its_run_has_ended(queue: Cluster, own: Path) -> None:
    going = queue.background(own, *job(4, "going", 30))
    read_until(going, "begins")
    waiting = queue.background(own, *job(4, "waiting", 0))
    read_until(waiting, WAITS)
    third = queue.background(own, *job(4, "third", 0))
    read_until(third, WAITS)
    for process in (going, waiting):
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    wait_for(lambda: names(queue, own) == ["going", "third"])
    assert "ends 0" in finish(third)
    ended = listed(queue, own)
    assert ended["going"]["state"] == ended["third"]["state"] == "succeeded" and "waiting" not in ended
    assert ended["third"]["beside"] == ended["going"]["beside"] == []


def test_ctrl_c_and_cancel_leave_the_queue(queue: Cluster, own: Path) -> None:
    going = queue.background(own, *job(4, "holder", 60))
    read_until(going, "begins")
    for name in ("by-hand", "from-elsewhere"):
        process = queue.background(own, *job(2, name, 0))
        read_until(process, WAITS)
        if name == "by-hand":
            os.killpg(process.pid, signal.SIGINT)
        else:
            assert "taken out of the queue" in queue.regatta(own, "cancel", name).stdout
        said = finish(process)
        assert process.returncode and "Traceback" not in said
        wait_for(lambda: names(queue, own) == ["holder"])
    queue.regatta(own, "cancel", "holder")
    finish(going)
    wait_for(lambda: not names(queue, own))


def test_people_take_turns_and_their_own_runs_keep_their_order(
    queue: Cluster, people: dict[str, Cluster], own: Path
) -> None:
    first = queue.background(own, *job(4, "until-all-wait", 600))
    read_until(first, "begins")
    for person, theirs in people.items():
        for number in range(4):
            theirs.regatta(own, *job(4, f"{person}-{number}", 0, -1, "--detach"))
    queue.regatta(own, "cancel", "until-all-wait")
    finish(first)
    wait_for(lambda: not names(queue, own), 180)
    order = [name for name in listed(queue, own) if name.startswith(("ann", "bob"))]
    assert order == [f"{person}-{number}" for number in range(4) for person in ("bob", "ann")]  # ann held the nodes


def test_waiting_runs_survive_the_power_of_the_head(queue: Cluster, own: Path) -> None:
    head = queue.lab.nodes[0]
    held = queue.background(own, *job(4, "held", 600))
    read_until(held, "begins")
    for number in range(4):
        queue.regatta(own, *job(4, f"later-{number}", 1, -1, "--detach"))
    queue.lab.off(head)
    queue.lab.on(head)
    finish(held)
    wait_for(lambda: not names(queue, own), 300)
    ended = {name: one for name, one in listed(queue, own).items() if name.startswith("later")}
    assert [one["state"] for one in ended.values()] == ["succeeded"] * 4
    twice = f"sudo scontrol update nodename={head} state=drain reason='Duplicate jobid'"  # as Slurm does where its
    queue.lab.ssh(head, f"{twice} && sudo systemctl restart regatta-slurmctld")  # state lacks a job that has begun
    wait_for(lambda: "idle" in queue.lab.ssh(head, f"sinfo --all --noheader --nodes={head} --format=%t").stdout, 60)


def test_many_runs_of_two_people_begin_once_and_in_turn_also_where_the_head_reboots(
    queue: Cluster, people: dict[str, Cluster], own: Path
) -> None:
    """200 of them, or `$REGATTA_TEST_QUEUE_RUNS`."""
    count, head = int(os.environ.get("REGATTA_TEST_QUEUE_RUNS", "200")), queue.lab.nodes[0]
    holder = queue.background(own, *job(4, "until-all-are-there", 36_000))
    read_until(holder, "begins")
    for number in range(count // 2):
        for person, theirs in people.items():
            theirs.regatta(own, *job(1, f"many-{person}-{number}", 0, -1, "--detach"))
    queue.regatta(own, "cancel", "until-all-are-there")
    finish(holder)
    wait_for(lambda: len(names(queue, own)) <= count // 2, 20 * count)
    queue.lab.off(head)
    queue.lab.on(head)
    wait_for(lambda: queue.regatta(own, "queue", check=False).stdout.startswith("no run holds"), 20 * count + 300)
    found = known(queue, own, "--count", str(10 * count))
    begun = tuple(f"many-{person}" for person in people)
    many = [one for one in found if one["run"].startswith(begun)]
    numbers = {person: [one["run"] for one in many if one["run"].startswith(person)] for person in begun}
    assert numbers == {person: [f"{person}-{number}" for number in range(count // 2)] for person in begun}
    for length in range(count):
        ahead = [one["run"].startswith(begun[0]) for one in many[:length]]
        assert abs(2 * sum(ahead) - length) <= 2
    broken = [one for one in many if one["state"] != "succeeded"]
    assert len(broken) <= len(queue.lab.nodes)  # those that worked when the power went


def test_waiting_runs_survive_the_loss_of_slurms_state(queue: Cluster, own: Path) -> None:
    head, second = queue.lab.nodes
    queue.regatta(own, *job(4, "begun", 600, -1, "--detach"))
    wait_for(lambda: entries(queue, own)[0]["holds"])
    waiting = (("kept-1",), ("kept-2", "--after", "kept-1"), ("kept-3", "--priority", "high"), ("withdrawn",))
    for name, *more in (*waiting, ("ended-in-slurm",)):
        queue.regatta(own, *job(4, name, 0, -1, "--detach", *more))
    queue.regatta(own, "cancel", "withdrawn")
    queue.lab.ssh(head, "sudo sh -c 'scancel --name ended-in-slurm && touch -d -1hour /var/lib/slurm/regatta/*'")
    assert names(queue, own) == ["begun", "kept-3", "kept-1", "kept-2"]  # and the copy of what was ended goes
    queue.lab.ssh(
        head,
        "sudo systemctl stop regatta-slurmctld && sudo find /var/lib/slurm/slurmctld -mindepth 1 -delete && "
        "sudo systemctl start regatta-slurmctld",
    )
    kept = ["kept-3", "kept-1", "kept-2"]
    wait_for(lambda: all(name in queue.regatta(own, "queue", check=False).stdout for name in kept), 200)
    assert [name for name in names(queue, own) if name.startswith("kept")] == kept
    wait_for(lambda: [one["run"] for one in entries(queue, own) if one["holds"]] == ["begun"], 60)
    ranks = " ".join(path.split("/")[2] for path in queue.processes(second, "RANK=3"))
    queue.lab.ssh(second, f"sudo kill -9 {ranks}")
    wait_for(lambda: queue.nothing_runs("begun"))
    wait_for(lambda: not names(queue, own), 200)
    ended = listed(queue, own)
    assert [name for name in ended if name.startswith("kept")] == kept
    assert {ended[name]["state"] for name in kept} == {"succeeded"} and not any(ended[name]["beside"] for name in kept)
    assert ended["begun"]["state"] == "failed" and not {"withdrawn", "ended-in-slurm"} & {*ended}


def test_a_run_that_works_and_one_that_waits_outlive_slurms_daemons(queue: Cluster, own: Path) -> None:
    queue.regatta(own, *job(4, "works-on", 60, -1, "--detach"))
    queue.regatta(own, *job(4, "waits-on", 0, -1, "--detach"))
    wait_for(lambda: entries(queue, own)[0]["holds"])
    on_the_disk = "sudo grep -l waits-on /var/lib/slurm/slurmctld/job_state"
    wait_for(lambda: queue.lab.ssh(queue.lab.nodes[0], on_the_disk, check=False).stdout)
    for node in queue.lab.nodes:
        main = "systemctl show --value --property=MainPID 'regatta-slurm*' regatta-munge"
        queue.lab.ssh(node, f"sudo kill -9 $({main})")
    wait_for(lambda: "no run holds nodes" in queue.regatta(own, "queue", check=False).stdout, 150)
    ended = listed(queue, own)
    assert {ended[name]["state"] for name in ("works-on", "waits-on")} == {"succeeded"}
    assert not any(ended[name]["beside"] for name in ("works-on", "waits-on"))


def test_a_head_without_room_refuses_a_run_and_keeps_the_others(queue: Cluster, own: Path) -> None:
    head = queue.lab.nodes[0]
    queue.regatta(own, *job(4, "before-full", 10, -1, "--detach"))
    full = "sudo sh -c 'mount -t tmpfs -o size=8k,mode=700 full /var/lib/slurm/regatta; head -c 8192 /dev/zero >"
    queue.lab.ssh(head, f"{full}/var/lib/slurm/regatta/.full || true'")
    try:
        done = queue.regatta(own, *job(4, "while-full", 0, -1, "--detach"), check=False)
        assert done.returncode and "No space left on device" in done.stdout and "Traceback" not in done.stdout
        assert "while-full" not in names(queue, own)
    finally:
        queue.lab.ssh(head, "sudo umount --lazy /var/lib/slurm/regatta")
    wait_for(lambda: not names(queue, own), 60)
    ended = listed(queue, own)
    assert ended["before-full"]["state"] == "succeeded" and "while-full" not in ended


@pytest.mark.provisioning
@pytest.mark.parametrize("wrong", [KEY, CLOCK], ids=["key", "clock"])
def test_a_host_that_munge_does_not_believe_is_named_and_comes_back(queue: Cluster, own: Path, wrong: str) -> None:
    """Its key differs, or its clock by two hours: daemons of Slurm there refuse each other's messages, and a run with a
    controller needs none of them.
    """
    first, second = queue.lab.nodes
    restart = "systemctl daemon-reload; systemctl restart regatta-munge regatta-slurmd"
    queue.lab.ssh(second, f"sudo sh -c {shlex.quote(f'set -e; {wrong}; {restart}')}")
    states = "sinfo --all --noheader --Node --format='%N %t'"
    wait_for(lambda: f"{second} down*" in queue.lab.ssh(first, states).stdout, 300)
    waits = queue.background(own, *job(4, "in-line", 0))
    read_until(waits, f"Slurm gives no run to {second}")
    os.killpg(waits.pid, signal.SIGINT)
    finish(waits)
    assert "ends 3" in queue.regatta(own, *job(4, "two-of-them", 0, -1, "--now")).stdout
    said = " ".join(play(queue.lab, "verify", good=False).split())
    assert f"Slurm gives no runs to {second}, which does not answer it" in said
    assert "its MUNGE key or its clock differs" in said
    if wrong == CLOCK:
        queue.lab.ssh(second, f"sudo sh -c 'rm -r {DROP_IN}; {restart}'")
    play(queue.lab, "provision")
    wait_for(lambda: f"{second} idle" in queue.lab.ssh(first, states).stdout, 120)
    assert "queued" in queue.regatta(own, *job(4, "one-again", 0, -1, "--detach")).stdout
    wait_for(lambda: listed(queue, own).get("one-again", {}).get("state") == "succeeded", 120)
    queue.fab("runs-gc", "--before", "0m", "--yes")  # the next one takes these names again


@pytest.mark.provisioning
def test_the_hosts_are_as_they_were_after_a_teardown(queue: Cluster) -> None:
    play(queue.lab, "provision")
    assert set(changed(queue.lab).values()) == {0}
    assert "Slurm: 2 of 2 nodes take runs" in play(queue.lab, "verify")
    teardown(queue.lab)
    assert "nothing is left" in logged(queue.lab)
    assert not any(left(queue.lab).values())
    for node in queue.lab.nodes:
        there = (
            "ls -d /etc/slurm/slurm.conf /var/lib/slurm/slurmctld /usr/sbin/munged /usr/sbin/slurmd 2>/dev/null; true"
        )
        assert not queue.lab.ssh(node, there).stdout


def test_runs_wait_in_a_slurm_that_is_there_and_nothing_of_it_changes(bare: LabHandle, own: Path) -> None:
    head, second = bare.nodes
    daemons = {head: "slurmctld", second: ""}
    conf = their_conf(bare)
    key = secrets.token_hex(64)
    for node in bare.nodes:
        script = THEIRS % {"daemons": daemons[node], "key": key, "conf": conf}
        bare.ssh(node, f"sudo sh -c {shlex.quote(script)}", timeout=300)
    wait_for(lambda: bare.ssh(head, "sinfo --noheader --partition=theirs --format=%t").stdout.split() == ["idle"], 60)

    def theirs() -> dict[str, str]:
        state = {node: THEIR_STATE % {"daemons": daemons[node]} for node in bare.nodes}
        return {node: bare.ssh(node, f"sudo sh -c {shlex.quote(text)}").stdout for node, text in state.items()}

    before, settings = theirs(), bare.inventory / "group_vars/all.yml"
    off = dict.fromkeys(("hdfs_enabled", "monitoring_enabled", "shared_folder_enabled"), False)
    settings.write_text(json.dumps({"slurm_existing": True, "slurm_partition": "half", **off}))
    said = play(bare, "provision", good=False)
    assert f"its partition half has no node named {second} (" in said and "Nothing was changed" in said
    settings.write_text(json.dumps({"slurm_existing": True, **off}))
    provision(bare)
    play(bare, "provision")
    assert set(changed(bare).values()) == {0}
    assert "Slurm: 2 of 2 nodes take runs" in play(bare, "verify")

    cluster = Cluster(bare)
    bare.ssh(head, "sudo sbatch --exclusive --nodes=2 --job-name=their-job --output=/dev/null --wrap='sleep 600'")
    waiting = cluster.background(own, *job(4, "attended", 0))
    assert "their-job (a job of Slurm" in read_until(waiting, WAITS)
    cluster.regatta(own, *job(4, "detached", 1, 3, "--detach"))
    assert names(cluster, own) == ["their-job", "attended", "detached"]
    bare.ssh(head, "sudo scancel --name=their-job")
    assert "ends 0" in finish(waiting)
    wait_for(lambda: not names(cluster, own), 60)
    ended = listed(cluster, own)
    assert (ended["attended"]["state"], ended["detached"]["state"]) == ("succeeded", "failed")
    teardown(bare)
    assert not any(left(bare).values()) and theirs() == before
    assert bare.ssh(head, "sudo srun --nodes=2 hostname").stdout.count("\n") == 2
    for node in bare.nodes:
        bare.ssh(node, "sudo apt-get -qq purge --yes munge 'slurm*' > /dev/null; sudo rm -rf /etc/slurm /var/lib/slurm")


def their_conf(lab: LabHandle) -> str:
    """A slurm.conf for all hosts of a lab."""
    named = {node: lab.ssh(node, "hostname").stdout.strip() for node in lab.nodes}
    head = lab.nodes[0]
    nodes = [f"NodeName={node} NodeHostname={named[node]} NodeAddr={lab.addresses[node]} CPUs=2" for node in lab.nodes]
    lines = [
        "ClusterName=theirs",
        f"SlurmctldHost={named[head]}({lab.addresses[head]})",
        "AuthType=auth/munge",
        "SlurmUser=slurm",
        "StateSaveLocation=/var/lib/slurm/slurmctld",
        "SlurmdSpoolDir=/var/lib/slurm/slurmd",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SlurmdParameters=config_overrides",
        "ReturnToService=2",
        *nodes,
        "PartitionName=theirs Nodes=ALL Default=YES",
        f"PartitionName=half Nodes={head}",
    ]
    return "\n".join(lines)
