"""Members: people without sudo, who have runs of their own on two hosts with a queue, and reach nothing else."""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clusters import Cluster, finish, read_until
from people import Person, account, fingerprint
from provisioning import left, play, teardown

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


def settings(lab: LabHandle, members: list[str], group: str) -> None:
    file = lab.inventory / "group_vars/all.yml"
    file.parent.mkdir(exist_ok=True)
    off = dict.fromkeys(("hdfs_enabled", "monitoring_enabled"), False)
    file.write_text(json.dumps({"members_accounts": members, "members_group": group, **off}))


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
    said = types(person, "runs", "--json")
    return {one["run"]: one["owner"] for one in json.loads(said[said.index("{") :])["runs"]}


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
    said = Cluster(lab).fab("runs", "--json").stdout
    return list(json.loads(said[said.index("{\n") :])["runs"])


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
        ("status",),
        ("runs-gc", "--before", "0m", "--yes"),
        ("rayrun", "job.py", "0"),
        ("torchrun", "--detach", "--workers", "1", "job.py", "0"),
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


@pytest.mark.provisioning
def test_without_members_nothing_is_left(people: tuple[Person, Person]) -> None:
    ann, _ = people
    settings(ann.lab, [], "")
    play(ann.lab, "provision")
    there = "ls -d /etc/regatta/gate /etc/regatta/gate.json /etc/sudoers.d/regatta-members /opt/regatta/members"
    for node in ann.lab.nodes:
        assert ann.lab.ssh(node, f"sudo {there}", check=False).stdout == ""
    assert "ann@" in (said := types(ann, "runs", good=False)) and "is no member of this cluster" in said
    settings(ann.lab, ["ann"], GROUP)
    play(ann.lab, "provision")
    teardown(ann.lab)
    assert not any(left(ann.lab).values())
    for node in ann.lab.nodes:
        assert ann.lab.ssh(node, f"sudo {there}", check=False).stdout == ""
