"""A sweep: one run for each choice of values."""

from pathlib import Path

import pytest
import running

from regatta.errors import UsageError
from regatta.options import kinds
from regatta.tasks import sweeping


def test_each_value_of_a_name_goes_with_each_of_another() -> None:
    found = sweeping.choices(kinds.sweep(["lr=0.1,0.01", "batch-size=32"]))
    assert found == [{"lr": "0.1", "batch-size": "32"}, {"lr": "0.01", "batch-size": "32"}]
    assert sweeping.named({"name": "night"}, 2) == {"name": "night-2"} and sweeping.named({}, 2) == {}
    assert sweeping.table([(found[0], None)]) == [
        ("lr", "batch-size", "run", "seconds"),
        ("0.1", "32", "failed", "-"),
    ]


@pytest.mark.parametrize("word", ["lr", "lr=", "=1", "lr=1,,2", "lr=1,", "l r=1"])
def test_a_sweep_of_no_values_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="--sweep"):
        kinds.sweep([word])


def test_a_sweep_has_a_name_once_and_not_too_many_runs() -> None:
    with pytest.raises(UsageError, match="twice"):
        sweeping.choices(["lr=1", "lr=2"])
    with pytest.raises(UsageError, match="1024 runs"):
        sweeping.choices([f"{name}=1,2" for name in "abcdefghij"])


PROJECT = """
[workloads.mine]
about = "Says what it was given"
command = "say.py"
frameworks = ["single"]
options = { lr = { kind = "number" } }
"""


@pytest.mark.parametrize("command", [["torchrun", "--workers=1", "say.py", "--seed=7"], ["run", "mine"]])
def test_each_run_of_a_sweep_has_its_values_and_its_name(here: Path, tmp_path: Path, command: list[str]) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "regatta.toml").write_text(PROJECT)
    (project / "say.py").write_text("import sys\nprint(sys.argv[1:])\n")
    own = {"REGATTA_RESULTS": str(tmp_path / "results")}
    at = 2 if command[0] == "run" else 1
    flags = [f"--inventory={here}", "--sweep=lr=0.1,0.5", "--name=night"]
    done = running.typed(project, *command[:at], *flags, *command[at:], **own)
    assert done.returncode == 0, done.stdout + done.stderr
    for number, value in enumerate(("0.1", "0.5"), 1):
        assert f"run {number} of 2: lr {value}" in done.stdout and (tmp_path / f"results/night-{number}.json").exists()
        words = f"'--seed=7', '--lr', '{value}'" if at == 1 else f"'--lr={value}'"
        assert f"[{words}]" in done.stdout


def test_a_sweep_that_cannot_be_queued_starts_nothing(here: Path, source: Path) -> None:
    words = ("torchrun", f"--inventory={here}", "--sweep=lr=0.1,0.5", "--detach", "train.py")
    refused = running.typed(source, *words)
    assert refused.returncode == 2 and "--detach needs a cluster of hosts" in refused.stderr
