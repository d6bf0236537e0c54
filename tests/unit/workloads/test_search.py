"""Searches: points of a space, the same trials with and without Ray Tune, and trials that go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from launching import PROJECT, Ended, python

from workloads.common.events import BadInput
from workloads.common.search import apart, asked, space
from workloads.common.search.trial import Trial

pytestmark = pytest.mark.frameworks

TUNE = ("-m", "workloads.tune", "--size=300", "--trials=3", "--epochs=2")
SPACE = {"rate": {"log": [0.001, 1.0]}, "width": {"range": [2, 9]}, "kind": ["a", "b"]}
MODULE = """
import glob, os, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
if not sys.argv[0].endswith("default_worker.py"):  # it is no actor's process
    with open(f"{HERE}/driver", "w") as file:
        file.write(str(os.getpid()))

def steps(x, y=0, folder=None):
    for step in range(1, 100):
        (folder / "step").write_text(str(step))
        yield {"score": x * step + y}

def once(x):
    return {"score": x}

def bad(x, how):
    yield {"score": x}
    if how == "raises":
        raise ValueError("no good")
    if how == "hangs":
        time.sleep(1000)
    if how == "eats":
        bytearray(1 << 40)
    if how == "dies":
        os.kill(os.getpid(), 9)
    if how == "wrong":
        yield {"points": 1}
    yield {"score": 2 * x}

def silent(x):
    return (_ for _ in ())

def fragile(x):
    with open(f"{HERE}/seen", "a") as file:
        file.write(f"{x} ")
    if x == 3 and not os.path.exists(f"{HERE}/flag"):
        os.kill(os.getppid(), 9)
        os._exit(1)
    yield {"score": x}

def wait_until(true):
    end = time.monotonic() + 60
    while not true() and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(0.5)  # one file of the account is written after the other
    return True

def kept(what):  # how often this is in Tune's own account
    states = glob.glob(f"{HERE}/trials/*/experiment_state-*.json")
    return max((open(state).read().count(what) for state in states), default=0)

def seen(what, fatal):
    with open(f"{HERE}/seen", "a") as file:
        file.write(f"{what} ")
    if not os.path.exists(f"{HERE}/flag") and fatal(open(f"{HERE}/seen").read().split()):
        os.kill(int(open(f"{HERE}/driver").read()), 9)
        time.sleep(60)

def third(x):
    seen(x, lambda words: len(words) == 3 and wait_until(lambda: kept("TERMINATED") >= 2))
    for step in (1, 2):
        yield {"score": x * step}

def fifth(speed, folder):
    for report in walks(speed, folder):
        seen(int(report["step"]), lambda words: words[-1] == "5" and wait_until(lambda: kept("checkpoint_000003")))
        yield report

def walks(speed, folder):
    state = folder / "state"
    step, way = map(float, state.read_text().split()) if state.exists() else (0, 0)
    while True:
        step, way = int(step) + 1, way + speed
        state.write_text(f"{step} {way}")
        yield {"score": way, "step": step}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with functions in the module `searched`."""
    (tmp_path / "searched.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("searched", None)
    return tmp_path


def test_points_are_drawn_within_their_axes_and_do_not_depend_on_their_number() -> None:
    axes = space.read(SPACE)
    many = space.drawn(axes, 200, 7)
    assert space.drawn(axes, 3, 7) == many[:3] and space.drawn(axes, 3, 8) != many[:3]
    assert all(0.001 <= point["rate"] <= 1 and point["width"] in range(2, 10) for point in many)
    assert {point["kind"] for point in many} == {"a", "b"} and {type(point["width"]) for point in many} == {int}
    assert 60 < sum(point["rate"] < 0.0316 for point in many) < 140


def test_a_grid_goes_from_one_end_to_the_other() -> None:
    points = space.grid(space.read(SPACE), 3)
    assert len(points) == 3 * 3 * 2
    assert sorted({round(point["rate"], 4) for point in points}) == [0.001, 0.0316, 1.0]
    assert sorted({point["width"] for point in points}) == [2, 6, 9]
    assert points[0] == {"rate": 0.001, "width": 2, "kind": "a"} and points[1]["kind"] == "b"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "it has no axis"),
        ({"x": []}, "space.x: no value"),
        ({"x": 3}, "space.x: a list, .* is meant, not 3"),
        ({"x": {"lgo": [1, 2]}}, "there is no 'lgo', did you mean log?"),
        ({"x": {"range": [2, 1]}}, "two numbers are meant, the smaller one first"),
        ({"x": {"range": [1]}}, "two numbers are meant"),
        ({"x": {"log": [0, 1]}}, "0 has no logarithm"),
    ],
)
def test_a_space_with_a_fault(table: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        space.read(table)


@pytest.mark.parametrize(
    ("function", "axes", "said"),
    [
        ("searched:steps", {"z": [1]}, "search.space.z: searched:steps takes no z; it takes x, y"),
        ("searched:steps", {"y": [1]}, "needs x"),
        ("searched:step", {"x": [1]}, "the module searched has no step"),
        ("serched:steps", {"x": [1]}, "there is no module serched"),
    ],
)
def test_a_space_that_does_not_fit_its_function(project: Path, function: str, axes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Trial(function, {}, "score", 3).check(axes)


def ended(function: str, tmp_path: Path, point: dict[str, Any], **limits: Any) -> apart.Outcome:
    return apart.run(Trial(f"searched:{function}", {}, "score", 3, **limits), 0, point, tmp_path / "kept")


def test_a_trial_reports_as_often_as_it_may_and_keeps_its_folder(project: Path, tmp_path: Path) -> None:
    made = ended("steps", tmp_path, {"x": 2})
    assert (made.reports, made.error) == ([{"score": 2}, {"score": 4}, {"score": 6}], None)
    assert made.folder and Path(made.folder, "step").read_text() == "3"
    made = ended("once", tmp_path / "other", {"x": 5})
    assert (made.reports, made.error, made.folder) == ([{"score": 5}], None, None)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raises", "ValueError: no good"),
        ("hangs", "took longer than 0.5 s"),
        ("eats", "MemoryError (a trial may take 200 MB: --trial-mb)"),
        ("dies", "was killed by SIGKILL"),
        ("wrong", "ValueError: searched:bad has reported {'points': 1}, and a table with the number 'score' is meant"),
    ],
)
def test_a_trial_that_goes_wrong_says_how(project: Path, tmp_path: Path, how: str, said: str) -> None:
    made = ended("bad", tmp_path, {"x": 1, "how": how}, seconds=0.5 if how == "hangs" else 30, megabytes=200)
    assert (made.error, made.reports) == (said, [{"score": 1}])


def rows(folder: Path) -> list[dict[str, Any]]:
    """The table of all trials."""
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


def told(folder: Path) -> list[dict[str, Any]]:
    """The same, without what no two runs have in common."""
    return [{key: value for key, value in row.items() if key not in ("seconds", "host")} for row in rows(folder)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    """Three trials, one after the other, and what they leave."""
    out = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        run = python(*TUNE, f"--out={out}")
    assert run.status == 0, run.err
    return run, out


def test_a_search_leaves_a_table_and_its_best_trial(alone: tuple[Ended, Path]) -> None:
    run, out = alone
    table, best = rows(out), json.loads((out / "best.json").read_text())
    assert [row["trial"] for row in table] == [0, 1, 2] and all(len(row["reports"]) == 2 for row in table)
    assert (
        best["reports"][-1]["accuracy"] == max(row["reports"][-1]["accuracy"] for row in table) == run.answer["value"]
    )
    assert (out / "best" / "state.pt").is_file()
    assert run.answer["best"] == {"trial": best["trial"], **best["point"]} and run.answer["failed"] == []


@pytest.mark.whole
def test_a_pool_does_the_same_trials(alone: tuple[Ended, Path], tmp_path: Path) -> None:
    run = python(*TUNE, f"--out={tmp_path}", "--framework=multiprocessing", REGATTA_WORKERS="2")
    assert run.status == 0, run.err
    assert run.answer == alone[0].answer and told(tmp_path) == told(alone[1])


@pytest.mark.whole
def test_ray_tune_does_the_same_trials(alone: tuple[Ended, Path], tmp_path: Path, ray_cluster: dict[str, str]) -> None:
    run = python(*TUNE, f"--out={tmp_path}", "--framework=ray-tune", **ray_cluster, REGATTA_WORKERS="2")
    assert run.status == 0, run.err
    assert run.answer == alone[0].answer and told(tmp_path) == told(alone[1])
    assert (tmp_path / "best" / "state.pt").is_file()


CARD = """
[workloads.mine]
about = "x"
function = "searched:{function}"
frameworks = ["single", "ray-tune"]
search = {{ metric = "score", space = {space} }}
"""


def searched(project: Path, function: str, space: str, *words: str, **environment: str) -> Ended:
    """A search of a function of the project, as `regatta run` starts it."""
    (project / "regatta.toml").write_text(CARD.format(function=function, space=space))
    kept = {"XDG_CACHE_HOME": str(project / "cache"), "REGATTA_WORKERS": "2", "PYTHONPATH": f"{project}:{PROJECT}"}
    done = subprocess.run(
        [sys.executable, "-m", "workloads.common.search.function", "mine", *words],
        cwd=project,
        env=os.environ | kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


HOW = '{ x = [1, 2], how = ["fine", "raises"] }'


def test_trials_that_raise_leave_the_others_alone_with_and_without_tune(
    project: Path, ray_cluster: dict[str, str]
) -> None:
    """The same trials, and the same words for those that fail."""
    words, found = ("--search=grid", "--epochs=3"), []
    for name in ("single", "multiprocessing", "ray-tune"):
        run = searched(project, "bad", HOW, *words, f"--framework={name}", **ray_cluster)
        assert run.status == 0, run.err
        assert [row["error"] for row in rows(project)] == [None, "ValueError: no good", None, "ValueError: no good"]
        assert "trial 2 of 4 failed: ValueError: no good (x=1, how=raises)" in run.out
        found.append((told(project), run.answer))
    assert found[0] == found[1] == found[2] and found[0][1]["value"] == 4 and found[0][1]["failed"] == [1, 3]


@pytest.mark.whole
def test_trials_that_hang_die_or_eat_memory_leave_the_others_alone_under_tune(
    project: Path, ray_cluster: dict[str, str]
) -> None:
    space = '{ x = [1], how = ["hangs", "dies", "eats", "fine"] }'
    words = ("--search=grid", "--trial-seconds=3", "--framework=ray-tune")
    run = searched(project, "bad", space, *words, **ray_cluster)
    assert run.status == 0, run.err
    late, dead, full, well = [row["error"] for row in rows(project)]
    assert late == "took longer than 3 s" and well is None and dead and "died" in dead
    assert full == "MemoryError (a trial may take 4096 MB: --trial-mb)"


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["asha", "pbt"])
def test_what_only_tune_can(project: Path, ray_cluster: dict[str, str], kind: str) -> None:
    """ASHA stops those that lag behind; in a population all end, and one continues from a better one's folder.

    The function gives more for more steps, which are counted in the folder: who takes over another's has its steps.
    """
    words = ("--framework=ray-tune", f"--search={kind}", "--trials=4", "--epochs=8")
    run = searched(project, "walks", "{ speed = { range = [0.1, 9.0] } }", *words, **ray_cluster)
    assert run.status == 0, run.err
    steps = [len(row["reports"]) for row in rows(project)]
    if kind == "asha":
        assert max(steps) == 8 and sum(steps) < 4 * 8
    else:
        assert all(row["reports"][-1]["step"] == 8 for row in rows(project))
        assert all(0.1 <= row["point"]["speed"] <= 9 for row in rows(project))
    assert json.loads((project / "best.json").read_text())["reports"][-1]["score"] == run.answer["value"]
    assert (project / "best" / "state").read_text().split()[0] == "8"


@pytest.mark.parametrize("name", ["single", pytest.param("ray-tune", marks=pytest.mark.whole)])
def test_an_interrupted_search_is_gone_on_with(project: Path, name: str, request: pytest.FixtureRequest) -> None:
    """The third trial kills the driver as long as there is no flag; what has ended before is not done again."""
    space, words = "{ x = [1, 2, 3, 4] }", ("--search=grid", "--epochs=2", "--framework=single")
    assert searched(project, "fragile", space, *words).status == -9
    assert (project / "seen").read_text().split() == ["1", "2", "3"]
    (project / "flag").touch()
    ray = request.getfixturevalue("ray_cluster") if name == "ray-tune" else {}
    here = {"REGATTA_WORKERS": "1"} if ray else {}
    run = searched(project, "fragile", space, *words[:-1], f"--framework={name}", "--resume", **ray, **here)
    assert run.status == 0, run.err
    assert "2 of 4 trials are those of an earlier search" in run.out
    assert (project / "seen").read_text().split() == ["1", "2", "3", "3", "4"]
    again = searched(project, "fragile", space, *words)
    assert again.answer == run.answer and run.answer["value"] == 4
    assert (project / "seen").read_text().split()[5:] == ["1", "2", "3", "4"]


def test_tune_goes_on_with_trials_that_depend_on_each_other(project: Path, ray_cluster: dict[str, str]) -> None:
    """The third trial that starts kills the driver: it is done again, and the two before it are not."""
    words = ("--framework=ray-tune", "--search=asha", "--trials=4", "--epochs=2")
    own = {**ray_cluster, "REGATTA_WORKERS": "1", "TUNE_GLOBAL_CHECKPOINT_S": "0"}
    space = "{ x = { range = [1.0, 9.0] } }"
    first = searched(project, "third", space, *words, "--resume", **own)
    assert first.status == -9 and "starts from the beginning" in first.out
    before = (project / "seen").read_text().split()
    (project / "flag").touch()
    run = searched(project, "third", space, *words, "--resume", **own)
    assert run.status == 0, run.err
    assert "2 of 4 trials are those of an earlier search" in run.out
    after = (project / "seen").read_text().split()[3:]
    assert len(before) == 3 and len({*before, *after}) == 4 and after[0] == before[2] and len(after) == 2
    assert [row["trial"] for row in rows(project)] == [0, 1, 2, 3] and not any(row["error"] for row in rows(project))
    last = [row["reports"][-1]["score"] for row in rows(project)]
    assert run.answer["value"] == max(last) and rows(project)[2]["point"]["x"] == float(before[2])


@pytest.mark.whole
def test_trials_that_tune_alone_knows_of_are_in_the_table(project: Path, ray_cluster: dict[str, str]) -> None:
    """A search was killed after Tune had kept its own account, and before it kept ours."""
    words = ("--framework=ray-tune", "--search=asha", "--trials=4", "--epochs=2")
    own = {**ray_cluster, "REGATTA_WORKERS": "1", "TUNE_GLOBAL_CHECKPOINT_S": "0"}
    space = "{ x = { range = [1.0, 9.0] } }"
    assert searched(project, "third", space, *words, **own).status == -9
    (project / "flag").touch()
    for path in project.glob("trials/asha-*/callback-states-*"):
        path.unlink()
    run = searched(project, "third", space, *words, "--resume", **own)
    assert run.status == 0, run.err
    assert [row["trial"] for row in rows(project)] == [0, 1, 2, 3] and all(row["reports"] for row in rows(project))
    assert len((project / "seen").read_text().split()) == 5


@pytest.mark.whole
def test_a_population_goes_on_from_its_checkpoints(project: Path, ray_cluster: dict[str, str]) -> None:
    words = ("--framework=ray-tune", "--search=pbt", "--trials=4", "--epochs=8")
    own = {**ray_cluster, "TUNE_GLOBAL_CHECKPOINT_S": "0"}
    space = "{ speed = { range = [0.1, 9.0] } }"
    assert searched(project, "fifth", space, *words, **own).status == -9
    before = (project / "seen").read_text().split()
    (project / "flag").touch()
    run = searched(project, "fifth", space, *words, "--resume", **own)
    assert run.status == 0, run.err
    assert len((project / "seen").read_text().split()) - len(before) <= 4 * 8 - 3, (
        "steps that were kept are not done again"
    )
    assert all(row["reports"][-1]["step"] == 8 for row in rows(project))
    assert {len(row["reports"]) for row in rows(project)} == {8}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--search=optuna"], "--search optuna needs --framework ray-tune; under single there are random, grid, asha"),
        (["--search=gird"], "invalid choice"),
        (["--framework=ray-tune", "--search=optuna"], "needs the package optuna, which is not there"),
        (["--framework=torch"], "torch runs no searches: multiprocessing, processes, single and ray-tune do"),
    ],
)
def test_what_cannot_be_searched(words: list[str], said: str) -> None:
    run = python(*TUNE, *words)
    assert run.status == 2
    assert said in run.of("error")[0]["message"]


def test_the_options_of_searches_are_no_arguments_of_the_function(project: Path) -> None:
    given = {"search": "grid", "trials": 1, "epochs": 2, "grid_steps": 3, "seed": 1, "trial_seconds": 0, "trial_mb": 0}
    made = asked.of(
        {"metric": "score", "space": {"x": [1, 2]}}, "searched:once", {**given, "resume": False, "out": "."}
    )
    assert made.trial.options == {} and made.trials == 2 and made.largest
