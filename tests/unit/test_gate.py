"""The gate of members, as a process that gets requests as from a member's shell; it needs root, as sudo gives it."""

import contextlib
import hashlib
import io
import json
import os
import pwd
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import modules
import pytest
from hostile import needs_root

from regatta import paths
from regatta.frameworks import plan, registry
from regatta.hosts import sources, sudo
from regatta.node import layers, main, manifest, members, releases, rights, shared, staging
from regatta_protocol.operations.hosts import GATE, SEND
from regatta_protocol.operations.outputs import Sending
from regatta_protocol.place import Place
from regatta_protocol.run import Spec
from regatta_protocol.sent import program as sendable
from regatta_protocol.value import fields

MEMBER, OTHER, RUNS, APART = "games", "daemon", "nobody", "sync"
"""The last is in the group of the one before, as accounts of members pass the folder of releases."""
ME = "0.0 (test)"
Ask = Callable[..., dict[str, Any]]
LIMITS = {"log_bytes": 1000, "memory_share": 0.5}
RELEASE = "0123456789abcdef"


def program(folder: Path) -> str:
    """The gate, whose files are in a folder."""
    of = f"gate.PLACE = {str(folder / 'gate.json')!r}; layout.NODE = {str(folder / 'node.json')!r}"
    then = f"from regatta.node import gate, layout\n{of}\ngate.main({ME!r})\n"
    return sendable(sources.of_gate(), then).decode()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A node's folders, which other accounts reach, with a run of the member and one of another's."""
    top = Path(tempfile.mkdtemp(prefix="regatta-gate-", dir="/var/tmp"))
    top.chmod(0o755)
    place = {"root": f"{top}/root", "state": f"{top}/state", "python": sys.executable, "user": RUNS}
    limits = {"processes": 5000}
    (top / "gate.json").write_text(json.dumps({**place, "cluster_address": "127.0.0.1", "limits": limits}))
    (top / "node.json").write_text('{"layout": 3}')
    (top / "root").mkdir()
    (top / "state/data").mkdir(parents=True)
    for run, account in (("mine", MEMBER), ("theirs", OTHER)):
        (top / "state/runs" / run / "work").mkdir(parents=True)
        note = {"mode": "unit", "owner": f"{account} SHA256:x", "started": 1.0, "plan": {"project": "plums"}}
        (top / f"state/runs/.{run}.json").write_text(json.dumps(note))
        shutil.chown(top / "state/runs" / run, RUNS)
    (top / "program").write_text(program(top))
    yield top
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def ask(folder: Path) -> Iterator[Ask]:
    """Asks the gate as the member; the answer's last line."""
    with asking(folder) as asks:
        yield asks


@pytest.fixture(scope="module")
def own(folder: Path) -> Iterator[Path]:
    """As `folder`, of a cluster where the member's runs have an account of their own."""
    top = Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-own")))
    place = json.loads((folder / "gate.json").read_text().replace(str(folder), str(top)))
    place["separate"] = {MEMBER: {"name": APART, "ports": [23010, 23019]}}
    (top / "gate.json").write_text(json.dumps(place))
    (top / "program").write_text(program(top))
    shutil.copy(top / "state/runs/.mine.json", top / "state/runs/.old.json")
    (top / "state/runs/old").mkdir()
    for run, account in (("mine", APART), ("theirs", RUNS), ("old", RUNS)):
        shutil.chown(top / "state/runs" / run, account)
    yield top
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def apart(own: Path) -> Iterator[Ask]:
    with asking(own) as asks:
        yield asks


@contextlib.contextmanager
def asking(folder: Path) -> Iterator[Ask]:
    env = {"SUDO_UID": str(pwd.getpwnam(MEMBER).pw_uid), "PATH": "/nowhere", "PYTHONPATH": "/nowhere"}
    command = [sys.executable, "-IS", str(folder / "program")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=env, text=True, **pipes) as process:  # type: ignore[call-overload]

        def asked(op: str, args: dict[str, Any] | None = None, place: dict[str, Any] | None = None) -> dict[str, Any]:
            request = {"op": op, "place": {"gate": ME} if place is None else place, "args": args or {}}
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            while {"done", "error"}.isdisjoint(answer := json.loads(process.stdout.readline())):
                pass
            return dict(answer)

        asked("run.list")  # it has begun
        yield asked
        process.stdin.close()


def spec(top: Path, **more: Any) -> dict[str, Any]:
    """The arguments of a run as controllers start it."""
    usual = {"id": "new", "mode": "unit", "framework": "torch", "release": RELEASE, "limits": LIMITS}
    rank = {"rank": 0, "argv": ["true"]}
    return {"spec": {**usual, "ranks": [rank], "cwd": f"{top}/state/runs/new/work", **more}}


def test_each_operation_is_for_members_by_a_rule_or_is_refused() -> None:
    assert members.RULES.keys() < main.OPERATIONS.keys() and members.REFUSED.keys() < main.OPERATIONS.keys()
    assert not members.RULES.keys() & members.REFUSED.keys()
    page = (paths.PROJECT / "docs/explanation/security.md").read_text()
    text = page.partition("### Members without sudo\n")[2].partition("\n#")[0]
    shown = {
        word for line in text.splitlines() if line.startswith("| `") for word in line.split("|")[1].split("`")[1::2]
    }
    assert shown == members.RULES.keys()


def test_a_new_field_of_a_run_is_for_members_only_with_a_rule() -> None:
    assert members.SPEC.keys() == fields(Spec).keys()


def test_what_sudo_may_start_is_the_gate_that_is_installed() -> None:
    text = (paths.PROJECT / "ansible/roles/members/vars/main.yml").read_text()
    assert f"_members_gate: {GATE}\n" in text


def test_rsync_starts_the_gate_and_gives_it_the_request_in_front_of_its_own_words(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(
        f"#!{sys.executable}\nimport json, sys\nread = sys.stdin.buffer.read\nasked = json.loads(read(int(read(8))))\n"
        f"json.dump([sys.argv[1:], asked], open({str(tmp_path / 'given')!r}, 'w'))\n"
    )
    ssh.chmod(0o755)
    (tmp_path / "asked").write_text('{"run": "one"}')
    starts = f"sudo -n {GATE} {SEND}"
    words = ["rsync", "-tL", f"--rsync-path={starts}", "-e", " ".join(sudo.own([str(ssh), "-x"])), "--no-protect-args"]
    own = {**os.environ, sudo.OF_GATE: str(tmp_path / "asked")}
    subprocess.run([*words, "n1:/a/", f"{tmp_path}/"], env=own, capture_output=True, check=False)
    typed, asked = json.loads((tmp_path / "given").read_text())
    assert typed == ["-x", "n1", starts] and asked["run"] == "one" and asked["flags"].startswith("-")


@needs_root
@pytest.mark.parametrize("env", [{}, {"SUDO_UID": "0"}])
def test_it_serves_nobody_whom_sudo_does_not_name(folder: Path, env: dict[str, str]) -> None:
    command = [sys.executable, "-IS", str(folder / "program")]
    done = subprocess.run(command, env=env, input="", capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "is for members of this cluster" in done.stderr


@needs_root
@pytest.mark.parametrize("op", sorted({*main.OPERATIONS, "run.own"} - {*members.RULES}))
def test_all_other_operations_are_refused(ask: Ask, op: str) -> None:
    said = ask(op)["error"]
    assert said.startswith("you are a member of this cluster without sudo, and ") and "Nothing was changed" in said


@needs_root
def test_another_version_is_named(ask: Ask) -> None:
    said = ask("run.list", place={"gate": "0.1 (old)"})["error"]
    assert ME in said and "0.1 (old)" in said
    assert "and you have another" in ask("run.list", place={"root": "/tmp", "state": "/tmp", "user": None})["error"]


@needs_root
def test_where_things_are_and_who_asks_is_not_the_requests_to_say(ask: Ask, folder: Path) -> None:
    lies = {"gate": ME, "root": "/tmp", "state": "/tmp", "user": "root", "by": OTHER, "member": OTHER}
    made = Path(ask("release.begin", {"release": RELEASE}, lies)["done"]["incoming"])
    assert made.parent == folder / "root/members" and made.owner() == MEMBER and made.stat().st_mode & 0o77 == 0
    assert ask("release.abandon", {"incoming": str(made)}, lies) == {"done": None} and not made.exists()


@needs_root
def test_only_runs_of_the_member_are_shown_and_touched(ask: Ask, folder: Path) -> None:
    assert [one["id"] for one in ask("run.list")["done"]["runs"]] == ["mine"]
    assert ask("run.sizes", {"runs": ["mine", "theirs"]})["done"]["runs"].keys() <= {"mine"}
    more: dict[str, dict[str, Any]] = {
        "run.stop": {"reason": "why"},
        "run.finish": {"state": "stopped", "code": 1},
        "run.left": {"most": 1},
        "run.sums": {"paths": [], "size": 0},
    }
    own = [op for op, rule in members.RULES.items() if "run" in fields(main.declared(op)) and op[:5] != "queue"]
    assert len(own) == 9 and all(
        rule.checked is not members.Rule().checked for rule in map(members.RULES.get, own) if rule
    )
    for op in own:
        for run in ("theirs", "none", "../runs/mine", ".mine", "mine/work", ""):
            assert f"no run '{run}' of {MEMBER}" in ask(op, {"run": run, **more.get(op, {})})["error"]
    assert ask("run.recorded", {"run": "mine"}) == {"done": None}


@needs_root
@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "../new"},
        {"id": "a;b"},
        {"id": "a%n"},
        {"mode": "session"},
        {"release": ""},
        {"service": "spark"},
        {"service": "../ray"},
        {"files": {"../log": ""}},
        {"files": {"/etc/passwd": ""}},
        {"files": {"a/../../b": ""}},
        {"files": {"./a": ""}},
        {"cwd": "/etc"},
        {"cwd": ""},
        {"folder": "../x"},
        {"keep": ["../x"]},
        {"keep": ["/x"]},
        {"layer": "../x"},
        {"temporary": "/tmp/rg-00000000/../x"},
        {"shared": "../x"},
        {"limits": {**LIMITS, "memory_share": 0.9}},
        {"limits": {**LIMITS, "processes": 5001}},
        {"limits": {"memory_share": 0.5}},
        {"limits": {**LIMITS, "memory": -1}},
        {"time_limit": -1.0},
        {"time_limit": float("nan")},
        {"plan": {"ports": list(range(1000))}},
        {"ranks": []},
    ],
    ids=str,
)
def test_a_run_that_reaches_beyond_its_folder_or_unit_is_refused(ask: Ask, folder: Path, wrong: dict[str, Any]) -> None:
    said = ask("run.start", spec(folder, **wrong))["error"]
    assert "a member may not have a run with " in said or "for who has sudo" in said


@needs_root
def test_a_usual_run_passes_the_rules(ask: Ask, folder: Path) -> None:
    """Also the part of a node on which a service starts its processes."""
    for more in ({}, {"mode": "member", "service": "ray", "ranks": []}, {"mode": "member", "framework": "spark"}):
        assert f"release {RELEASE} is not on this node" in ask("run.start", spec(folder, **more))["error"]


def queued(**more: Any) -> dict[str, Any]:
    """The arguments of a run without a controller, with a part of its one node."""
    part = {"spec": {"id": "new", "mode": "unit", "framework": "torch", "release": RELEASE, "files": 0}}
    nodes = {"n1": {"kind": 0, "address": "10.0.0.1", "facts": {}, "place": {"user": "root", "state": "/tmp"}}}
    carried = {"token": "0", "nodes": nodes, "forms": {"0": [part]}, "files": [{}]}
    given = {**carried, **more.pop("carried", {})}
    part["spec"].update(more.pop("spec", {}))
    return {"first": {"run": "new", "wanted": 1, "carried": given, **more}}


@needs_root
@pytest.mark.parametrize(
    "wrong",
    [
        {"run": "../new"},
        {"run": "other"},
        {"wanted": 0},
        {"after": -1},
        {"nice": 1 << 20},
        {"cores": -1},
        {"gpus": -1},
        {"seconds": -1.0},
        {"notify": {"urls": ["mailto://a.example"], "cluster": "one"}},
        {"notify": {"urls": ["https://a.example"], "cluster": "a\nb"}},
        {"carried": {"nodes": {"n1;id": {"kind": 0, "address": "", "facts": {}}}}},
        {"carried": {"forms": {}}},
        {"spec": {"service": "spark"}},
    ],
    ids=str,
)
def test_a_run_without_a_controller_is_bound_by_the_same_rules(ask: Ask, wrong: dict[str, Any]) -> None:
    assert "has no Slurm any more" in ask("queue.submit", queued())["error"]
    said = ask("queue.submit", queued(**wrong))["error"]
    assert "a member may not have " in said or "for who has sudo" in said


@needs_root
def test_each_node_checks_its_part_of_a_run_without_a_controller(ask: Ask, folder: Path, tmp_path: Path) -> None:
    """As a task of Slurm does, with the rules and the account that the node knows."""
    (tmp_path / "scontrol").write_text("#!/bin/sh\necho n1\n")
    (tmp_path / "logger").write_text(f'#!/bin/sh\necho "$2" >>{tmp_path}/journal\n')
    for name in ("scontrol", "logger"):
        (tmp_path / name).chmod(0o755)
    (folder / "root/releases" / RELEASE).mkdir(parents=True, exist_ok=True)

    kept = {name: json.loads((folder / "gate.json").read_text())[name] for name in ("user", "root", "state")}
    member = {**kept, "by": MEMBER, "member": MEMBER}

    def forgotten() -> None:
        shutil.rmtree(folder / "state/runs/new")
        for note in (folder / "state/runs").glob(".new.*"):
            note.unlink()

    def task(what: str, run: str, job: str, **more: Any) -> tuple[int, str]:
        own = {**spec(folder, id=run, files=0, record={}, cwd=f"{folder}/state/runs/{run}/work")["spec"], **more}
        asked = queued(carried={"forms": {"0": [{"spec": own}]}})["first"]["carried"]
        of = f"gate.PLACE = {str(folder / 'gate.json')!r}; layout.NODE = {str(folder / 'node.json')!r}"
        then = f"import sys\nfrom regatta.node import detached, gate, layout\n{of}\n"
        text = sendable(sources.of_gate(), f"{then}detached.main({what!r}, {json.dumps(asked)!r}, {member!r})\n")
        slurm = {"SLURMD_NODENAME": "n1", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_NAME": job}
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **slurm}
        (tmp_path / "journal").write_text("")
        command = [sys.executable, "-IS", "-"]
        done = subprocess.run(command, input=text, env=env, capture_output=True, check=False)
        return done.returncode, (tmp_path / "journal").read_text() + done.stderr.decode()

    assert "is not the run that games has queued" in task("run", "other", "new")[1]
    for wrong in ({"cwd": "/etc"}, {"limits": {**LIMITS, "processes": 5001}}, {"mode": "session"}):
        code, said = task("run", "new", "new", **wrong)
        assert code == 1 and "a member may not have a run with " in said, said
    assert not (folder / "state/runs/other").exists()
    (shown,) = [one for one in ask("run.list", {})["done"]["runs"] if one["id"] == "new"]
    assert shown["state"] == "failed"
    cause = json.loads((folder / "state/runs/new/exit.json").read_text())["failure"]["cause"]
    assert "it could not start: a member may not have a run with cwd" in cause
    forgotten()
    for left, why in ((None, "has no members any more"), ({"separate": {}}, f"no account here for runs of {MEMBER}")):
        place = (folder / "gate.json").read_text()
        (folder / "gate.json").unlink()
        if left is not None:
            (folder / "gate.json").write_text(json.dumps({**json.loads(place), **left}))
        assert task("run", "other", "new")[0] == 1 and not (folder / "state/runs/other").exists()
        assert [task(what, "new", "new")[0] for what in ("run", "stop")] == [1, 1]
        (folder / "gate.json").write_text(place)
        assert why in json.loads((folder / "state/runs/new/exit.json").read_text())["failure"]["cause"]
        forgotten()
    for run in ("mine", "theirs"):  # of these names, which the job did not begin
        assert f"a run named '{run}' exists already" in task("run", run, run)[1]
        for what in ("stop", "finish"):
            assert task(what, run, run) == (0, "")
        assert not (folder / "state/runs" / run / "exit.json").exists()


@needs_root
@pytest.mark.parametrize("framework", ["ray", "spark", "mpi", "tensorflow", "ray-tune"])
def test_frameworks_that_keep_no_runs_apart_are_refused_where_members_are(apart: Ask, framework: str) -> None:
    said = apart("run.start", {"spec": {**spec(Path("/x"))["spec"], "framework": framework}})["error"]
    assert f"{framework} cannot keep members' runs apart (members_separate)" in said


def test_frameworks_that_keep_runs_apart_are_ours() -> None:
    assert set(registry.names()) > members.SEPARATE and members.RUN_PORTS == plan.PORTS


@needs_root
def test_a_run_has_the_account_and_the_ports_of_the_member_who_asks(apart: Ask, own: Path) -> None:
    """Whatever the request says."""
    lies = {"gate": ME, "account": "root", "user": "root", "separate": None, "ports": [1, 9]}
    for asked, few in (([29400, 29499], range(23010, 23020)), ([29450, 29499], range(23015, 23020))):
        said = apart("inspect", {"facts_wanted": False, "ports": asked, "free": 3}, lies)["done"]
        assert said["ports"] and {*said["ports"]} <= {*few}
    assert "may not have the ports" in apart("inspect", {"facts_wanted": False, "ports": [8000, 8100]})["error"]
    (own / "root/releases" / RELEASE).mkdir(parents=True, exist_ok=True)
    error = apart("run.start", spec(own, mode="unit", keep=["kept"], shared="new", project="plums"), lies)["error"]
    assert "runs of members have no shared folder on this cluster: with members_separate" in error
    assert not (own / "state/runs/new").exists()


@needs_root
def test_a_member_without_an_account_for_runs_is_refused(own: Path) -> None:
    place = json.loads((own / "gate.json").read_text())
    (own / "gate.json").write_text(json.dumps({**place, "separate": {}}))
    try:
        with asking(own) as ask:
            assert f"no account here for runs of {MEMBER}" in ask("run.list")["error"]
    finally:
        (own / "gate.json").write_text(json.dumps(place))


@needs_root
def test_the_files_of_a_run_are_read_as_its_account(apart: Ask, own: Path) -> None:
    """One that another account's run has put in its place, or leads to, is not read."""
    work = own / "state/runs/mine/work"
    for name, mode, account in (("out", 0o600, APART), ("others", 0o600, RUNS)):
        (work / name).write_text("x")
        (work / name).chmod(mode)
        shutil.chown(work / name, account)
    sums = apart("run.sums", {"run": "mine", "paths": ["out", "others"], "size": 2})["done"]["sums"]
    assert sums[0][0] == 1 and sums[1] is None
    known: Place = json.loads((own / "gate.json").read_text())
    place: Place = {**known, "by": MEMBER}
    words = members.sender(place, Sending("mine", ("out",), "-LtRe.LsfxCIvu"), "list")
    assert words[:3] == ["/usr/bin/setpriv", f"--reuid={APART}", f"--regid={APART}"]
    assert apart("run.left", {"run": "mine", "most": 9, "part": "projects/plums"})["done"]["count"] == 0
    assert {one["id"] for one in apart("run.list")["done"]["runs"]} == {"mine", "old"}


@needs_root
def test_the_runs_of_a_member_have_a_shared_folder_of_their_own(apart: Ask, own: Path) -> None:
    """Its parts are the member's also where no run of that name was on the node."""
    state = own / "state"
    tops = {RUNS: state / "shared", APART: state / "members" / APART}
    for account, top in tops.items():
        for part in ("runs/elsewhere", "projects/plums"):
            (top / part).mkdir(parents=True)
            (top / part / "of").write_text(account)
        for path in (top, *top.rglob("*")):
            path.chmod(0o700)
            shutil.chown(path, account)
    known: Place = json.loads((own / "gate.json").read_text())
    place: Place = {**known, "by": MEMBER, "account": APART}
    try:
        for part in ("runs/elsewhere", "projects/plums"):
            left = apart("run.left", {"run": "elsewhere", "most": 9, "part": part})["done"]
            assert left["top"] == str(tops[APART] / part) and [one[0] for one in left["files"]] == ["of"]
            (known_sum,) = apart("run.sums", {"run": "x", "paths": ["of"], "size": 4, "part": part})["done"]["sums"]
            assert known_sum[2] == hashlib.sha256(APART.encode()).hexdigest()
            words = members.sender(place, Sending("elsewhere", ("of",), "-LtRe.LsfxCIvu", part), "list")
            assert words[1] == f"--reuid={APART}" and words[-1] == f"{tops[APART]}/{part}/"
        env = {"REGATTA_SHARED": f"{state}/shared/runs/new", "REGATTA_PROJECT": f"{state}/shared/projects/x", "A": "b"}
        told = rights.call(APART, lambda: shared.variables(known, env))
        assert told == {name: env[name].replace("/shared/", f"/members/{APART}/") for name in list(env)[:2]}
        assert rights.call(RUNS, lambda: shared.variables(known, env)) == {name: env[name] for name in told}
        (tops[APART] / "runs/alone").mkdir()
        assert shared.account(known, "alone", "runs/alone") == APART
        assert shared.account(known, "never", "runs/never") == RUNS
        assert shared.account(known, "elsewhere", "runs/elsewhere") == RUNS, "another person's, by that name"
        assert {*shared.parts(known).runs} == {"elsewhere", "alone"}
        assert shared.remove(known, ["elsewhere"], [], 9.0).runs == ("elsewhere", "elsewhere")
        assert {*shared.parts(known).runs} == {"alone"} and {*shared.parts(known).projects} == {"plums"}
    finally:
        shutil.rmtree(state / "shared")
        shutil.rmtree(state / "members")


@needs_root
def test_a_run_that_ends_roots_helpers_keeps_nobody_from_starting(apart: Ask) -> None:
    who = pwd.getpwnam(APART)
    words = [
        "/usr/bin/python3",
        "-IS",
        "-c",
        "import os\nprint(1, flush=True)\nwhile True:\n try: os.kill(-1, 9)\n except OSError: 0",
    ]
    with subprocess.Popen(words, user=who.pw_uid, group=who.pw_gid, extra_groups=[], stdout=subprocess.PIPE) as hostile:
        try:
            assert hostile.stdout and hostile.stdout.readline()
            for _ in range(5):
                assert "done" in apart("inspect", {"facts_wanted": False, "ports": [29400, 29499]})
                assert [one["owner"][:5] for one in apart("run.list")["done"]["runs"]] == [MEMBER, MEMBER]
                assert "done" in apart("run.contention", {"run": "old"})
        finally:
            hostile.kill()


@needs_root
def test_runs_of_before_are_the_shared_accounts_which_may_read_more(apart: Ask) -> None:
    for op, more in (("run.left", {"most": 1}), ("run.sums", {"paths": [], "size": 0}), ("run.watch", {"offset": 0})):
        assert "old is of before members had accounts of their own" in apart(op, {"run": "old", **more})["error"]
    assert apart("run.sizes", {"runs": ["old", "theirs"]})["done"]["runs"] == {}
    assert apart("run.stop", {"run": "old", "reason": "x"})["done"]["exit"]["state"] == "stopped"


@needs_root
@pytest.mark.parametrize(
    "wrong",
    [
        {"release": "../x"},
        {"data": [{"sha256": "../x", "name": "a", "size": 1}]},
        {"data": [{"sha256": "0" * 64, "name": "../a", "size": 1}]},
        {"layer": {"key": "../x"}},
        {"layer": {"label": "x" * 1000}},
        {"ports": [1, 100]},
        {"ports": [2000]},
        {"free": 1000},
        {"asks": {"x": "ray.service.end"}},
        {"asks": {"x": "spark.master.history"}},
        {"asks": {"x": "../ray.service.node_id"}},
        {"apt": ["-x"]},
    ],
    ids=str,
)
def test_questions_of_a_launch_are_bound(ask: Ask, wrong: dict[str, Any]) -> None:
    said = ask("inspect", {"facts_wanted": False, **wrong})["error"]
    assert "a member may not have " in said or "for who has sudo" in said


def sent(ask: Ask, op: str, args: dict[str, Any], make: Callable[[Path], object]) -> str:
    """A folder that the member was given, with what the member has made in it."""
    made = Path(ask(op, args)["done"]["incoming"])
    make(made)
    who = pwd.getpwnam(MEMBER)
    for path in [*made.rglob("*")]:
        os.chown(path, who.pw_uid, who.pw_gid, follow_symlinks=False)
    return str(made)


@needs_root
def test_a_release_is_roots_copy_under_the_name_of_its_content(ask: Ask, folder: Path) -> None:
    def make(top: Path) -> None:
        (top / "a").mkdir()
        (top / "a/train.py").write_text("x = 1")
        (top / "a/run.sh").write_text("exit")
        (top / "a/run.sh").chmod(0o4755)
        (top / "a/link").symlink_to("/etc")
        os.link(top / "a/train.py", top / "again")

    made = sent(ask, "release.begin", {"release": RELEASE}, make)
    entries = [entry for path in manifest.walk(made) if (entry := manifest.entry(made, path))]
    release = manifest.release_id(entries)
    good = {"release": release, "incoming": made, "expected": entries}
    for wrong in ({"release": RELEASE}, {"incoming": str(folder)}, {"incoming": f"{made}/a"}, {"expected": [1]}):
        assert "error" in ask("release.commit", {**good, **wrong})
    said = ask("release.commit", good)
    assert "done" in said and said["done"]["ok"]
    there = folder / "root/releases" / release
    assert there.joinpath("a/train.py").owner() == "root" and (there / "a/link").readlink() == Path("/etc")
    assert [there.joinpath("a", name).stat().st_mode & 0o7777 for name in ("train.py", "run.sh")] == [0o444, 0o555]
    assert not Path(made).exists() and not any(folder.joinpath("root/releases").glob(".incoming*"))
    assert ask("inspect", {"release": release, "facts_wanted": False})["done"]["release"]["state"] == "whole"
    patch = {"base": release, "files": {"a/link/x": {"kind": "f", "content": "", "mtime_ns": 1}}}
    said = ask("inspect", {"release": RELEASE, "facts_wanted": False, "patch": patch})["done"]
    assert said["release"]["state"] == "missing" and said["begun"]["incoming"].startswith(f"{folder}/root/members/")


OWN_LAYER = "0123abcd" + layers.own({"member": MEMBER})


def packed(top: Path, *more: tarfile.TarInfo, compiled: bool = True) -> dict[str, Any]:
    """A layer's archive in a member's folder, with these entries beside a module; what is asked to bring it."""
    entries = [("plum/__init__.py", b"x = 1\n", 0o4755), ("plum/data", b"y", 0o644)]
    with tarfile.open(top / "layer.tar.gz", "w:gz") as archive:
        for name, content, mode in entries:
            one = tarfile.TarInfo(name)
            one.size, one.mode = len(content), mode
            archive.addfile(one, io.BytesIO(content))
        for one in more:
            archive.addfile(one)
    listed = [[name, "x" if mode & 0o111 else "f", hashlib.sha256(said).hexdigest()] for name, said, mode in entries]
    listed += [[one.name, "l", one.linkname] for one in more if one.issym()]
    about = {"bytes": 8, "packages": {"plum": "1.0"}, "instead": {}, "label": "mine", "compiled": compiled}
    digest = manifest.file_hash(top / "layer.tar.gz")
    tree = {"tree": manifest.release_id(listed)}
    return {"key": OWN_LAYER, "archive": "layer.tar.gz", "sha256": digest, "about": about | tree}


def brought(ask: Ask, *more: tarfile.TarInfo, **other: Any) -> dict[str, Any]:
    """What the gate says of a layer that the member brings; `other`: what is asked instead of the usual."""
    asked: dict[str, Any] = {}
    compiled = other.pop("compiled", True)
    made = sent(
        ask,
        "layer.begin",
        {"key": OWN_LAYER, "size": 10},
        lambda top: asked.update(packed(top, *more, compiled=compiled)),
    )
    return ask("layer.commit", {**asked, "incoming": made, **other})


@needs_root
def test_a_layer_of_a_member_is_roots_copy_under_a_key_of_the_members_own(ask: Ask, folder: Path) -> None:
    there = folder / "root/layers"
    assert ask("inspect", {"facts_wanted": False, "layer": {"key": "0123abcd"}})["done"]["layer"]["own"] in OWN_LAYER
    for key in ("0123abcd", "0123abcd-u1-0123abcd", "../x", OWN_LAYER.removeprefix("0123abcd"), f"{OWN_LAYER}0"):
        assert "a member may not have the layer" in ask("layer.begin", {"key": key, "size": 1})["error"]
        assert "a member may not have the layer" in brought(ask, key=key)["error"]
    assert "is built by who has sudo" in ask("layer.begin", {"key": f"build-{OWN_LAYER}", "size": 1})["error"]
    assert not brought(ask, sha256="0" * 64)["done"]["ok"] and not (there / OWN_LAYER).exists()
    assert brought(ask)["done"] == {"ok": True, "pruned": []}
    module = there / OWN_LAYER / "plum/__init__.py"
    assert (module.owner(), module.stat().st_mode & 0o7777) == ("root", 0o555)
    assert ask("inspect", {"facts_wanted": False, "layer": {"key": OWN_LAYER}})["done"]["layer"]["there"]
    assert not [*there.glob(".incoming*")]


@needs_root
@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_a_layer_has_only_files_links_and_folders(ask: Ask, folder: Path, kind: bytes) -> None:
    one = tarfile.TarInfo("plum/more")
    one.type, one.linkname = kind, "plum/data"
    assert "is no file, link or folder" in brought(ask, one)["error"]
    assert not [*folder.glob("root/layers/.incoming*")]


def damaged(ask: Ask, make: Callable[[Path], object], **other: Any) -> dict[str, Any]:
    """What the gate says where the member's folder has not the archive that was asked for."""
    asked: dict[str, Any] = {}

    def made(top: Path) -> None:
        asked.update(packed(top))
        make(top)

    incoming = sent(ask, "layer.begin", {"key": OWN_LAYER, "size": 10}, made)
    return ask("layer.commit", {**asked, "incoming": incoming, **other})


@needs_root
def test_what_is_no_archive_is_not_opened_and_nothing_of_it_stays(ask: Ask, folder: Path) -> None:
    def linked(top: Path) -> None:
        (top / "layer.tar.gz").unlink()
        (top / "layer.tar.gz").symlink_to("/etc/shadow")

    for make in (linked, lambda top: (top / "layer.tar.gz").unlink()):
        assert "has not arrived as a file" in damaged(ask, make)["error"]
    assert "error" in damaged(ask, lambda top: (top / ".layer").mkdir())
    assert not [*folder.glob("root/layers/.incoming*")]


@needs_root
def test_deep_trees_are_refused_and_stop_nobody(ask: Ask, folder: Path) -> None:
    deep = tarfile.TarInfo("d/" * (staging.MOST_DEPTH + 1) + "x")
    assert "folders in each other" in brought(ask, deep)["error"]
    old = folder / "root/layers/.incoming-old-0123"
    subprocess.run(["mkdir", "-p", f"{old}/{'d/' * 1500}"], check=True)
    releases.clear_abandoned(str(old.parent))
    assert old.exists(), "it may be arriving"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(releases, "GRACE_SECONDS", -1)
        releases.clear_abandoned(str(old.parent))
    assert not old.exists()


@needs_root
@pytest.mark.parametrize(
    "wrong",
    [{"bytes": 10**400}, {"bytes": -1}, {"label": "\x1b[2J"}, {"packages": {"a\nb": "1"}}, {"label": "x" * 300}],
    ids=["many bytes", "few bytes", "control", "line", "long"],
)
def test_what_is_kept_of_a_layer_harms_nobody_who_lists_it(ask: Ask, wrong: dict[str, Any]) -> None:
    about = {"bytes": 8, "packages": {}, "instead": {}, "label": "mine", "compiled": True, "tree": "0" * 16}
    assert "a member may not have " in damaged(ask, lambda top: None, about={**about, **wrong})["error"]


@needs_root
def test_another_members_layer_is_neither_told_of_nor_run_with(ask: Ask, folder: Path) -> None:
    other = "0123abcd" + layers.own({"member": OTHER})
    (folder / f"root/layers/{other}").mkdir(parents=True)
    (folder / f"root/layers/.{other}.json").write_text('{"for": []}')
    said = ask("inspect", {"facts_wanted": False, "layer": {"key": other}})
    assert "a member may not have the layer" in said["error"]
    assert "a member may not have a run with layer" in ask("run.start", spec(folder, layer=other))["error"]


@needs_root
def test_root_writes_no_byte_code_where_a_link_of_a_layer_leads(ask: Ask, folder: Path, tmp_path: Path) -> None:
    link = tarfile.TarInfo("plum/__pycache__")
    link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
    assert brought(ask, link, compiled=False, key=OWN_LAYER.replace("0123", "0124"))["done"]["ok"]
    assert not [*tmp_path.iterdir()]


@needs_root
def test_layers_of_a_member_take_the_place_of_no_others(ask: Ask, folder: Path) -> None:
    top = folder / "root/layers"
    for number in range(layers.KEEP + 3):
        for key in (f"a{number}", f"b{number}-u1-0123abcd", OWN_LAYER.replace("0123abcd", f"c{number}")):
            (top / key).mkdir(parents=True)
            (top / f".{key}.json").write_text('{"for": []}')
            os.utime(top / f".{key}.json", (number, number))
    pruned = brought(ask, key=OWN_LAYER.replace("0123", "0125"))["done"]["pruned"]
    assert len(pruned) >= 3 and all(key.startswith("c") for key in pruned)


@needs_root
def test_what_a_link_in_the_members_folder_leads_to_is_not_read_by_root(ask: Ask, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root's")
    digest = manifest.file_hash(secret)
    args = {"sha256": digest, "name": "file"}
    made = sent(ask, "data.begin", {"size": 1}, lambda top: (top / "file").symlink_to(secret))
    assert not ask("data.commit", {**args, "incoming": made})["done"]["ok"] and secret.stat().st_mode & 0o777 == 0o644
    other = sent(ask, "data.begin", {"size": 1}, lambda top: (top / "file").write_text("root's"))
    os.chown(other, pwd.getpwnam(OTHER).pw_uid, -1)
    assert "is no folder that" in ask("data.commit", {**args, "incoming": other})["error"]
    good = sent(ask, "data.begin", {"size": 1}, lambda top: (top / "file").write_text("root's"))
    for name in ("../file", "a/b", "", ".x"):
        assert "a member may not have" in ask("data.commit", {**args, "name": name, "incoming": good})["error"]
    assert ask("data.commit", {**args, "incoming": good})["done"]["ok"]


@needs_root
def test_a_tar_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    from regatta.node.problem import Problem

    def archive(*entries: tuple[str, bytes, str]) -> io.BytesIO:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as tar:
            for name, kind, where in entries:
                one = tarfile.TarInfo(name)
                one.type, one.linkname = kind, where
                tar.addfile(one)
        return io.BytesIO(made.getvalue())

    for number, entries in enumerate(
        (
            [("../x", tarfile.REGTYPE, "")],
            [("/x", tarfile.REGTYPE, "")],
            [("x", tarfile.CHRTYPE, "")],
            [("x", tarfile.LNKTYPE, "/etc/passwd")],
        )
    ):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(Problem):
            staging.unpack(archive(*entries), str(tmp_path / str(number)))
    (tmp_path / "links").mkdir()
    through = archive(("a", tarfile.SYMTYPE, str(tmp_path)), ("a/new", tarfile.REGTYPE, ""))
    with pytest.raises(OSError):
        staging.unpack(through, str(tmp_path / "links"))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "wrong", [{"run": "theirs"}, {"flags": "-s"}, {"flags": "--daemon"}, {"paths": ("../x",)}, {"part": "runs/x"}]
)
def test_files_are_sent_of_own_runs_only_and_by_no_other_rsync(tmp_path: Path, wrong: dict[str, Any]) -> None:
    from regatta.node.problem import Problem

    place: Place = {"state": str(tmp_path), "by": "ann"}
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/.mine.json").write_text('{"owner": "ann", "plan": {"project": "plums"}}')
    good = Sending("mine", ("a/b",), "-LtRe.LsfxCIvu")
    assert members.sender(place, good, "list")[-1] == f"{tmp_path}/runs/mine/work/"
    assert (
        members.sender(place, good.changed(part="projects/plums"), "list")[-1] == f"{tmp_path}/shared/projects/plums/"
    )
    with pytest.raises(Problem):
        members.sender(place, good.changed(**wrong), "list")


def test_accounts_of_members_are_the_same_on_all_hosts() -> None:
    problems = modules.load("members", "roles/members/filter_plugins/members.py").problems
    ann, bob = "ann:x:1001:1001::/home/ann:/bin/bash", "bob:x:1002:1002::/home/bob:/bin/bash"
    assert problems({"n1": [ann, bob], "n2": [ann, bob]}, ["ann", "students"], "students") == []
    said = problems({"n1": [ann, bob], "n2": ["ann", bob.replace("1002", "1003", 1), "%"]}, ["ann", "x y"], "students")
    assert "'x y' is no name" in said[0] and "n2: there is no account ann" in said[1]
    assert "n2: there is no group students" in said[2]
    assert "bob has different numbers (1002 on n1, 1003 on n2)" in said[3] and len(said) == 4
    assert "of the system" in problems({"n1": ["games:x:5:60::/:/bin/sh"]}, ["games"], "")[0]


def test_accounts_for_runs_of_members_are_nobody_elses() -> None:
    module = modules.load("members", "roles/members/filter_plugins/members.py")
    ann, bob = "ann:x:1001:1001::/home/ann:/bin/bash", "bob:x:1002:1002::/home/bob:/bin/bash"
    found = {"n1": [ann, bob, ann], "n2": [bob, ann]}
    (one, two) = module.accounts(found["n1"])
    assert (one["login"], one["name"], one["number"], one["ports"]) == ("ann", "regatta-ann", 66001, [23010, 23019])
    assert two["ports"] == [23020, 23029]
    there = ["+regatta-ann:x:66001:66001:Regatta runs of ann:/:/bin/false", "@regatta-ann:x:66001:"]
    assert module.separate(found, {"n1": there, "n2": []}) == []
    for wrong in (
        "+regatta-ann:x:66001:66001:Somebody:/:/bin/sh",
        "+regatta-ann:x:70000:66001:Regatta runs of ann:/:/bin/sh",
        "+eve:x:66001:66001::/:/bin/sh",
        "@eve:x:66002:",
        "!/etc/subuid gives numbers to eve",
    ):
        (said,) = module.separate(found, {"n2": [wrong]})
        assert said.startswith("n2: ") and "members_separate" in said
    script = paths.PROJECT / "ansible/roles/members/files/apart.sh"
    said = subprocess.run(["sh", script, f"x:-{module.OFFSET}"], capture_output=True, text=True, check=True).stdout
    assert "+root:x:0:0:" in said and "@root:x:0:" in said
    twins = f"carol:x:{1001 + module.SLOTS}:1::/:/bin/sh"
    assert "carol and ann have numbers 400 apart" in module.separate({"n1": [ann, twins]}, {})[0]
    assert "takes numbers from 1000 to 34999" in module.separate({"n1": ["eve:x:40000:1::/:/bin/sh"]}, {})[0]
    assert "at most 24" in module.separate({"n1": [f"{'x' * 25}:x:1001:1::/:/bin/sh"]}, {})[0]
