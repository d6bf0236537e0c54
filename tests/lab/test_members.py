"""Members: people without sudo, who have runs of their own on two hosts with a queue, and reach nothing else."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clusters import Cluster, finish, read_until, wait_for
from people import Person, account, fingerprint
from provisioning import left, logged, play, teardown

from lab.handle import LabHandle, read_lab
from regatta.hosts import sources
from regatta.provisioning import secrets
from regatta_protocol.operations.hosts import GATE

pytestmark = pytest.mark.whole
GROUP = "students"
SCRIPT = """\
import os, sys, time
print("begins", os.environ["RANK"], flush=True)
open(f"out{os.environ['RANK']}", "w").write("x")
time.sleep(float(sys.argv[1]))
print("ends", flush=True)
"""

SHARES = """\
import os, pathlib, time
rank, part, kept = os.environ["RANK"], pathlib.Path(os.environ["REGATTA_SHARED"]), pathlib.Path("models/epoch")
(part / f"new{rank}").write_text(rank)
(part / f"new{rank}").rename(part / f"of{rank}")
end = time.monotonic() + 60
while len(list(part.glob("of?"))) < 2 and time.monotonic() < end:
    time.sleep(0.2)
print("shares", sorted(path.read_text() for path in part.glob("of?")), part.stat().st_uid == os.getuid(), flush=True)
if rank == "0":
    before = kept.read_text() if kept.exists() else "0"
    kept.write_text(str(int(before) + 1))
    print("kept", before, flush=True)
"""
SERVES = """\
import os, socket, sys, time
open("secret", "w").write("x")
open(os.environ["REGATTA_SHARED"] + "/secret", "w").write("x")
open(f"/dev/shm/secret-{os.environ['RANK']}", "w").write("x")
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
server = socket.create_server(("", address[1])) if os.environ["RANK"] == "0" else None
if server is None:
    while socket.socket().connect_ex(address):
        time.sleep(0.2)
    print("reached its own", flush=True)
print("serves", *address, flush=True)
end = time.monotonic() + 600
while not os.path.exists("over") and time.monotonic() < end:
    time.sleep(0.5)
"""
HOSTILE = """\
import glob, os, pwd, signal, socket, subprocess, sys
host, port, node, other = sys.argv[1:]
state, home, me = "/var/lib/regatta", os.environ["HOME"], pwd.getpwuid(os.getuid()).pw_name
bobs = f"{state}/runs/serving"
done = 0
def tries(what, work):
    global done
    done += 1
    try:
        said = work()
    except (OSError, subprocess.SubprocessError):
        return
    if said:
        print("REACHED", what, str(said)[:200], flush=True)
def spoken(*words):
    end = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    return not end.returncode and words
def heard(asked, *words):
    end = subprocess.run(words, capture_output=True, input=asked, text=True, timeout=60)
    return ("heard" in end.stdout or (asked and not end.returncode)) and words
for folder in (f"{state}/runs", f"{state}/data", f"{state}/home", f"{state}/homes/regatta-bob", f"{state}/ray",
               f"{state}/shared", f"{state}/.ssh", bobs, f"{bobs}/work", f"{bobs}/scratch", "/opt/regatta/releases",
               "/opt/regatta/layers", "/var/lib/regatta-shared", "/root", f"{state}/members",
               f"{state}/members/regatta-bob", f"{state}/members/regatta-bob/runs/serving", "/etc/regatta/shared_keys",
               "/var/lib/regatta-members", "/var/lib/regatta-members/regatta-bob"):
    tries(folder, lambda: os.listdir(folder) or [folder])
for file in (f"{bobs}/log", f"{bobs}/spec.json", f"{bobs}/hidden.json", f"{bobs}/work/secret",
             f"{state}/runs/.serving.json", "/dev/shm/secret-0", "/dev/shm/secret-1", "/etc/regatta/ray_token",
             f"{state}/.ssh/id_ed25519", f"{state}/members/regatta-bob/runs/serving/secret",
             "/var/lib/regatta-members/regatta-bob/runs/serving/secret", "/etc/regatta/shared_keys/regatta-bob"):
    tries(file, lambda: open(file, "rb").read() or "empty")
    tries(file, lambda: open(file, "r+b") and "opened to write")
    link = f"link{done}"
    os.symlink(file, link)
for name in ("x", "exit.json", "stop.json"):
    tries(f"{bobs}/{name}", lambda: open(f"{bobs}/{name}", "w") and "made")
tries("rename", lambda: os.rename(bobs, f"{bobs}-gone") or "renamed")
number = pwd.getpwnam("regatta-bob").pw_uid
theirs = [int(one[6:]) for one in glob.glob("/proc/[0-9]*") if os.stat(one).st_uid == number]
print("sees", len(theirs), flush=True)
for pid in theirs:
    for name in ("environ", "mem", "maps", "cwd/secret", "root/etc/hostname", "fd/0"):
        tries(f"/proc/{pid}/{name}", lambda: open(f"/proc/{pid}/{name}", "rb").read(9) or name)
    tries("fds", lambda: os.listdir(f"/proc/{pid}/fd"))
    for number in (signal.SIGTERM, signal.SIGKILL, 0):
        tries("kill", lambda: os.kill(pid, number) or "killed")
for address in (host, "127.0.0.1", socket.gethostname()):
    for where in (int(port), 29400, 29450, 6379, 8020):
        tries(f"{address}:{where}", lambda: socket.create_connection((address, where), 5))
subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", f"{home}/key"], check=True)
os.makedirs(f"{home}/.ssh", exist_ok=True)
open(f"{home}/.ssh/authorized_keys", "w").write(open(f"{home}/key.pub").read())
for account in (me, "regatta", "regatta-bob"):
    for where in (other, "127.0.0.1"):
        ssh = ["ssh", "-oBatchMode=yes", "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null"]
        for more in ([], ["-i", f"{home}/key"]):
            tries(f"ssh {account}@{where}", lambda: spoken(*ssh, *more, f"{account}@{where}", "true"))
            forward = ["-W", f"{host}:{port}", f"{account}@{where}"]
            tries(f"ssh -W {account}@{where}", lambda: spoken(*ssh, *more, *forward))
mine = ["-i", f"/etc/regatta/shared_keys/{me}", *ssh[1:]]
for account in (me, "regatta", "regatta-bob"):
    for where in (host, other, "127.0.0.1"):
        tries(f"shell of {account}@{where}", lambda: heard("", "ssh", *mine, f"{account}@{where}", "echo heard"))
        tries(f"way by {account}@{where}", lambda: spoken("ssh", *mine, "-W", f"{host}:{port}", f"{account}@{where}"))
        for asked in ("ls /", "ls /regatta-bob", "get /regatta-bob/runs/serving/secret stolen", "ls /etc",
                      "symlink /regatta-bob /regatta-ann/x\\nls /regatta-ann/x/"):
            tries(f"{asked} of {account}@{where}", lambda: heard(asked, "sftp", "-b", "-", *mine, f"{account}@{where}"))
for words in (["sudo", "-n", "true"], ["sudo", "-n", "/etc/regatta/gate"], ["su", "-c", "true"], ["crontab", "-l"],
              ["systemctl", "stop", "regatta-run-serving.service"],
              ["systemctl", "kill", "regatta-run-serving.service"],
              ["systemd-run", "--user", "true"], ["setpriv", "--reuid=regatta-bob", "true"], ["sbatch", "--wrap=true"],
              ["journalctl", "-qn1", "-u", "regatta-run-serving.service", "--grep=."]):
    tries(" ".join(words), lambda: spoken(*words))
session = {**os.environ, "XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}
session["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={session['XDG_RUNTIME_DIR']}/bus"
subprocess.run(["loginctl", "enable-linger", me], timeout=60)
for words in (["systemd-run", "--user", "true"], ["systemctl", "--user", "start", "basic.target"]):
    tries(" ".join(words), lambda: not subprocess.run(words, env=session, timeout=60).returncode and "started")
print("tried", done, flush=True)
"""


ASKS = f"""\
import subprocess, sys
gate = subprocess.Popen(["sudo", "-n", {GATE!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
gate.stdin.write(sys.stdin.buffer.read())
gate.stdin.flush()
print(next(line.decode() for line in gate.stdout if b'"done"' in line or b'"error"' in line))
gate.stdin.close()
"""


@pytest.fixture(scope="module")
def bare(make_lab: Callable[..., LabHandle]) -> LabHandle:
    """Two fresh hosts. `$REGATTA_TEST_MEMBERS_LAB` names such a lab to use instead."""
    name = os.environ.get("REGATTA_TEST_MEMBERS_LAB")
    lab = read_lab(name) if name else make_lab(nodes=2)
    settings(lab, ["ann"], GROUP)
    return lab


def settings(lab: LabHandle, members: list[str], group: str, **more: bool) -> None:
    file = lab.inventory / "group_vars/all.yml"
    file.parent.mkdir(exist_ok=True)
    services = {"hdfs_enabled": False, "monitoring_enabled": False, "spark_enabled": True, "slurm_accounts": members}
    file.write_text(json.dumps({"members_accounts": members, "members_group": group, **services, **more}))


@pytest.fixture(scope="module")
def people(bare: LabHandle, tmp_path_factory: pytest.TempPathFactory) -> tuple[Person, Person]:
    """Ann, an account that is named, and bob, who is in the group; both have joined."""
    top = tmp_path_factory.mktemp("people")
    both = [account(bare, name, top / name, sudo=False) for name in ("ann", "bob")]
    for node in bare.nodes:
        bare.ssh(node, f"sudo groupadd --force {GROUP}; sudo usermod --append --groups {GROUP} bob")
    refused = "the account ann has different numbers"
    bare.ssh(bare.nodes[1], "sudo usermod --uid 2345 ann")
    assert refused in " ".join(play(bare, "provision", good=False).split())
    number = bare.ssh(bare.nodes[0], "id -u ann").stdout.strip()
    bare.ssh(bare.nodes[1], f"sudo usermod --uid {number} ann")
    play(bare, "provision")
    Cluster(bare).fab("runs-gc", "--before", "0m", "--yes")  # names of an earlier session's runs are free again
    for person in both:
        said = person.joins(bare.nodes[0], "--fingerprint", fingerprint(bare, bare.nodes[0]))
        assert f"{person.name} is a member without sudo" in said
        (person.home / "job.py").write_text(SCRIPT)
    return both[0], both[1]


@pytest.mark.provisioning
def test_an_account_that_a_host_lacks_is_refused_before_the_first_change(bare: LabHandle) -> None:
    if bare.ssh(bare.nodes[1], f"getent group {GROUP}", check=False).returncode == 0:
        pytest.skip("these hosts have the accounts")
    before = bare.ssh(bare.nodes[0], "ls -l /etc/regatta", check=False).stdout
    said = " ".join(play(bare, "provision", good=False).split())
    assert "Nothing was changed" in said and f"{bare.nodes[1]}: there is no group {GROUP}" in said
    assert bare.ssh(bare.nodes[0], "ls -l /etc/regatta", check=False).stdout == before


def types(person: Person, command: str, *words: str, good: bool = True) -> str:
    return person.types(command, "--inventory", person.lab.name, *words, good=good)


def runs(person: Person) -> dict[str, str]:
    """Their owners by the names of the runs that a person sees."""
    return {one["run"]: one["owner"] for one in _seen(types(person, "runs", "--json"))}


def states(person: Person) -> dict[str, str]:
    return {one["run"]: one["state"] for one in _seen(types(person, "runs", "--json"))}


def _seen(said: str) -> list[dict[str, Any]]:
    return list(json.loads(re.findall(r'\{\s*"runs".*', said, re.S)[0])["runs"])


def test_a_copy_has_no_secrets(people: tuple[Person, Person]) -> None:
    ann, _ = people
    assert {path.name for path in ann.copy.iterdir() if path.name[0] != "."} == {"hosts.yml", "known_hosts", "own.yml"}
    assert secrets.held(ann.copy) == {} and "regatta_member: true" in (ann.copy / "own.yml").read_text()
    assert "lab_key" not in (ann.copy / "hosts.yml").read_text()
    assert "is up to date" in types(ann, "pull")


def test_members_run_queue_see_and_cancel_their_own(people: tuple[Person, Person]) -> None:
    ann, bob = people
    said = types(ann, "torchrun", "--workers", "2", "--name", "anns", "job.py", "0")
    assert "begins 0" in said and "begins 1" in said and "anns: succeeded" in said
    assert runs(ann) == {"anns": "ann"} and runs(bob) == {}
    assert "begins" in types(ann, "logs", "anns") and "out0" in types(ann, "ls", "anns")
    assert "2 files" in types(ann, "fetch", "anns", "--to", "fetched")
    assert {path.name for path in (ann.home / "fetched").rglob("out*")} == {"out0", "out1"}
    (ann.home / "job.py").write_text(f"# changed\n{SCRIPT}")

    first = bob.begins("torchrun", "--workers", "2", "--name", "bobs", "--inventory", bob.lab.name, "job.py", "600")
    second = None
    try:
        read_until(first, "begins")
        words = ("--workers", "2", "--name", "waits", "--inventory", ann.lab.name, "job.py", "600")
        second = ann.begins("torchrun", *words)
        assert "bobs (bob, since " in read_until(second, "waits for its turn")
        assert "waits" in types(bob, "queue") and "is no run of bob" in types(
            bob, "cancel", "waits", "--yes", good=False
        )
        assert "bobs" not in runs(ann)
        for command in (("cancel", "bobs", "--yes"), ("logs", "bobs"), ("fetch", "bobs")):
            assert "bobs" in types(ann, *command, good=False)
        assert first.poll() is None and "cancelled on" in types(bob, "cancel", "bobs")
        finish(first)
        read_until(second, "begins")
        types(ann, "cancel", "waits")
        finish(second)
    finally:
        for process in filter(None, (first, second)):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                process.wait(60)
    assert all(Cluster(ann.lab).nothing_runs(run) for run in ("anns", "bobs", "waits"))
    owners = {one["run"]: one["owner"] for one in _seen_by_root(ann.lab)}
    assert (owners["anns"], owners["bobs"], owners["waits"]) == ("ann", "bob", "ann")


def _seen_by_root(lab: LabHandle) -> list[dict[str, Any]]:
    return _seen(Cluster(lab).fab("runs", "--json").stdout)


def ended(person: Person, run: str) -> str:
    """The state of a run at its end, as the person sees it."""
    end = time.monotonic() + 60
    while (state := states(person).get(run, "queued")) in ("queued", "running"):
        assert time.monotonic() < end, state
        time.sleep(0.5)
    return state


def test_a_members_run_needs_no_controller(people: tuple[Person, Person]) -> None:
    ann, bob = people
    first = ("torchrun", "--detach", "--workers", "2", "--name", "unattended", "job.py", "20")
    assert "queued" in types(ann, *first)
    assert "behind unattended" in types(bob, "torchrun", "--detach", "--name", "behind", "job.py", "600")
    assert "unattended" in types(bob, "cancel", "unattended", "--yes", good=False)
    assert ended(ann, "unattended") == "succeeded" and "unattended" not in runs(bob)
    assert "begins 1" in types(ann, "logs", "unattended")
    assert "unattended: succeeded" in types(ann, "attach", "unattended")
    assert "2 files" in types(ann, "fetch", "unattended", "--to", "unattended")
    while states(bob).get("behind") != "running":
        time.sleep(0.5)
    assert "cancelled" in types(bob, "cancel", "behind") and ended(bob, "behind") == "cancelled"
    owners = {one["run"]: one["owner"] for one in _seen_by_root(ann.lab)}
    assert (owners["unattended"], owners["behind"]) == ("ann", "bob")
    said = types(ann, "torchrun", "--detach", "--notify", "mailto://a.example", "job.py", "0", good=False)
    assert "a member may not have --notify but to http:// and https://" in said


def test_a_named_member_submits_jobs_to_slurm(people: tuple[Person, Person]) -> None:
    """Such a job is no run, whatever it is called, and comes after all runs that wait."""
    ann, bob = people
    lab, head = ann.lab, ann.lab.nodes[0]
    words = "--partition=members --exclusive --nodes=2"
    for asked in (f"sbatch {words} --wrap=true", f"srun {words} true", "sbatch --wrap=true"):
        assert "not permitted to use this partition" in bob.there(head, asked).stderr
    for asked in ("sbatch --wrap=true", f"sbatch {words} --uid=root --wrap=true"):
        assert ann.there(head, asked).returncode
    assert lab.ssh(head, f"sudo -u regatta sbatch {words} --wrap=true", check=False).returncode
    words += " --parsable --comment='regatta, detached: bob' --wrap='srun id -nu; sleep 600'"
    names = "night\nroot|7|R\033[2J", "night"
    numbers = [ann.there(head, f"sbatch --job-name={shlex.quote(name)} {words}").stdout.strip() for name in names]
    try:
        said = json.loads(types(ann, "queue", "--json"))["entries"]
        found = [(str(one["job"]), one["owner"], one["ours"]) for one in said]
        assert found == [(number, "ann", False) for number in numbers]
        assert types(bob, "queue").count(" ann ") == 2
        asked = ("torchrun", "--workers", "2", "--name", "after-a-job", "--inventory", bob.lab.name, "job.py", "5")
        run = bob.begins(*asked)
        read_until(run, "waits for its turn")
        ann.there(head, f"scancel {numbers[0]}")
        assert "succeeded" in finish(run)
        queued = types(ann, "torchrun", "--detach", "--name", "night", "job.py", "0")
        assert "queued" in queued and "taken out" in types(ann, "cancel", "night", "--yes")
        wait_for(lambda: ann.there(head, f"cat slurm-{numbers[1]}.out").stdout == "ann\nann\n", 60)
    finally:
        ann.there(head, f"scancel {' '.join(numbers)}; rm -f slurm-*.out")


NEEDS = """\
import importlib.metadata
print("has", importlib.metadata.version("humanize"), flush=True)
"""


def test_members_bring_packages_of_their_own(people: tuple[Person, Person]) -> None:
    """Each has a copy, until who has sudo brings one for all."""
    ann, bob = people
    words = ("torchrun", "--workers", "2", "--with", "humanize==4.9.0")
    for person in (ann, bob):
        (person.home / "needs.py").write_text(NEEDS)
        first = types(person, *words, "needs.py")
        assert "on 2 node(s)" in first and first.count("has 4.9.0") == 2
        again = types(person, *words, "needs.py")
        assert "putting layer" not in again and again.count("has 4.9.0") == 2
    assert "queued" in types(ann, *words, "--detach", "--name", "packed", "needs.py")
    assert ended(ann, "packed") == "succeeded" and "has 4.9.0" in types(ann, "logs", "packed")
    assert "on 2 node(s)" in Cluster(ann.lab).regatta(ann.home, *words, "needs.py").stdout
    assert "has 4.9.0" in types(ann, *words, "needs.py")
    names = ann.lab.ssh(ann.lab.nodes[0], "sudo ls /opt/regatta/layers").stdout.split()
    numbers = [
        re.sub(r"^[0-9a-f]+", "", name) for name in names if re.fullmatch(r"[0-9a-f]+(-u\d+-[0-9a-f]{8})?", name)
    ]
    assert len({*numbers}) == 3 and numbers.count("") >= 1


def test_a_member_has_a_notebook(people: tuple[Person, Person]) -> None:
    """Its pages, and a kernel of it; `tests/lab/test_notebook.py` tries the same in a browser."""
    ann, _ = people
    notebook = ann.begins("notebook", "--inventory", ann.lab.name)
    try:
        (url,) = re.findall(r"JupyterLab: (\S+/lab\?token=\S+)", read_until(notebook, "JupyterLab: "))
        assert b"JupyterLab" in urllib.request.urlopen(url, timeout=30).read()
        kernel = urllib.request.Request(url.replace("/lab?", "/api/kernels?"), data=b"{}", method="POST")
        assert json.load(urllib.request.urlopen(kernel, timeout=60))["name"] == "python3"
    finally:
        os.killpg(notebook.pid, signal.SIGINT)
        notebook.wait(60)
    (run,) = [name for name in runs(ann) if name.startswith("notebook")]
    assert Cluster(ann.lab).nothing_runs(run) and states(ann)[run] == "cancelled"


ON_RAY = """\
import os, sys, time
import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as On
ray.init()
apart = ray.util.placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
ray.get(apart.ready())
@ray.remote(num_cpus=1)
class Where:
    def told(self):
        return ray.util.get_node_ip_address()
    def fail(self):
        os._exit(7)
kept = [Where.options(scheduling_strategy=On(apart, place)).remote() for place in range(2)]
print("actors on", len(set(ray.get([one.told.remote() for one in kept]))), flush=True)
if len(sys.argv) > 1:
    ray.get(kept[0].fail.remote())
"""


ON_SPARK = """\
from pyspark.sql import SparkSession
session = SparkSession.builder.getOrCreate()
hosts = session.sparkContext.parallelize(range(200), 2).map(lambda one: __import__("socket").gethostname())
print("counted", hosts.count(), flush=True)
"""


def test_members_have_runs_on_the_clusters_spark(people: tuple[Person, Person]) -> None:
    ann, bob = people
    (ann.home / "on_spark.py").write_text(ON_SPARK)
    said = types(ann, "sparkrun", "--workers", "2", "--name", "on-spark", "on_spark.py")
    assert "counted 200" in said and "on-spark: succeeded" in said
    assert "in Spark" in types(bob, "status") and "on-spark" not in runs(bob)
    assert Cluster(ann.lab).nothing_runs("on-spark")


def test_members_have_runs_on_the_clusters_ray(people: tuple[Person, Person]) -> None:
    ann, bob = people
    (ann.home / "on_ray.py").write_text(ON_RAY)
    said = types(ann, "rayrun", "--workers", "2", "--name", "on-ray", "on_ray.py")
    assert "actors on 2" in said and "on-ray: succeeded" in said
    said = types(ann, "rayrun", "--workers", "2", "--name", "dies", "on_ray.py", "fail", good=False)
    assert "dies failed" in said and 'Traceback (most recent call last):\n  File "/usr' not in said
    assert "queued" in types(ann, "rayrun", "--detach", "--workers", "2", "--name", "ray-alone", "on_ray.py")
    assert ended(ann, "ray-alone") == "succeeded" and "actors on 2" in types(ann, "logs", "ray-alone")
    assert (
        "no run 'on-ray' of bob" in asked(bob, "framework.call", function="ray.state.dead", words=["on-ray"])["error"]
    )
    assert len(asked(bob, "framework.call", function="ray.state.nodes")["done"]) == 2
    shown = types(bob, "status")
    assert "in Ray" in shown and "runs in progress: none" in shown
    assert all(Cluster(ann.lab).nothing_runs(run) for run in ("on-ray", "dies", "ray-alone"))


@pytest.mark.parametrize(
    "words",
    [
        ("provision",),
        ("check",),
        ("verify",),
        ("teardown", "--yes"),
        ("rotate-secrets",),
        ("support-bundle",),
        ("up",),
        ("down",),
        ("runs-gc", "--before", "0m", "--yes"),
        ("data-put", "job.py", "/job.py"),
    ],
    ids=" ".join,
)
def test_other_commands_say_that_they_need_sudo(people: tuple[Person, Person], words: tuple[str, ...]) -> None:
    said = types(people[0], *words, good=False)
    assert "without sudo" in said and "Traceback" not in said


@pytest.mark.parametrize(
    "command",
    [
        "sudo -n bash -c id",
        "sudo -n /usr/bin/python3 -c 'import os; print(os.getuid())'",
        "sudo -n -u regatta id",
        f"sudo -n {GATE} --help",
        f"sudo -n {GATE} send send",
        f"sudo -n PYTHONPATH=/tmp {GATE}",
        f"sudo -n -E {GATE} -c id",
        f"sudo -n -u regatta {GATE}",
        f"{GATE} < /dev/null",
        "rsync /etc/hostname --rsync-path 'sudo -n rsync' ann@localhost:/etc/x 2>&1",
        "cp /etc/hostname /etc/regatta/gate",
        "ls /opt/regatta/releases /var/lib/regatta",
    ],
)
def test_sudo_starts_nothing_else(people: tuple[Person, Person], command: str) -> None:
    done = people[0].there(people[0].lab.nodes[0], command)
    assert done.returncode and "uid=" not in done.stdout and done.stdout.strip() not in ("0", "root")


def asked(person: Person, op: str, **args: Any) -> dict[str, Any]:
    """The answer of the gate to a request that this person has written by hand."""
    place = {"gate": sources.identity(), "root": "/tmp", "state": "/tmp", "user": None, "by": "root", "member": "root"}
    request = json.dumps({"op": op, "place": place, "args": args})
    done = person.there(person.lab.nodes[0], f"python3 -c {shlex.quote(ASKS)}", f"{request}\n")
    return dict(json.loads(done.stdout))


def test_the_gate_refuses_what_is_written_by_hand(people: tuple[Person, Person], tmp_path: Path) -> None:
    ann, bob = people
    node = ann.lab.nodes[0]
    types(bob, "torchrun", "--workers", "1", "--name", "by-bob", "job.py", "0")
    for op, args in (
        ("run.stop", {"run": "by-bob", "reason": "x"}),
        ("run.left", {"run": "../runs/by-bob", "most": 1}),
        ("secret", {"name": "ray_token"}),
        ("cluster.keep", {}),
        ("services", {}),
        ("nothing", {}),
    ):
        assert "error" in asked(ann, op, **args), op
    made = asked(bob, "release.begin", release="0123456789abcdef")["done"]["incoming"]
    assert made.startswith("/opt/regatta/members/.incoming-")
    assert ann.there(node, f"ls {made}").returncode and bob.there(node, f"touch {made}/x").returncode == 0
    assert "is no folder that ann was given" in asked(ann, "release.abandon", incoming=made)["error"]
    bob.there(node, f"ln -s /etc/shadow {made}/shadow; mkfifo {made}/fifo")
    entries = [["shadow", "f", "0" * 64]]
    said = asked(bob, "release.commit", release="c" * 16, incoming=made, expected=entries)
    assert "of another name than its content" in said["error"]
    assert asked(bob, "release.abandon", incoming=made) == {"done": None}
    sent = json.dumps({"gate": sources.identity(), "run": "by-bob", "paths": ["out0"], "flags": "-LtRe.LsfxCIvu"})
    done = ann.there(node, f"sudo -n {GATE} send", f"{len(sent):08d}{sent}")
    assert "no run 'by-bob' of ann" in done.stderr and done.returncode
    key = ["ssh", "-i", str(ann.home / "key"), "-o", f"UserKnownHostsFile={ann.copy / 'known_hosts'}"]
    target = f"ann@{ann.lab.addresses[node]}:/etc/regatta/"
    (tmp_path / "file").touch()
    done = subprocess.run(
        ["rsync", "-e", " ".join(key), str(tmp_path / "file"), target], check=False, capture_output=True, text=True
    )
    assert done.returncode and "Permission denied" in done.stderr


def test_a_gate_of_another_version_says_so(people: tuple[Person, Person]) -> None:
    ann, _ = people
    (ann.home / "regatta/regatta/node/disk.py").open("a").write("# newer\n")
    try:
        said = types(ann, "runs", good=False)
        assert f"its gate for members is of Regatta {sources.identity()}, and you have" in said
    finally:
        subprocess.run(["git", "-C", str(ann.home / "regatta"), "checkout", "-q", "."], check=True)


@pytest.fixture(scope="module")
def separate(people: tuple[Person, Person]) -> tuple[Person, Person]:
    """Both, whose runs have an account each from now on; of ann there is a run of before."""
    ann, bob = people
    (ann.home / "job.py").write_text(SCRIPT)
    types(ann, "torchrun", "--workers", "1", "--name", "of-before", "job.py", "0")
    for node in ann.lab.nodes:  # as people's hosts have them, so that each session starts services of its account's
        packages = "apt-get update -q && apt-get install -qy --no-install-recommends libpam-systemd polkitd"
        ann.lab.ssh(node, f"sudo sh -c '{packages} dbus-user-session'")
    ann.lab.ssh(ann.lab.nodes[1], "sudo useradd --uid 66000 regatta-bob")
    settings(ann.lab, ["ann"], GROUP, members_separate=True)
    said = " ".join(play(ann.lab, "provision", good=False).split())
    assert "Nothing was changed" in said and "another's account regatta-bob (66000)" in said
    ann.lab.ssh(ann.lab.nodes[1], "sudo userdel regatta-bob")
    play(ann.lab, "provision")
    return ann, bob


@pytest.mark.provisioning
def test_accounts_for_runs_are_made_once_and_verified(separate: tuple[Person, Person]) -> None:
    ann, _ = separate
    play(ann.lab, "provision")
    assert set(re.findall(r"changed=(\d+)", logged(ann.lab))) == {"0"}
    assert "accounts that only the runs of one have, apart from each other: 2" in play(ann.lab, "verify")
    for node in ann.lab.nodes:
        said = ann.lab.ssh(node, "id -u ann; id -u regatta-ann; id -Gn regatta-ann; getent passwd regatta-ann").stdout
        login, number, groups, line = said.splitlines()
        assert int(number) == int(login) + 65000 and groups == "regatta-ann regatta-members"
        assert line.endswith(":Regatta runs of ann:/nonexistent:/usr/sbin/nologin")


def test_a_members_runs_have_an_account_of_their_own(separate: tuple[Person, Person]) -> None:
    ann, _ = separate
    said = types(ann, "torchrun", "--workers", "2", "--name", "apart", "job.py", "0")
    assert "begins 0" in said and "begins 1" in said and "apart: succeeded" in said
    assert "begins" in types(ann, "logs", "apart") and "out0" in types(ann, "ls", "apart")
    assert "2 files" in types(ann, "fetch", "apart", "--to", "own")
    assert {path.name for path in (ann.home / "own").rglob("out*")} == {"out0", "out1"}
    for node in ann.lab.nodes:
        owners = ann.lab.ssh(node, "sudo find /var/lib/regatta/runs/apart -printf '%U %G\\n' | sort -u").stdout.split()
        assert owners == ann.lab.ssh(node, "id -u regatta-ann").stdout.split() * 2
    assert {"apart", "of-before"} <= runs(ann).keys()
    assert "of-before is of before members had accounts" in types(ann, "logs", "of-before", good=False)
    (ann.home / "on_ray.py").write_text(ON_RAY)
    for command, script in (("rayrun", "on_ray.py"), ("sparkrun", "on_spark.py")):
        assert "cannot keep members' runs apart" in types(ann, command, "--workers", "2", script, good=False)
    assert "queued" in types(ann, "torchrun", "--detach", "--workers", "2", "--name", "alone", "job.py", "0")
    assert ended(ann, "alone") == "succeeded"
    for node in ann.lab.nodes:
        assert (
            ann.lab.ssh(node, "sudo sh -c 'stat -c %U /var/lib/regatta/runs/alone/work/out*'").stdout.strip()
            == "regatta-ann"
        )
    assert "2 files" in " ".join(Cluster(ann.lab).fab("fetch", "apart", "--to", str(ann.home / "roots")).stdout.split())
    assert "begins" in Cluster(ann.lab).fab("logs", "apart").stdout


def test_runs_of_a_member_share_a_folder_that_no_others_have(separate: tuple[Person, Person]) -> None:
    ann, bob = separate
    for person in separate:
        (person.home / "shares.py").write_text(SHARES)
    words = ("torchrun", "--workers", "2", "--keep", "models/")
    for name, before in (("shares", 0), ("again", 1)):
        said = types(ann, *words, "--name", name, "shares.py")
        assert f"kept {before}" in said and said.count("shares ['0', '1'] True") == 2
    assert "kept 0" in types(bob, *words, "--name", "of-bob", "shares.py")
    types(ann, "fetch", "again", "--to", "from-ann")
    Cluster(ann.lab).fab("fetch", "again", "--to", str(ann.home / "from-root"))
    for folder in ("from-ann", "from-root"):
        came = {path.name: path.read_text() for path in (ann.home / folder).rglob("*") if path.is_file()}
        assert came == {"of0": "0", "of1": "1", "epoch": "2"}


def test_a_hostile_run_reaches_nothing_of_another_members(separate: tuple[Person, Person]) -> None:
    ann, bob = separate
    lab = ann.lab
    (bob.home / "serves.py").write_text(SERVES)
    (ann.home / "hostile.py").write_text(HOSTILE)
    words = ("--workers", "2", "--name", "serving", "--inventory", bob.lab.name, "--env", "TOKEN=of-bob", "serves.py")
    first = bob.begins("torchrun", *words)
    try:
        read_until(first, "reached its own")
        port = read_until(first, "serves").split()[-1]
        assert 23000 <= int(port) < 27000
        host, other = (lab.addresses[node] for node in lab.nodes)
        told = (host, port, lab.nodes[0], other)
        said = types(ann, "torchrun", "--now", "--workers", "2", "--name", "hostile", "hostile.py", *told)
        assert "REACHED" not in said, said
        for node in lab.nodes:  # there systemd removes all of an account whose last session ends (RemoveIPC)
            assert "secret" not in lab.ssh(node, "ls /dev/shm").stdout
        assert said.count("tried ") == 2 and "sees 0" not in said and "hostile: succeeded" in said
        types(ann, "fetch", "hostile", "--to", "stolen", "*", good=False)
        assert not [path for path in (ann.home / "stolen").rglob("*") if path.is_file()]
        for command in (("cancel", "serving", "--yes"), ("logs", "serving"), ("fetch", "serving")):
            assert "serving" in types(ann, *command, good=False)
        assert first.poll() is None
        for node in lab.nodes:
            lab.ssh(node, "sudo -u regatta-bob touch /var/lib/regatta/runs/serving/work/over")
        assert "serving: succeeded" in finish(first)
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGINT)
            first.wait(60)


@pytest.mark.provisioning
def test_the_account_of_a_member_who_leaves_goes_with_all_it_runs(separate: tuple[Person, Person]) -> None:
    ann, bob = separate
    lab = ann.lab
    words = ("--workers", "2", "--name", "leaves", "--inventory", bob.lab.name, "job.py", "600")
    (bob.home / "job.py").write_text(SCRIPT)
    running = bob.begins("torchrun", *words)
    read_until(running, "begins")
    assert "behind leaves" in types(bob, "torchrun", "--detach", "--workers", "2", "--name", "too-late", "job.py", "0")
    settings(lab, ["ann"], "", members_separate=True)
    play(lab, "provision")
    running.wait(120)
    for node in lab.nodes:
        assert lab.ssh(node, "sudo ls /var/lib/regatta/members").stdout.split() == ["regatta-ann"]
        assert "regatta-bob" not in lab.ssh(node, "cat /proc/mounts; sudo ls /etc/regatta/shared_keys").stdout
        assert (
            lab.ssh(node, "id regatta-bob", check=False).returncode and "ann" in lab.ssh(node, "id regatta-ann").stdout
        )
        owners = lab.ssh(node, "sudo find /var/lib/regatta/runs/serving -printf '%u\\n' | sort -u").stdout.split()
        assert owners == ["regatta"] and lab.ssh(node, "sudo ls /var/lib/regatta/homes").stdout.split() == [
            "regatta-ann"
        ]
    assert Cluster(lab).nothing_runs("leaves")
    wait_for(lambda: "no run holds nodes" in Cluster(lab).fab("queue").stdout, 60)
    seen = {one["run"]: one for one in _seen_by_root(lab)}
    assert [seen[run]["owner"] for run in ("serving", "apart", "too-late")] == ["bob", "ann", "bob"]
    assert seen["too-late"]["state"] == "failed"
    assert "it could not start: there is no account here for runs of bob" in Cluster(lab).fab("logs", "too-late").stdout
    settings(lab, ["ann"], GROUP)
    play(lab, "provision")
    for node in lab.nodes:
        passage = "getfacl -ps /var/lib/regatta | grep ^group:[^:]"
        folders = "/var/lib/regatta/homes /etc/regatta/shared_keys /etc/ssh/sshd_config.d/*members*"
        left_over = f"getent group regatta-members; ls -d {folders}; ls /var/lib/regatta/members; {passage}"
        assert lab.ssh(node, f"sudo sh -c '{left_over}'", check=False).stdout == ""
        assert lab.ssh(node, "id regatta-ann", check=False).returncode
    assert "begins" in types(ann, "logs", "apart")
    settings(lab, ["ann"], GROUP, members_separate=True)
    play(lab, "provision")


@pytest.mark.provisioning
def test_without_members_nothing_is_left(people: tuple[Person, Person]) -> None:
    ann, _ = people
    settings(ann.lab, [], "")
    play(ann.lab, "provision")
    there = "ls -d /etc/regatta/gate /etc/regatta/gate.json /etc/sudoers.d/regatta-members /opt/regatta/members"
    for node in ann.lab.nodes:
        assert ann.lab.ssh(node, f"sudo {there}", check=False).stdout == ""
    assert "ann@" in (said := types(ann, "runs", good=False)) and "is no member of this cluster" in said
    settings(ann.lab, ["ann"], GROUP, members_separate=True)
    play(ann.lab, "provision")
    teardown(ann.lab)
    assert not any(left(ann.lab).values())
    for node in ann.lab.nodes:
        assert ann.lab.ssh(node, f"sudo {there}; getent passwd | grep regatta", check=False).stdout == ""
        assert ann.lab.ssh(node, "getent group | grep regatta", check=False).stdout == ""
