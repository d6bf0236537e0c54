"""The words of a command: help in every place, where each word goes, and the message for an unknown word."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from invoke.parser import Parser

from regatta import paths
from regatta.api import requests
from regatta.errors import UsageError
from regatta.program import ABOUT_HOSTS
from regatta.provisioning import flags
from regatta.records.store import Store
from regatta.tasks import argv
from regatta.tasks.namespace import namespace

PRINTS = "import os, sys\nif os.environ['RANK'] == '0':\n    print('of', os.environ['WORLD_SIZE'], sys.argv[1:])\n"


def typed(line: str, *more: str, folder: Path = paths.PROJECT) -> tuple[int, str, str]:
    """A program, as a person types it: its exit code, what it printed, and what it printed as errors."""
    program, *given = [*line.split(), *more]
    command = [str(Path(sys.executable).with_name(program)), *given]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def commands() -> argv.Commands:
    known = Parser(contexts=namespace.to_contexts()).contexts
    scripts = [name for name, task in namespace.tasks.items() if task.runs_script]
    return argv.Commands("regatta", ["--list", "--help"], known, scripts, lambda: {"provision": "make provision"})


def read(commands: argv.Commands, line: str) -> argv.Typed:
    return argv.read(commands, line.split())


@pytest.mark.parametrize("program", ["fab", "regatta"])
def test_help_works_before_and_after_a_command(program: str) -> None:
    code, before, _ = typed(f"{program} --help torchrun")
    assert code == 0
    assert before.startswith(f"Usage: {program} torchrun [FLAGS] SCRIPT [ARGUMENTS OF THE SCRIPT]")
    assert "number of ranks over the cluster" in before
    assert typed(f"{program} torchrun --help") == (0, before, "")


def test_help_among_the_flags_of_a_command(commands: argv.Commands) -> None:
    code, said, _ = typed("fab run-ppr --workers 4 --help")
    assert code == 0 and said.startswith("Usage: fab run-ppr [FLAGS]\n") and "--max-iterations" in said
    for line in ("run-ppr --workers --help", "logs -h", "sync logs --help", "torchrun -h", "torchrun --workers 4 -h"):
        assert read(commands, line).help == line.split()[line.startswith("sync")]


def test_regatta_names_and_explains_the_commands_about_hosts() -> None:
    code, said, _ = typed("regatta --list")
    assert code == 0 and re.search(r"^ +provision +bare hosts", said, re.MULTILINE)
    before, after = typed("regatta --help provision"), typed("regatta provision --help")
    assert before == after and before[0] == 0 and "ansible-playbook" in before[1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("regatta loggs", ["'loggs'", "did you mean 'logs'?", "'regatta --list'"]),
        ("fab loggs last", ["'loggs'", "did you mean 'logs'?", "'fab --list'"]),
        ("fab --help loggs", ["'loggs'", "did you mean 'logs'?"]),
        ("regatta provison", ["did you mean 'regatta provision'?"]),
        ("fab provision", ["write 'make provision'"]),
        ("regatta srun -n 4 python train.py", ["no command 'srun': write 'regatta torchrun [FLAGS] SCRIPT"]),
        ("regatta spark-submit train.py", ["no command 'spark-submit': write 'regatta sparkrun [FLAGS] SCRIPT"]),
        ("regatta run README.md", ["there is no workload 'README.md' but a script", "'torchrun'"]),
        ("fab bench smoke --dry", ["bench has no flag --dry", "did you mean --dry-run?", "'fab bench --help'"]),
        ("fab -i inventory/local status", ["-i", "Fabric's --identity", "'fab COMMAND -i ...'"]),
        ("regatta -w 4 run-ppr", ["'regatta run-ppr -w 4'"]),
        ("regatta --list-depth", ["list-depth", "'regatta --help'"]),
    ],
)
def test_an_unknown_word_is_named_with_the_nearest_and_the_way_on(line: str, said: list[str]) -> None:
    code, _, text = typed(line)
    assert (code, text.count("\n")) == (UsageError.exit_code, 1), text
    assert text.startswith("error: ")
    assert [part for part in said if part not in text] == [], text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("frobnicate", ["no command 'frobnicate'", "'regatta --list'"]),
        ("--lst", ["no flag --lst", "did you mean --list?", "'regatta --help'"]),
        ("--workers 4 run-ppr", ["'regatta run-ppr --workers 4'"]),
        ("logs", ["logs needs RUN", "'regatta logs [FLAGS] RUN'"]),
        ("logs a b", ["logs takes no further word 'b'", "'regatta logs --help'"]),
        ("up staus", ["'staus'", "did you mean status?"]),
        ("status -w 4", ["status has no flag -w"]),
        ("results-gc -i inventory/mine", ["results-gc has no flag -i"]),
        ("status --json=yes", ["--json of status takes no value"]),
        ("run-ppr --workers", ["--workers of run-ppr needs a value"]),
        ("run-ppr --workers --top 3", ["--workers of run-ppr needs a value"]),
        ("torchrun --workers -- train.py", ["--workers of torchrun needs a value"]),
        ("run-ppr --workers 3 -w 4", ["-w of run-ppr is given twice"]),
        ("run-ppr -workers 3", ["no flag -workers", "did you mean --workers?"]),
        ("sync -- x", ["sync runs no script"]),
        ("torchrun", ["torchrun needs SCRIPT"]),
        ("torchrun --workers 4 -- train.py", ["torchrun needs SCRIPT before --"]),
        ("torchrun --epochs 3 train.py", ["no flag --epochs", "arguments of a script follow its name"]),
        ("torchrun --worker 3 train.py", ["no flag --worker,", "did you mean --workers?"]),
        ("runs --count 3 -- x", ["runs runs no script"]),
        ("torchrun -n fast t.py", ["-n is the number of ranks", "--name fast"]),
        ("torchrun --nproc_per_node=2 t.py", ["no flag --nproc_per_node", "--workers"]),
        ("torchrun --nproc-per-node 2 t.py", ["no flag --nproc-per-node", "--workers"]),
        ("torchrun --module p.t", ["no flag --module", "-m pkg.train"]),
        ("torchrun --log_dir=logs t.py", ["no flag --log_dir", "logs RUN --rank N"]),
        ("torchrun -r 3 t.py", ["no flag -r", "logs RUN --rank N"]),
        ("torchrun --no-python t.sh", ["no flag --no-python", "leave it out"]),
        ("torchrun --ntasks-per-node=2 t.py", ["no flag --ntasks-per-node", "--workers"]),
        ("torchrun -c 2 t.py", ["no flag -c", "--workers"]),
        ("sparkrun --num-executors 2 t.py", ["no flag --num-executors", "--workers"]),
        ("torchrun -m", ["-m of torchrun needs the name of a module"]),
        ("torchrun -m --x", ["-m of torchrun needs the name of a module"]),
    ],
)
def test_what_a_command_does_not_take(commands: argv.Commands, line: str, said: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        read(commands, line)
    assert [part for part in said if part not in str(caught.value)] == [], str(caught.value)


@pytest.mark.parametrize(
    ("line", "own", "script", "notes"),
    [
        # Words before the script's name are Regatta's, and what follows is the script's.
        ("torchrun --workers 4 t.py --epochs 3", "torchrun --workers 4 t.py", "--epochs 3", []),
        ("rayrun t.py --epochs 3", "rayrun t.py", "--epochs 3", []),
        ("rayrun t.py", "rayrun t.py", "", []),
        ("torchrun t.py status --x=-1 -5", "torchrun t.py", "status --x=-1 -5", []),
        ("torchrun --script t.py --epochs 3", "torchrun --script t.py", "--epochs 3", []),
        ("torchrun -w4 --name=x t.py -w4", "torchrun -w 4 --name x t.py", "-w4", []),
        ("torchrun -n 4 t.py -n 5", "torchrun -w 4 t.py", "-n 5", []),
        ("run-ppr -n4", "run-ppr -w 4", None, []),
        ("sync torchrun t.py x", "sync torchrun t.py", "x", []),
        # A -- right after the name is dropped, and others are the script's.
        ("torchrun --workers 3 t.py -- --workers 4", "torchrun --workers 3 t.py", "--workers 4", []),
        ("torchrun t.py -- a -- b", "torchrun t.py", "a -- b", []),
        ("torchrun t.py -- -- b", "torchrun t.py", "-- b", []),
        ("torchrun t.py a -- b", "torchrun t.py", "a -- b", []),
        ("torchrun t.py --", "torchrun t.py", "", []),
        # A note names words that are also flags of Regatta.
        ("torchrun t.py --workers 4", "torchrun t.py", "--workers 4", ["--workers after t.py goes to the script;"]),
        ("rayrun t.py -w 4 --elastic x", "rayrun t.py", "-w 4 --elastic x", ["-w, --elastic after t.py"]),
        ("torchrun t.py x --name=y -- z", "torchrun t.py", "x --name=y -- z", ["--name after t.py goes"]),
        ("torchrun -w 2 t.py --workers 4", "torchrun -w 2 t.py", "--workers 4", ["for regatta write it before t.py"]),
        ("torchrun t.py --epochs 3 --help", "torchrun t.py", "--epochs 3 --help", ["--help after t.py"]),
        # Commands without a script.
        ("status --json runs -i x", "status --json runs -i x", None, []),
        ("logs last", "logs last", None, []),
        ("diff b a", "diff b a", None, []),
        ("data-gen graph --seed -1", "data-gen graph --seed -1", None, []),
        ("run-ppr --tolerance=1e-3 --name=a=b", "run-ppr --tolerance 1e-3 --name a=b", None, []),
    ],
)
def test_whose_each_word_is(commands: argv.Commands, line: str, own: str, script: str | None, notes: list[str]) -> None:
    found = read(commands, line)
    assert found.own == own.split()
    assert found.script == (None if script is None else script.split())
    assert len(found.notes) == len(notes)
    assert all(part in note for part, note in zip(notes, found.notes, strict=True))


def test_the_script_gets_its_arguments(here: Path, source: Path, tmp_path: Path) -> None:
    (source / "train.py").write_text(PRINTS)
    code, said, errors = typed(
        f"regatta torchrun -i {here} -w 2 --name mine", "train.py", "--workers", "5", folder=source
    )
    note = "--workers after train.py goes to the script; for regatta write it before train.py"
    assert (code, errors) == (0, f"note: {note}\n")
    assert "of 2 ['--workers', '5']" in said
    assert note in Store(tmp_path / "results").find("mine").warnings


def test_a_module_of_a_package_under_src_runs_with_the_project_of_its_folder(
    here: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    subprocess.run(["git", "init", "-q"], cwd=source, check=True)
    project = source / "examples/plums"
    (project / "src/plums").mkdir(parents=True)
    (project / "regatta.toml").write_text("time_limit = 60\n")
    (project / "src/plums/stone.py").write_text("WORD = 'hard'\n")
    (project / "src/plums/train.py").write_text("import sys\nfrom .stone import WORD\nprint(WORD, sys.argv[1:])\n")
    words = f"regatta torchrun -i {here} -n 1 --no-environment -m"
    code, said, errors = typed(words, "plums.train", "-n", "5", folder=project)
    assert code == 0, said + errors
    assert "hard ['-n', '5']" in said
    assert typed(words, "plums.train", folder=project)[0] == 0, "what Python compiled is not in the release"
    code, _, errors = typed(words, "plums.trian", folder=project)
    assert code == UsageError.exit_code and "there is no module plums.trian" in errors


def test_what_is_no_python_is_refused(here: Path, source: Path) -> None:
    (source / "run.sh").write_text("python train.py\n")
    code, _, errors = typed(f"regatta torchrun -i {here} run.sh", folder=source)
    assert code == UsageError.exit_code and "run.sh is no Python" in errors
    (source / "cells.ipynb").write_text("{}\n")
    code, _, errors = typed(f"regatta torchrun -i {here} cells.ipynb", folder=source)
    assert code == UsageError.exit_code and "jupyter nbconvert --to script cells.ipynb" in errors
    (source / "block.py").write_text("#!/usr/bin/env -S uv run --script\nprint('ran')\n")
    code, said, errors = typed(f"regatta torchrun -i {here} -n 1 --no-environment block.py", folder=source)
    assert code == 0 and "ran" in said, errors
    (source / "train").write_text("#!/bin/python3\nprint('ran')\n")
    code, said, errors = typed(f"regatta torchrun -i {here} -n 1 --no-environment train", folder=source)
    assert code == 0 and "ran" in said, errors


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("python train.py", "leave out 'python'"),
        ("accelerate launch train.py", "leave out 'accelerate'"),
        ("train", "did you mean train.py?"),
        ("-m plums/train.py", "-m plums.train"),
        ("bash train.sh", "bash is no Python"),
        ("-m torch.distributed.run train.py", "leave out '-m torch.distributed.run'"),
        ("plums.train", "did you mean the module, -m plums.train?"),
        ("plums", "it is a folder: name a script in it"),
    ],
)
def test_what_people_type_before_a_script_is_answered(here: Path, source: Path, words: str, said: str) -> None:
    (source / "plums").mkdir()
    for name in ("train.py", "plums/train.py"):
        (source / name).touch()
    code, _, errors = typed(f"regatta torchrun -i {here} {words}", folder=source)
    assert code == UsageError.exit_code and said in errors


@pytest.mark.parametrize("folder", ["plums", "src/plums"])
def test_the_block_of_a_module_counts(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "train.py").write_text('# /// script\n# dependencies = ["pear"]\n# ///\n')
    monkeypatch.chdir(tmp_path)
    assert requests.module("torch", "plums.train", [], {}).script == tmp_path / folder / "train.py"


def test_a_note_comes_before_all_else() -> None:
    code, _, errors = typed("fab torchrun nothing.py --workers 2")
    assert code == UsageError.exit_code
    assert re.fullmatch(r"note: --workers after nothing.py .*\nerror: there is no script nothing.py .*\n", errors)


def test_a_short_flag_means_one_thing_in_all_commands() -> None:
    meanings: dict[str, set[str]] = {}
    for command in namespace.to_contexts():
        for flag, argument in command.flags.items():
            for name in argument.names:
                if len(name) == 1 and flag != f"-{name}":
                    meanings.setdefault(name, set()).add(argument.names[0].replace("-", "_"))
    listed = {letter: {name} for name, letter in argv.SHORT_FLAGS.items() if name != "help"}
    assert meanings == listed


def test_a_module_takes_the_place_of_the_script(commands: argv.Commands) -> None:
    found = read(commands, "torchrun --workers 2 -m pkg.train --epochs 3")
    assert (found.module, found.own) == (True, ["torchrun", "--workers", "2", "pkg.train"])
    assert found.script == ["--epochs", "3"]


@pytest.mark.parametrize("line", ["regatta help", "regatta --list", "regatta help torchrun"])
def test_a_reader_that_has_seen_enough_ends_it_quietly(line: str) -> None:
    program = f"{Path(sys.executable).parent}/{line} | head -1"
    shown = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert (shown.stdout.count("\n"), shown.stderr) == (1, "")


def test_version_and_help_as_words() -> None:
    assert typed("regatta version") == typed("regatta --version")
    assert typed("regatta help torchrun") == typed("regatta torchrun --help")
    code, text, _ = typed("regatta run --help")
    assert code == 0 and "'regatta run NAME [FLAGS]'; there are cifar, " in text
    assert typed("regatta help provision")[1].startswith("usage: regatta provision")


def test_short_flags_reach_their_command(here: Path) -> None:
    assert typed("fab runs -i", str(here)) == (0, "no runs on here yet\n", "")
    assert typed(f"regatta runs -i{here}") == (0, "no runs on here yet\n", "")


def test_the_workflow_of_ci_types_commands_that_exist(commands: argv.Commands) -> None:
    told = yaml.safe_load((paths.PROJECT / ".github/workflows/tests.yml").read_text())
    jobs = told["jobs"]
    assert set(jobs) == {"tests", "ubuntu", "whole"} and set(told[True]["workflow_dispatch"]["inputs"]) == {"whole"}
    lines = [line for job in jobs.values() for step in job["steps"] for line in step.get("run", "").splitlines()]
    assert {line.split()[1] for line in lines if line.startswith("make ")} == {"setup"}
    typed_there = [shlex.split(line)[1:] for line in lines if line.startswith(".venv/bin/regatta ")]
    assert [words[0] for words in typed_there] == ["init", "provision", "verify", "run", "teardown"]
    for command, *words in typed_there:
        if command in ABOUT_HOSTS:
            assert flags.read(command, words).extra == ()
        else:
            assert argv.read(commands, [command, *words]).help is None
