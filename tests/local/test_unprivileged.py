"""This machine only (inventory/local) for a person without privileges: everything as typed."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from person import PROJECT, Person

from regatta.records import document

TORCH = """\
import os, signal, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print("sum", total.item(), sys.argv[1:], flush=True)
dist.barrier()
mode = sys.argv[1] if len(sys.argv) > 1 else ""
if mode == "exit":
    dist.destroy_process_group()  # an exit without may abort in a thread of torch's: another code
    sys.exit(int(sys.argv[2]))
if mode == "kill" and dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if mode in ("wait", "kill"):
    time.sleep(300)
dist.destroy_process_group()
"""

RAY = """\
import json, os, pathlib, stat, subprocess, sys, time
import ray

how, mode, code = sys.argv[1:4]
ray.init(address="auto") if how == "auto" else ray.init()

@ray.remote
class Worker:
    def square(self, x):
        return x * x, os.environ["OMP_NUM_THREADS"], os.nice(0)
    def wait(self):
        time.sleep(300)

def listening():
    found = set()
    for name in ("tcp", "tcp6"):
        for line in pathlib.Path("/proc/net", name).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[7]) == os.getuid():
                found.add(fields[1].partition(":")[0])
    return sorted(found)

workers = [Worker.remote() for _ in range(2)]
answers = ray.get([worker.square.remote(number) for number, worker in enumerate(workers)])
if mode == "look":
    token = pathlib.Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    stranger = "import ray; ray.init(address='auto', logging_level='error'); print('IN')"  # plain words: a name
    env = os.environ | {"RAY_AUTH_TOKEN": "0" * 64}
    del env["RAY_AUTH_TOKEN_PATH"]
    refused = subprocess.run(
        [sys.executable, "-c", stranger], env=env, capture_output=True, text=True  # plain words: a name
    )
    print("LOOK", json.dumps({
        "answers": answers,
        "addresses": [node["NodeManagerAddress"] for node in ray.nodes()],
        "listening": listening(),
        "token": stat.S_IMODE(token.stat().st_mode),
        "folder": [stat.S_IMODE(token.parent.stat().st_mode), token.parent.stat().st_uid == os.getuid()],
        "stranger": [refused.returncode != 0, "IN" in refused.stdout],  # plain words: a key
        "shared": os.environ["RAY_ADDRESS"],
    }), flush=True)
if mode == "wait":
    print("WAITING", os.getpid(), flush=True)
    ray.get([worker.wait.remote() for worker in workers])
sys.exit(int(code))
"""

pytestmark = pytest.mark.timeout(1500)  # the first test sets a clone up, on a machine that may be busy
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.fixture
def scripts(ready: Person) -> Path:
    """A folder of theirs that is no git repository, with a space in its name and two scripts."""
    folder = ready.home / "my scripts"
    ready.write(folder / "train.py", TORCH)
    ready.write(folder / "actors.py", RAY)
    return folder


class Waiting:
    """A run that waits, and the command that follows it."""

    def __init__(self, person: Person, folder: Path, name: str, task: str, *words: str) -> None:
        command = (person.regatta, task, "--workers=2", f"--name={name}", *words)
        self.name = name
        self.process = person.start(*command, cwd=folder)
        self.printed = ""

    def until(self, sign: str) -> "Waiting":
        """Read until the run has printed `sign`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed += line
            if sign in line:
                return self
        raise AssertionError(self.printed)

    def end(self) -> tuple[int, str]:
        """The command's exit code and all that it printed."""
        rest, _ = self.process.communicate()
        return self.process.returncode, self.printed + rest


def test_demo_chooses_this_machine_and_says_so_first(ready: Person, demo: tuple[int, str]) -> None:
    lines = demo[1].splitlines()
    assert "inventory/local" in lines[0]
    assert any("answers of 3 runs are equal" in line for line in lines)
    assert any(line.split() == ["seconds", "single", "torch", "ray"] for line in lines)
    records = [document.load(path) for path in sorted((ready.clone / "results").glob("ppr-*.json"))]
    assert sorted(one.identity.framework for one in records) == ["ray", "single", "torch"]
    assert {one.exit.state for one in records} == {"succeeded"}
    assert all(one.answer["sources"] for one in records)
    single, *others = records
    for other in others:
        assert [source["top"] for source in other.answer["sources"]] == [s["top"] for s in single.answer["sources"]]


def test_the_second_time_nothing_is_made_again(ready: Person) -> None:
    code, text = ready.type("make", "setup-node")
    assert (code, text) == (0, "")


def test_a_chosen_inventory_is_said_first(ready: Person) -> None:
    code, text = ready.type("make", "demo", "INVENTORY=inventory/local", WORKERS="0")
    assert text.splitlines()[0] == "demo: this machine only (inventory/local)"
    assert "--workers must be at least 1, not 0" in text
    assert code == 2


def test_torchrun_in_a_folder_of_theirs(ready: Person, scripts: Path) -> None:
    code, text = ready.type(ready.regatta, "torchrun", "--workers=2", "train.py", "a b", "*", cwd=scripts)
    assert code == 0, text
    assert text.count("| sum 3.0 ['a b', '*']") == 2
    kept = document.load(next((scripts / "results").glob("train-torch-*.json")))
    assert (kept.exit.state, kept.exit.code) == ("succeeded", 0)
    code, text = ready.type(ready.regatta, "torchrun", "--workers=2", "train.py", "exit", "7", cwd=scripts)
    assert code == 7, text
    assert "exited with code 7" in text


def test_a_place_of_their_choice_and_a_container_without_tools(ready: Person, scripts: Path) -> None:
    """Neither git nor rsync nor ssh; releases, runs and data in a folder with a space in its name."""
    place = ready.home / "else where"
    env = {"REGATTA_HOME": str(place), "REGATTA_RESULTS": str(place / "results"), "PATH": str(ready.base / "bin")}
    for name in ("one", "two"):
        ready.write(scripts / "note.txt", name)
        words = ("torchrun", "--workers=1", f"--name={name}", "train.py")
        code, text = ready.type(ready.regatta, *words, cwd=scripts, **env)
        assert code == 0, text
        assert (place / f"local/state/runs/{name}/exit.json").is_file()
    assert sorted(path.read_text() for path in place.glob("local/releases/*/note.txt")) == ["one", "two"]
    code, text = ready.type(ready.regatta, "runs", cwd=scripts, **env)
    rows = [line.split()[:3] for line in text.splitlines()[1:]]
    assert rows == [["one", "succeeded", "torch"], ["two", "succeeded", "torch"]]


def test_a_home_that_cannot_be_written_is_said_without_a_traceback(ready: Person) -> None:
    code, text = ready.type(ready.fab, "status", HOME="/nonexistent")
    assert code == 2
    assert "Unable to create local directories" in text
    assert "Traceback" not in text


def test_two_private_rays_at_once_each_closed_to_others(ready: Person, scripts: Path) -> None:
    command = (ready.regatta, "rayrun", "--workers=2", "--now", "actors.py")
    both = [
        (0, ready.start(*command, "auto", "look", "0", cwd=scripts)),
        (5, ready.start(*command, "plain", "look", "5", cwd=scripts)),
    ]
    looks = []
    for code, process in both:
        text, _ = process.communicate()
        assert process.returncode == code, text
        assert ("the driver on localhost: exited with code 5" in text) == (code == 5)
        looks.append(json.loads(next(line for line in text.splitlines() if "LOOK" in line).partition("LOOK ")[2]))
    for look in looks:
        assert look["answers"] == [[0, "1", 0], [1, "1", 0]]
        assert look["addresses"] == ["127.0.0.1"]
        assert look["listening"]
        assert set(look["listening"]) <= LOOPBACK
        assert (look["token"], look["folder"]) == (0o600, [0o700, True])
        assert look["stranger"] == [True, False]
    assert looks[0]["shared"] != looks[1]["shared"]


def test_a_killed_rank_is_named(ready: Person, scripts: Path) -> None:
    code, text = ready.type(ready.regatta, "torchrun", "--workers=2", "train.py", "kill", cwd=scripts)
    assert code == 137, text
    assert "rank 1 on localhost: killed by SIGKILL" in text


@pytest.mark.parametrize(
    ("task", "words", "sign"),
    [("torchrun", ("train.py", "wait"), "| sum 3.0"), ("rayrun", ("actors.py", "plain", "wait", "0"), "| WAITING")],
)
def test_ctrl_c_cancels_the_run(ready: Person, scripts: Path, task: str, words: tuple[str, ...], sign: str) -> None:
    waiting = Waiting(ready, scripts, f"stopped-{task}", task, *words).until(sign)
    os.killpg(waiting.process.pid, signal.SIGINT)
    code, text = waiting.end()
    assert code == 130, text
    assert f"cancelling {waiting.name} on every node" in text
    assert ready.processes() == {}
    code, text = ready.type(ready.regatta, "runs", cwd=scripts)
    assert [line.split()[1] for line in text.splitlines() if line.startswith(waiting.name)] == ["cancelled"]


def test_cancelled_from_another_shell(ready: Person, scripts: Path) -> None:
    waiting = Waiting(ready, scripts, "other", "rayrun", "actors.py", "plain", "wait", "0").until("| WAITING")
    attached = ready.start(ready.fab, "attach", "other")
    code, text = ready.type(ready.fab, "status")
    assert (code, text.splitlines()[-1]) == (0, "runs in progress: other")
    assert ready.type(ready.fab, "cancel", "other") == (0, "other: cancelled on localhost\n")
    assert waiting.end()[0] == 143
    assert "error: other was cancelled" in attached.communicate()[0]
    code, text = ready.type(ready.fab, "logs", "last")
    assert code == 0
    assert "WAITING" in text
    assert ready.type(ready.fab, "cancel", "other") == (1, "error: other is not running: it has stopped\n")


def test_runs_take_turns_and_that_of_a_killed_controller_keeps_its_own(ready: Person, scripts: Path) -> None:
    first = Waiting(ready, scripts, "first", "torchrun", "train.py", "wait").until("| sum 3.0")
    second = Waiting(ready, scripts, "second", "torchrun", "train.py", "wait").until("waits for its turn: first (")
    third = Waiting(ready, scripts, "third", "torchrun", "train.py", "wait").until("; second (")
    assert ready.type(ready.fab, "cancel", "third") == (0, "third: taken out of the queue\n")
    code, text = third.end()
    assert (code, "third was taken out of the queue" in text) == (1, True)
    os.kill(first.process.pid, signal.SIGKILL)
    first.end()
    code, text = ready.type(ready.regatta, "queue", "--json")
    line = [(one["run"], one["holds"], one["others"]) for one in json.loads(text)["entries"]]
    assert (code, line) == (0, [("first", True, False), ("second", False, False)])
    assert ready.type(ready.fab, "cancel", "first")[0] == 0
    second.until("| sum 3.0")
    os.killpg(second.process.pid, signal.SIGINT)
    assert second.end()[0] == 130
    assert ready.type(ready.regatta, "queue")[1] == "no run holds nodes of local, and none waits\n"


def test_nothing_of_a_private_ray_outlives_a_kill(ready: Person, scripts: Path) -> None:
    killed = (137, "the driver on localhost: killed by SIGKILL")
    expected = {"driver": killed, "private-ray": killed, "supervisor": (1, "the run vanished there")}
    words = ("rayrun", "--now", "actors.py", "plain", "wait", "0")
    runs = {name: Waiting(ready, scripts, name, *words) for name in expected}
    for name, run in runs.items():
        run.until("| WAITING")
        os.kill(_victim(ready, name), signal.SIGKILL)
    for name, run in runs.items():
        code, text = run.end()
        assert (code, expected[name][1] in text) == (expected[name][0], True), text
    assert ready.processes() == {}
    assert ready.temporary() == []


def _victim(person: Person, run: str) -> int:
    """The process of a run that the run is named after."""
    ends = {"driver": "actors.py", "private-ray": f"/{run}/private_ray.py", "supervisor": f"/{run}/supervisor.py"}
    for pid, words in person.processes().items():
        if len(words) > 1 and words[1].endswith(ends[run]):
            mark = f"REGATTA_RUN_ID={run}".encode()
            if run != "driver" or mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return pid
    raise AssertionError(person.processes())


def test_services_are_none(ready: Person) -> None:
    assert ready.type(ready.fab, "up")[0] == 0
    assert ready.type(ready.fab, "down") == (0, "inventory/local has no services to stop\n")


def test_make_test_says_what_it_leaves_out(ready: Person) -> None:
    code, text = ready.type("make", "test", "ONLY=lab", REGATTA_INVENTORY=None)
    assert code == 0, text
    assert "SKIPPED: the lab tests (tests/lab)" in text and "you are not root" in text


@pytest.mark.whole
def test_make_test_works_for_them(ready: Person) -> None:
    quick = "test_setup_of_an_unknown_part or test_cluster_of_this_machine or test_relations_alternatives"
    code, text = ready.type("make", "test", PYTEST_ADDOPTS=f"-k '{quick}'", REGATTA_INVENTORY=None)
    assert code == 0, text
    assert "SKIPPED: the lab tests (tests/lab)" in text


def test_setup_of_an_unknown_part() -> None:
    done = subprocess.run([PROJECT / "tools/setup.sh", "boat"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "setup: unknown part 'boat': controller, node or tests\n")
