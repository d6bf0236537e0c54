"""Options of runs: one that is declared once is there everywhere, and who says what comes first."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regatta import paths
from regatta.cards import discovery
from regatta.errors import UsageError
from regatta.experiments import plan_file
from regatta.options import declaration, kinds
from regatta.options.declaration import OF_RUNS, RunOptions, said
from regatta.options.option import EVERY, RUN, typed
from regatta.tasks.namespace import namespace

COPIED = ("regatta", "regatta_protocol", "tools", "workloads")
DECLARED = '    toys: int | None = option(None, kinds.WHOLE, "toys of each rank", record=True)\n'
USED = '        "TOYS": str(plan.options.toys),\n'
PROJECT = """\
toys = 4
[workloads.mine]
about = "Says how many toys it has"
command = "train.py"
frameworks = ["torch"]
"""
PLAN = {
    "toys": 5,
    "experiments": [{"workload": "mine", "workers": [1]}, {"workload": "mine", "workers": [2], "toys": 6}],
}
ASKS = """\
import json
from pathlib import Path
from regatta.cards import discovery, project
from regatta.errors import CardError
from regatta.experiments import plan_file
from regatta.api import requests
from regatta.tasks.namespace import namespace
from tools import reference

commands = {context.name: context.flags for context in namespace.to_contexts() if "--toys" in context.flags}
plan = plan_file.parse(PLAN, "mine", "plan", discovery.every(Path.cwd()))
toys = project.read(Path.cwd()).options["toys"]
called = [requests.script("torch", "train.py", [], given).options.toys for given in ({}, {"toys": 7})]
Path("regatta.toml").write_text(Path("regatta.toml").read_text() + "options = { toys = { kind = 'whole number' } }")
try:
    discovery.every(Path.cwd())
except CardError as error:
    refused = str(error)
print(json.dumps({
    "commands": [*commands],
    "project": toys,
    "plan": [one.options.toys for one in plan.experiments],
    "refused": refused,
    "called": called,
    "keywords": [line.strip() for line in reference.keywords().splitlines() if "toys" in line],
    "reference": [line for line in reference.page().splitlines() if "--toys" in line],
}))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of this checkout with an option more: its declaration, and one place that uses it."""
    made = tmp_path / "copy"
    for name in COPIED:
        shutil.copytree(paths.PROJECT / name, made / name, ignore=shutil.ignore_patterns("__pycache__"))
    insert(made / "regatta/options/declaration.py", before="    requirements: Path", line=DECLARED)
    insert(made / "regatta/frameworks/plan.py", before='        "REGATTA_FRAMEWORK"', line=USED)
    return made


def insert(file: Path, before: str, line: str) -> None:
    begun, found, rest = file.read_text().partition(before)
    assert found
    file.write_text(begun + line + found + rest)


def test_an_option_is_added_by_its_declaration_and_its_use(
    copy: Path, here: Path, source: Path, tmp_path: Path
) -> None:
    (source / "train.py").write_text("import os\nprint('toys', os.environ['TOYS'])\n")
    (source / "regatta.toml").write_text(PROJECT)
    environment = {**os.environ, "PYTHONPATH": str(copy)}

    def python(program: str, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=source,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    regatta = "import sys; sys.argv[0] = 'regatta'; from regatta.cli import main; main()"
    words = ("torchrun", f"--inventory={here}", "--workers=1", "--name=typed", "--toys=3", "train.py")
    assert "toys 3" in python(regatta, *words)
    record = json.loads((tmp_path / "results/typed.json").read_text())
    assert record["identity"]["parameters"]["toys"] == 3
    found = json.loads(python(f"PLAN = {PLAN}\n{ASKS}"))
    assert {"torchrun", "rayrun", "sparkrun", "run-mine", "run-ppr", "bench"} <= {*found["commands"]}
    assert (found["project"], found["plan"], found["called"]) == (4, [5, 6], [4, 7])
    assert found["reference"] == ["| `--toys` | whole number |  | all | `toys` | `toys` | toys of each rank |"]
    assert found["keywords"] == ["toys: int | None"]
    assert "--toys is a flag of every run command" in found["refused"]


def test_every_command_that_starts_runs_is_declared() -> None:
    names = {context.name for context in namespace.to_contexts() if "--skip-lost" in context.flags}
    assert {RUN if name.startswith(f"{RUN}-") else name for name in names} == {*EVERY}


def test_what_is_typed_comes_before_an_experiment_the_plan_and_the_project(tmp_path: Path) -> None:
    (tmp_path / "regatta.toml").write_text(
        'time_limit = 1\nmax_gb = 1\nkeep = ["out"]\noutputs = ["*"]\n'
        '[workloads.mine]\nabout = "x"\ncommand = "x.py"\nframeworks = ["torch"]\n'
    )
    experiment = {"workload": "mine", "workers": [1], "time_limit": 3, "with": ["pear"]}
    document = {"time_limit": 2, "fetch": ["a"], "with": ["apple"], "experiments": [experiment]}
    known = discovery.every(tmp_path)

    def options(**given: object) -> RunOptions:
        return plan_file.parse(document, "p", "p", known, given).experiments[0].options

    assert options() == RunOptions(time_limit=3.0, max_gb=1.0, with_=("pear",), fetch=("a",))
    assert options(time_limit=4.0, keep=("k",)).time_limit == 4.0
    assert options(keep=("k",)).keep == ("k",)


def test_what_is_not_typed_is_not_said() -> None:
    words = {
        "workers": "2",
        "with_": ["boto3>=1.34,pear[a,b]", "plum"],
        "skip_lost": False,
        "fetch": "none",
        "keep": [],
    }
    given = typed(declaration.of("torchrun"), words)
    assert given == {"workers": 2, "with_": ("boto3>=1.34", "pear[a,b]", "plum"), "fetch": ()}
    assert said(RunOptions, {"fetch": ("out",), "max_gb": 3.0}, given).max_gb == 3.0
    assert RunOptions(elastic=True).restarts == 1


@pytest.mark.parametrize(
    ("name", "word", "wrong"),
    [
        ("workers", "0", "--workers must be at least 1, not 0"),
        ("time_limit", "nan", "--time-limit must be more than 0, not nan"),
        ("max_gb", "much", "--max-gb takes a number of gigabytes, not 'much'"),
        ("keep", ["out,out/deep"], "--keep: out/deep is in out"),
        ("fetch", "a,../b", r"--fetch: '\.\./b': a pattern is relative"),
    ],
)
def test_a_word_that_is_no_value(name: str, word: object, wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        typed(OF_RUNS, {name: word})


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("90s", 90),
        ("5m", 300),
        ("1.5h", 5400),
        ("2d", 172800),
        ("1:30", 90),
        ("1:00:00", 3600),
    ],
)
def test_a_time_limit_as_people_write_it(typed: str, seconds: float) -> None:
    assert kinds.SECONDS.word("--time-limit", typed) == seconds


@pytest.mark.parametrize("typed", ["", "m", "5x", "0", "0:00", "-1m", "1:2:3:4", "infm"])
def test_no_time_limit(typed: str) -> None:
    with pytest.raises(UsageError, match="--time-limit"):
        kinds.SECONDS.word("--time-limit", typed)


@pytest.mark.parametrize(("typed", "part"), [("2%", 0.02), ("0.02", 0.02), ("5 %", 0.05), ("0", 0.0), ("0.0%", 0.0)])
def test_parts_are_typed_as_people_write_them(typed: str, part: float) -> None:
    assert kinds.PERCENT.word("--at-least", typed) == part


@pytest.mark.parametrize("typed", ["x", "%", "-1", "nan", ""])
def test_no_part(typed: str) -> None:
    with pytest.raises(UsageError, match="--at-least"):
        kinds.PERCENT.word("--at-least", typed)
