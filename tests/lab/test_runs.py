"""Runs on three hosts: PageRank under both frameworks, scripts of a user, what happens when something breaks."""

import json
import os
import re
import secrets
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import typed_json
from clusters import Cluster, finish, read_until, record, wait_for

from regatta.hosts.hostkeys import Pin
from regatta.hosts.inventories import load
from regatta.hosts.remote import Remote
from regatta_protocol.operations.launch import Inspect

SESSION = secrets.token_hex(2)


def named(run: str) -> str:
    """A name for a run that an earlier session on the same lab has not used."""
    return f"{run}-{SESSION}"


TYPED = [
    "--epochs",
    "3 x",
    "$HOME",
    "it's",
    'a "b"',
    ";id",
    "$(id)",
    "`id`",
    "two\nlines",
    "-x",
    "*",
    "é",
    "\\",
    "",
    "--",
    "z",
]
"""Arguments that a shell would take apart."""
SCRIPTS = {
    "allreduce.py": """\
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
timeout = dist.distributed_c10d._get_default_timeout("gloo").total_seconds()
print(f"sum {value.item():g} of {dist.get_world_size()} on {os.environ['GLOO_SOCKET_IFNAME']}", timeout, sys.argv[1:])
dist.destroy_process_group()
""",
    "wait.py": """\
import os, subprocess, sys, time
subprocess.Popen(["setsid", "sleep", "900"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print("rank", os.environ["RANK"], "waits as", os.getpid(), flush=True)
time.sleep(600)
""",
    "fail.py": """\
import os, sys, time
if os.environ["RANK"] == "2":
    time.sleep(0.5)
    print("rank two gives up", flush=True)
    sys.exit(9)
time.sleep(600)
""",
    "rayhosts.py": """\
import os, subprocess, sys, time
import ray
ray.init()
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
@ray.remote(num_cpus=0)
class Actor:
    def address(self):
        import helper
        return helper.name(ray.util.get_node_ip_address())
    def niceness(self):
        return os.nice(0)
    def wait(self):
        subprocess.Popen(["setsid", "sleep", "900"])
        time.sleep(600)
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
actors = [Actor.options(scheduling_strategy=On(node, soft=False)).remote() for node in nodes for _ in range(2)]
print("hosts", sorted(set(ray.get([a.address.remote() for a in actors]))), sys.argv[1:], flush=True)
print("niceness", {os.nice(0), *ray.get([a.niceness.remote() for a in actors])}, flush=True)
if "exit" in sys.argv:
    sys.exit(6)
if "wait" in sys.argv:
    print("waiting", flush=True)
    ray.get([a.wait.remote() for a in actors])
""",
    "helper.py": "def name(address):\n    return 'at ' + address\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of a user's own scripts."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in SCRIPTS.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def small_graph(tmp_path: Path) -> Path:
    """An edge list of 200 nodes."""
    path = tmp_path / "graph.txt"
    path.write_text(
        "# a ring with chords\n" + "".join(f"{i}\t{(i * 7 + k) % 200}\n" for i in range(200) for k in (1, 3))
    )
    return path


def test_runs_are_limited_and_go_before_daemons(cluster: Cluster, project: Path) -> None:
    run = named("limited")
    process = cluster.background(project, "torchrun", "--workers", "1", "--name", run, "wait.py")
    waits = re.search(r"waits as (\d+)", read_until(process, " waits as "))
    assert waits
    try:
        look = "systemctl show -p MemoryMax,TasksMax,OOMScoreAdjust,OOMPolicy --value"
        unit = cluster.lab.ssh("node1", f"{look} regatta-run-{run}").stdout.split()
        ray = cluster.lab.ssh("node1", f"{look} regatta-ray-head").stdout.split()
        host = cluster.lab.ssh("node1", f"grep MemTotal /proc/meminfo; nproc; cat /proc/{waits[1]}/oom_score_adj")
        _, kilobytes, _, cores, rank = host.stdout.split()
        daemons = "regatta-hdfs-namenode regatta-node-exporter regatta-metrics"
        others = cluster.lab.ssh("node1", f"systemctl show -p OOMScoreAdjust --value {daemons}").stdout.split()
        status = cluster.fab("status").stdout
    finally:
        process.send_signal(signal.SIGINT)
        finish(process)
    memory, tasks = 0.85 * int(kilobytes) * 1024, str(max(4096, 1024 * int(cores)))
    for shown, score in ((unit, "500"), (ray, "-500")):
        assert {tasks, score, "continue"} < set(shown)
        assert any(word.isdigit() and abs(int(word) / memory - 1) < 0.01 for word in shown)
    assert rank == "1000" and others == ["-500"] * 3
    assert re.search(r"no limit of memory and processes on node1", status)  # a lab's hosts are such


@pytest.mark.first
def test_pagerank_under_both_frameworks_with_equal_answers(cluster: Cluster, tmp_path: Path) -> None:
    done = cluster.fab("run-ppr", "--workers", "4", "--json", str(tmp_path / "c.json"), results=tmp_path / "results")
    assert "rendezvous" in done.stdout
    compared = typed_json.read("run", (tmp_path / "c.json").read_text())
    assert set(compared.runs) == {"single", "torch", "ray"}
    records = [json.loads(path.read_text()) for path in (tmp_path / "results").glob("*.json")]
    assert len(records) == 3
    assert len({r["answer"]["checksum"] for r in records}) == 1
    for one in records:
        assert one["exit"]["state"] == "succeeded"
        assert one["phases"]["compute"] > 0
        assert one["cluster"]["versions_equal"]
        assert one["identity"]["release"]
    torch = next(r for r in records if r["identity"]["framework"] == "torch")
    ray = next(r for r in records if r["identity"]["framework"] == "ray")
    assert torch["cluster"]["rank_map"] == ray["cluster"]["rank_map"] == ["node1", "node1", "node2", "node3"]
    assert torch["speed"]["threads"] == ray["speed"]["threads"]
    for one in records:
        assert len([rank for rank in one["ranks"] if rank["peak_bytes"] and rank["cpu_seconds"]]) >= len(
            one["cluster"]["rank_map"]
        )
    for one in (torch, ray):  # Ray's processes are not the run's own: their nodes tell only of their network
        assert {use["node"] for use in one["use"]} == {"node1", "node2", "node3"}
        assert all(use["received_bytes"] and use["sent_bytes"] for use in one["use"])
        assert all(bool(use["cpu_seconds"] and use["largest_bytes"]) == (one is torch) for use in one["use"])


@pytest.mark.parametrize(
    "words",
    [("run-stars", "--size", "3000"), pytest.param(("run-digits", "--size", "600"), marks=pytest.mark.whole)],
)
def test_training_under_both_frameworks_with_equal_weights(
    cluster: Cluster, tmp_path: Path, words: tuple[str, ...]
) -> None:
    cluster.fab(*words, "--epochs", "1", "--workers", "3", "--no-single", results=tmp_path / "results")
    records = [json.loads(path.read_text()) for path in (tmp_path / "results").glob("*.json")]
    assert {one["identity"]["framework"] for one in records} == {"torch", "ray"}
    assert {one["exit"]["state"] for one in records} == {"succeeded"}
    assert records[0]["answer"] == records[1]["answer"]
    assert len({line for one in records for line in one["show"] if line.startswith("weights ")}) == 1


@pytest.mark.whole
@pytest.mark.parametrize("parallel", ["async", "pipeline"])
def test_a_shared_training_on_hosts_and_a_rank_that_is_killed(cluster: Cluster, tmp_path: Path, parallel: str) -> None:
    words = (
        "run-images",
        "--data=handwritten",
        "--batch=12",
        "--workers=3",
        f"--parallel={parallel}",
        "--microbatches=3",
    )
    said = cluster.fab(*words, "--framework=both", "--epochs=2", "--test-every=1", results=tmp_path).stdout
    assert "The answers of 3 runs are equal within the workload's tolerance" in said, said
    going = cluster.fab_background(
        *words, "--framework=torch", "--epochs=500", "--name", named(f"killed-{parallel}"), results=tmp_path
    )
    read_until(going, " epochs ")
    cluster.lab.ssh("node3", "sudo pkill -KILL -f 'python -[m] workloads'")
    said = finish(going, 120)
    assert going.returncode == 137
    assert "rank 2 on node3: killed by SIGKILL" in said, said
    wait_for(lambda: cluster.nothing_runs(named(f"killed-{parallel}")))


def test_a_graph_spread_over_hosts(cluster: Cluster, small_graph: Path, tmp_path: Path) -> None:
    words = ("run-ppr", "--workers", "4", "--graph", str(small_graph))
    cluster.fab(*words, "--partition", "graph", results=tmp_path / "results")
    records = [json.loads(path.read_text()) for path in (tmp_path / "results").glob("*.json")]
    assert {one["exit"]["state"] for one in records} == {"succeeded"}
    assert len(records) == 3
    assert len({one["answer"]["checksum"] for one in records}) == 1


def test_own_edge_list_and_sources_and_a_bad_source(cluster: Cluster, small_graph: Path, tmp_path: Path) -> None:
    words = ("run-ppr", "--workers", "2", "--framework", "torch", "--graph", str(small_graph))
    cluster.fab(*words, "--sources", "5,17", results=tmp_path / "results")
    answer = record(tmp_path / "results", "ppr-torch")["answer"]
    assert [source["id"] for source in answer["sources"]] == [5, 17]
    done = cluster.fab(*words, "--sources", "5,777", results=tmp_path / "results", check=False)
    assert done.returncode == 2
    assert "777" in done.stdout.splitlines()[-1]
    assert "Traceback" not in done.stdout
    assert record(tmp_path / "results", "ppr-torch")["exit"]["state"] == "failed"


@pytest.mark.parametrize("launcher", ["env", pytest.param("static", marks=pytest.mark.whole), "c10d"])
def test_torchrun_forms_one_group_over_all_hosts(cluster: Cluster, project: Path, launcher: str) -> None:
    words = ("torchrun", "--workers", "4", "--launcher", launcher, "allreduce.py", *TYPED)
    done = cluster.regatta(project, *words)
    lines = [line for line in done.stdout.splitlines() if "sum 10 of 4 on host0" in line]
    assert len(lines) == 4, done.stdout
    assert all(f"60.0 {TYPED}" in line for line in lines)


@pytest.mark.first
def test_exit_code_node_rank_and_last_lines_of_the_first_failure(cluster: Cluster, project: Path) -> None:
    began = time.monotonic()
    done = cluster.regatta(project, "torchrun", "--workers", "3", "--name", named("fails"), "fail.py", check=False)
    assert done.returncode == 9
    assert "rank 2 on node3: exited with code 9" in done.stdout
    assert "rank two gives up" in done.stdout.partition("its last lines:")[2]
    assert time.monotonic() - began < 300
    assert cluster.nothing_runs(named("fails"))


@pytest.mark.first
def test_cancel_attach_logs_and_runs(cluster: Cluster, project: Path) -> None:
    process = cluster.background(project, "torchrun", "--workers", "3", "--name", named("kept"), "wait.py")
    read_until(process, "waits as")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    listed = cluster.fab("runs").stdout
    assert re.search(rf"^{named('kept')}\s+running\s+torch\s+3\s+node1,node2,node3", listed, re.M)
    wait_for(lambda: cluster.fab("logs", named("kept")).stdout.count("waits as") == 3)
    refused = cluster.fab("down", check=False)
    assert refused.returncode == 1
    assert f"still running: {named('kept')}" in refused.stdout
    attached = cluster.background(project, "attach", named("kept"))
    read_until(attached, "waits as")
    cluster.fab("cancel", named("kept"))
    finish(attached)
    assert attached.returncode == 143
    assert cluster.nothing_runs(named("kept"))
    again = cluster.fab("cancel", named("kept"), check=False)
    assert again.returncode == 1
    assert "is not running" in again.stdout


def test_the_same_name_twice_and_after_the_run_was_deleted(cluster: Cluster, project: Path) -> None:
    words = ("torchrun", "--workers", "3", "--name", named("once"), "allreduce.py")
    cluster.regatta(project, *words)
    recorded = cluster.regatta(project, *words, check=False)
    assert recorded.returncode == 2
    assert f"a record of a run named '{named('once')}' is in " in recorded.stdout
    (project.parent / f"results/{named('once')}.json").unlink()
    done = cluster.regatta(project, *words, check=False)
    assert done.returncode == 1
    assert f"a run named '{named('once')}' exists already" in done.stdout
    deleted = cluster.fab("runs-gc", "--before", "0m", "--yes").stdout
    assert named("once") in deleted and re.search(r"^node3: [1-9]\d* run\(s\), ", deleted, re.M)
    for node in cluster.lab.nodes:
        assert not cluster.lab.ssh(node, "sudo ls -A /var/lib/regatta/runs").stdout
    cluster.regatta(project, *words)


@pytest.mark.first
def test_ray_script_finds_its_release_on_every_node(cluster: Cluster, project: Path) -> None:
    done = cluster.regatta(project, "rayrun", "--workers", "2", "rayhosts.py", *TYPED)
    hosts = [f"at {address}" for address in cluster.lab.addresses.values()]
    assert f"hosts {sorted(hosts)} {TYPED}" in done.stdout
    assert "never joined" not in done.stdout
    assert "niceness {0}" in done.stdout, "under Ray ranks would give way to everything else, under torchrun not"
    failing = cluster.regatta(project, "rayrun", "rayhosts.py", "exit", check=False)
    assert failing.returncode == 6
    assert "the driver on node1: exited with code 6" in failing.stdout


@pytest.fixture
def slow_to_return(cluster: Cluster) -> Iterator[str]:
    """A node whose Ray, once it has died, stays away for longer than a fast machine needs to begin a run."""
    folder, reload = "/run/systemd/system/regatta-ray-worker.service.d", "systemctl daemon-reload"
    setting = f"mkdir -p {folder}; printf '[Service]\\nRestartSec=15\\n' > {folder}/slow.conf; {reload}"
    cluster.lab.ssh("node3", f'sudo sh -c "{setting}"')
    yield "node3"
    cluster.lab.ssh("node3", f"sudo sh -c 'rm -r {folder}; {reload}'")


def test_a_run_waits_for_a_node_whose_ray_has_just_died(cluster: Cluster, project: Path, slow_to_return: str) -> None:
    cluster.lab.ssh(slow_to_return, "sudo systemctl kill --signal=KILL --kill-whom=all regatta-ray-worker")
    done = cluster.regatta(project, "rayrun", "--workers", "6", "rayhosts.py")
    assert re.search(rf"wait.*{slow_to_return}.*Ray", done.stdout)
    hosts = [f"at {address}" for address in cluster.lab.addresses.values()]
    assert f"hosts {sorted(hosts)} []" in done.stdout


def test_cancelled_ray_run_leaves_nothing(cluster: Cluster, project: Path) -> None:
    process = cluster.background(project, "rayrun", "--name", named("rayed"), "rayhosts.py", "wait")
    read_until(process, "waiting")
    cluster.fab("cancel", named("rayed"))
    finish(process)
    assert process.returncode == 143
    wait_for(lambda: cluster.nothing_runs(named("rayed")))
    assert re.search(rf"^{named('rayed')}\s+cancelled\s+ray", cluster.fab("runs").stdout, re.M)


def test_more_ranks_than_cores_is_allowed_and_said(cluster: Cluster, project: Path) -> None:
    done = cluster.regatta(project, "torchrun", "--workers", "7", "allreduce.py")
    assert "runs 3 ranks on 2 core(s)" in done.stdout
    assert done.stdout.count("sum 28 of 7") == 7


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("torchrun", "--workers", "0", "allreduce.py"), "--workers must be at least 1"),
        (("torchrun", "--workers", "two", "allreduce.py"), "--workers takes a whole number"),
        (("torchrun", "nothing.py"), "there is no script nothing.py"),
        (("torchrun", "--launcher", "mpi", "allreduce.py"), "--launcher must be one of"),
        (("torchrun", "--name", "../x", "allreduce.py"), "cannot name a run"),
        (("run-ppr", "--graph", "nothing.txt"), "there is no graph file nothing.txt"),
        (("run-ppr", "--framework", "storm"), "there is no framework 'storm'"),
        (("logs", "nothing"), "no run 'nothing'"),
        (("sync", "--inventory", "inventory/nothing"), "there is no inventory"),
    ],
)
def test_bad_words_end_with_one_clear_message(
    cluster: Cluster, project: Path, words: tuple[str, ...], said: str
) -> None:
    done = cluster.regatta(project, *words, check=False)
    assert done.returncode in (1, 2)
    assert said in done.stdout
    assert "Traceback" not in done.stdout


def test_a_release_changed_on_a_node_stops_the_launch(cluster: Cluster, project: Path) -> None:
    cluster.regatta(project, "sync")
    release = cluster.lab.ssh("node2", "readlink /opt/regatta/current").stdout.strip()
    cluster.lab.ssh("node2", f"sudo sh -c 'echo changed >> /opt/regatta/{release}/helper.py'")
    done = cluster.regatta(project, "torchrun", "--workers", "3", "allreduce.py", check=False)
    assert done.returncode == 1
    assert "node2: release" in done.stdout
    assert "helper.py has other content" in done.stdout
    assert "sum" not in done.stdout
    cluster.regatta(project, "sync", "--repair")
    assert "sum 6 of 3" in cluster.regatta(project, "torchrun", "--workers", "3", "allreduce.py").stdout


def test_one_line_reaches_every_node_and_two_may_sync_at_once(cluster: Cluster, project: Path) -> None:
    (project / "helper.py").write_text(f"VERSION = {time.time()}\n")
    both = [cluster.background(project, "sync") for _ in range(2)]
    assert [finish(process) and process.returncode for process in both] == [0, 0]
    for node in cluster.lab.nodes:
        shown = cluster.lab.ssh(node, "sudo cat /opt/regatta/current/helper.py").stdout
        assert shown == (project / "helper.py").read_text()
    assert "already on every node" in cluster.regatta(project, "sync").stdout


def test_requests_to_a_node_are_answered_by_one_process_which_ends_with_us(cluster: Cluster) -> None:
    def serving() -> int:
        command = "pgrep -c -f '^/usr/bin/python3 -ISuc [i]mport os,sys;requests'"
        return int(cluster.lab.ssh("node2", command, check=False).stdout)

    wait_for(lambda: serving() == 0)
    remote = Remote(load(str(cluster.lab.inventory)))
    node = remote.cluster.node("node2")
    for _ in range(3):
        assert remote.call(node, Inspect()).facts["hostname"] == "node2"
        assert serving() == 1
    cluster.lab.ssh("node2", "sudo pkill -f '^/usr/bin/python3 -ISuc [i]mport os,sys;requests'")
    wait_for(lambda: serving() == 0)
    assert remote.call(node, Inspect()).facts["hostname"] == "node2"
    remote.close()
    wait_for(lambda: serving() == 0)


def test_down_status_up(cluster: Cluster) -> None:
    cluster.fab("down")
    stopped = cluster.fab("status", check=False)
    assert stopped.returncode == 1
    assert "fab up" in stopped.stdout
    assert "ray-head inactive" in stopped.stdout
    refused = cluster.fab("data-ls", "/", check=False)
    assert refused.returncode == 1
    assert "HDFS does not run: regatta-hdfs-namenode.service is inactive; 'fab up' starts it" in refused.stdout
    cluster.fab("up")
    started = cluster.fab("status").stdout
    assert len(re.findall(r"^node\d .* active +yes ", started, re.M)) == 3
    told = typed_json.read("status", cluster.fab("status", "--json").stdout)
    assert sorted(told.members["ray"]) == sorted(cluster.lab.addresses.values())
    assert [node.facts["cores"] > 0 for node in told.nodes] == [True] * 3


def page(shown: str, name: str) -> str:
    """The address that `fab dashboard` has shown for a page."""
    found = re.search(rf"^{name}: (http://127\.0\.0\.1:\d+/)", shown, re.M)
    assert found, shown
    return found[1]


def test_dashboard_answers_through_the_tunnel(cluster: Cluster, project: Path) -> None:
    process = cluster.background(project, "dashboard")
    shown = read_until(process, "Ray dashboard:")
    address = page(shown, "Ray dashboard")
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert answer.status == 200
    shown = read_until(process, "HDFS NameNode:")
    asked = f"{page(shown, 'HDFS NameNode')}jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo"
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert b"LiveNodes" in answer.read(), shown
    cluster.lab.ssh("node1", "sudo pkill -f '^sshd: ubuntu' || true", check=False)
    read_until(process, "connected to node1 again")
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert answer.status == 200
    os.killpg(process.pid, signal.SIGINT)
    finish(process, 20)
    assert process.returncode == 0


@pytest.fixture
def spoiled_inventory(cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    """A copy of the lab's inventory to spoil."""
    folder = tmp_path / "spoiled"
    folder.mkdir()
    for name in ("hosts.yml", "known_hosts"):
        (folder / name).write_text((cluster.lab.inventory / name).read_text())
    (folder / "secrets").symlink_to(cluster.lab.inventory / "secrets")
    yield folder


def test_top_shows_nodes_and_ranks(cluster: Cluster, project: Path, spoiled_inventory: Path) -> None:
    (project / "slow.py").write_text(
        "import json, time\n"
        "for done in range(600):\n"
        "    event = {'event': 'progress', 'rank': 0, 't': 0, 'what': 'epochs', 'done': done, 'total': 600}\n"
        "    print('@regatta ' + json.dumps({**event, 'loss': 0.5}), flush=True)\n"
        "    time.sleep(0.2)\n"
    )
    known = spoiled_inventory / "known_hosts"
    known.write_text("".join(line for line in known.open() if cluster.lab.addresses["node3"] not in line))
    process = cluster.background(project, "torchrun", "--workers", "3", "--name", named("slow"), "slow.py")
    try:
        wait_for(lambda: " loss 0.5" in cluster.fab("top", "--once").stdout, 60)
        shown = cluster.fab("top", "--json", "--inventory", str(spoiled_inventory)).stdout
    finally:
        os.killpg(process.pid, signal.SIGINT)
        finish(process, 60)
    seen = {one.node: one for one in typed_json.read("top", shown)}
    assert "not pinned" in seen["node3"].error
    assert {"hdfs-namenode", "hdfs-datanode", "ray-head"} <= set(seen["node1"].sample["units"])
    assert 0 <= seen["node1"].rates.cpu <= 1
    assert len(seen["node1"].sample["hdfs"]["live"]) == 3
    assert [run["id"] for run in seen["node2"].sample["runs"]] == [named("slow")]


def test_changed_host_key_is_refused(cluster: Cluster, project: Path, spoiled_inventory: Path) -> None:
    known = (spoiled_inventory / "known_hosts").read_text().splitlines()
    keys = [line.split(" ", 1) for line in known]
    swapped = [f"{keys[0][0]} {keys[1][1]}", *known[1:]]
    (spoiled_inventory / "known_hosts").write_text("\n".join(swapped) + "\n")
    real, pinned = (Pin("h", *text.split()[:2]).shown.split()[1] for text in (keys[0][1], keys[1][1]))
    said = f"shows now: ED25519 {real}"
    for refused in (
        cluster.regatta(project, "sync", "--inventory", str(spoiled_inventory), check=False),
        cluster.regatta(project, "torchrun", "--inventory", str(spoiled_inventory), "allreduce.py", check=False),
        cluster.regatta(project, "dashboard", "--inventory", str(spoiled_inventory), check=False),
        cluster.make("provision", "--inventory", str(spoiled_inventory), check=False),
    ):
        flat = " ".join(refused.stdout.split())
        assert refused.returncode != 0, flat
        assert f"is not the pinned one: it shows ED25519 {real}, pinned is ED25519 {pinned}" in flat
        assert "make forget NODE=node1" in flat or "regatta forget --node node1" in flat
    done = cluster.make("forget", "--inventory", str(spoiled_inventory), "--node", "node1")
    assert f"pinned:    ED25519 {pinned}" in done.stdout and said in done.stdout
    assert sorted((spoiled_inventory / "known_hosts").read_text().splitlines()) == sorted(known)
    cluster.regatta(project, "sync", "--inventory", str(spoiled_inventory))
    again = cluster.make("forget", "--inventory", str(spoiled_inventory), "--node", "node1")
    assert "nothing to forget" in again.stdout


def test_unknown_host_key_is_refused(cluster: Cluster, project: Path, spoiled_inventory: Path) -> None:
    (spoiled_inventory / "known_hosts").write_text("")
    done = cluster.regatta(project, "sync", "--inventory", str(spoiled_inventory), check=False)
    assert done.returncode == 1
    assert "not pinned" in done.stdout
    tunnel = cluster.regatta(project, "dashboard", "--inventory", str(spoiled_inventory), check=False)
    assert "not pinned" in tunnel.stdout


def test_refused_key_is_named(cluster: Cluster, project: Path, spoiled_inventory: Path, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "foreign"], check=True)
    set_variable(spoiled_inventory, "node2", f"ansible_ssh_private_key_file: {tmp_path}/foreign")
    done = cluster.regatta(project, "sync", "--inventory", str(spoiled_inventory), check=False)
    assert done.returncode == 1
    assert re.search(r"node2: \S+ refuses our key", done.stdout)


def test_missing_sudo_is_named(cluster: Cluster, project: Path, spoiled_inventory: Path) -> None:
    make = "id plain || useradd -m plain; cp -r /home/ubuntu/.ssh /home/plain/; chown -R plain: /home/plain/.ssh"
    cluster.lab.ssh("node2", f"sudo sh -c '{make}'")
    try:
        set_variable(spoiled_inventory, "node2", "ansible_user: plain")
        done = cluster.regatta(project, "sync", "--inventory", str(spoiled_inventory), check=False)
        assert done.returncode == 1
        assert "node2: plain@" in done.stdout
        assert "may not use sudo without a password" in done.stdout
    finally:
        cluster.lab.ssh("node2", "sudo userdel -rf plain", check=False)


def test_works_through_a_jump_host(cluster: Cluster, project: Path, spoiled_inventory: Path) -> None:
    jump = cluster.lab.addresses["node1"]
    rule = "/etc/ssh/sshd_config.d/only_jump.conf"
    for node in ("node2", "node3"):
        set_variable(spoiled_inventory, node, f"ansible_ssh_common_args: -J ubuntu@{jump}")
        cluster.lab.ssh(node, f"echo 'AllowUsers ubuntu@{jump}' | sudo tee {rule} && sudo systemctl reload ssh")
    inventory = ("--inventory", str(spoiled_inventory))
    try:
        wait_for(lambda: cluster.lab.ssh("node2", "true", check=False).returncode == 255)
        shown = cluster.regatta(project, "status", *inventory).stdout
        assert len(re.findall(r"^node\d .* active +yes ", shown, re.M)) == 3
        done = cluster.regatta(project, "torchrun", "--workers", "3", *inventory, "allreduce.py")
        assert "sum 6 of 3" in done.stdout
    finally:
        for node in ("node2", "node3"):
            through = ["ssh", "-F", spoiled_inventory / "ssh_config", "-J", f"ubuntu@{jump}", node]
            subprocess.run([*through, f"sudo rm {rule} && sudo systemctl reload ssh"], check=True)
        wait_for(lambda: cluster.lab.ssh("node2", "true", check=False).returncode == 0)


def set_variable(inventory: Path, node: str, line: str) -> None:
    """Give one host of an inventory's hosts.yml a variable, instead of the value it had."""
    file = inventory / "hosts.yml"
    text, name = file.read_text(), line.partition(":")[0]
    stanza = re.search(rf"^    {node}:\n(?:      .*\n)+", text, re.M)
    assert stanza
    kept = "".join(f"{kept}\n" for kept in stanza[0].splitlines() if not kept.strip().startswith(f"{name}:"))
    file.write_text(text.replace(stanza[0], f"{kept}      {line}\n"))
