"""Messages name the program that was typed; commands about hosts take flags, which `make` makes of its variables."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from regatta import completion, program
from regatta.errors import UsageError
from regatta.paths import PROJECT
from regatta.provisioning import commands, flags
from regatta.tasks.namespace import namespace

MADE = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.M)
HINT = re.compile(rf"\bfab [a-z{{]|\bmake (?:{'|'.join(MADE)})\b|'make \{{")
SHOWN = "regatta/tasks/"
"""Modules whose docstrings are shown as help."""


def texts(path: Path) -> Iterator[str]:
    """The literals of a module, f-strings with `{}` for values; without docstrings, which are never shown."""
    tree = ast.parse(path.read_text())
    seen = set() if SHOWN in str(path) else {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            seen |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in seen:
            yield node.value


def test_no_message_names_a_program_that_may_not_have_been_typed() -> None:
    own = PROJECT / "regatta/program.py"
    found = {
        f"{path.relative_to(PROJECT)}: {text}"
        for room in ("regatta", "regatta_protocol", "workloads", "ansible")
        for path in (PROJECT / room).rglob("*.py")
        if path != own
        for text in texts(path)
        if HINT.search(text)
    }
    assert not found


def test_messages_of_the_controller_ask_what_was_typed() -> None:
    """What nodes and roles say of commands is shown as it is typed here; the controller's own is made by hints."""
    commands = "|".join({*program.ABOUT_HOSTS, *namespace.tasks, "run"})
    named = re.compile(rf"\bregatta (?:(?:{commands})\b|\{{)")
    found = {
        path.relative_to(PROJECT / "regatta").as_posix()
        for path in (PROJECT / "regatta").rglob("*.py")
        if not re.search(r"/(node|run)/.*", path.as_posix().partition("/frameworks/")[2]) and path.parent.name != "node"
        for text in texts(path)
        if SHOWN not in str(path) and named.search(text)
    }
    assert found == {"cli.py", "effort/counted.py", "hosts/drafts.py", "program.py"}, (
        "its list, steps in docs, an inventory's head, and what makes hints"
    )


@pytest.mark.parametrize(
    ("typed", "named", "about"),
    [
        ("regatta", "regatta logs one", "regatta forget --node n1 --force --data destroy"),
        ("fab", "fab logs one", "make forget NODE=n1 FORCE=yes DATA=destroy"),
        ("make", "fab logs one", "make forget NODE=n1 FORCE=yes DATA=destroy"),
    ],
)
def test_commands_are_named_as_they_were_typed(
    monkeypatch: pytest.MonkeyPatch, typed: str, named: str, about: str
) -> None:
    monkeypatch.delenv(program.TYPED, raising=False)
    if typed == "make":
        monkeypatch.setenv(program.TYPED, typed)
    monkeypatch.setattr(sys, "argv", [f"/somewhere/bin/{typed}"])
    assert program.hint("logs", "one") == named
    assert program.about_hosts("forget", node="n1", force=True, data="destroy") == about
    told = program.retold("regatta 1 is here: 'regatta provision', or 'regatta cancel x'")
    assert told == f"regatta 1 is here: '{program.about_hosts('provision')}', or '{program.hint('cancel x')}'"
    told = program.retold("regatta teardown --inventory /i --data destroy removes it; 'regatta up'")
    away = program.about_hosts("teardown", inventory="/i", data="destroy")
    assert told == f"{away} removes it; '{program.hint('up')}'"


def test_commands_that_nodes_name_are_known() -> None:
    words = {
        word
        for files in ("regatta/node", "regatta/frameworks/*/node", "regatta/frameworks/*/run", "workloads/**")
        for path in PROJECT.glob(f"{files}/*.py")
        for text in texts(path)
        for word in re.findall(r"['`]regatta ([a-z-]+)", text)
    }
    assert words <= {*program.ABOUT_HOSTS, *program._OF_NODES} and {*program._OF_NODES} <= {*namespace.tasks}


def test_make_passes_its_variables_on_as_flags(tmp_path: Path) -> None:
    """A Makefile's run where `python` tells what it was given."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nshift 2\nfor word; do printf "%s|" "$word"; done; echo "$REGATTA_TYPED"\n')
    python.chmod(0o755)
    given = {
        "NODE": "n1", "BUNDLE": "it's a/b.tar", "FORCE": "yes", "OUT": "o u t", "SUITE": "noble", "MACHINE": "aarch64",
        "PROJECT": "../a:../b", "DATA": "destroy", "CONFIRM": "yes", "LEASE": "break", "VERBOSE": "1",
    }  # fmt: skip
    wanted = {
        "node": "n1", "bundle": "it's a/b.tar", "force": None, "out": "o u t", "suite": "noble", "machine": "aarch64",
        "project": "../a:../b", "data": "destroy", "confirm": "yes", "yes": None, "lease": "break", "verbose": None,
    }  # fmt: skip
    for command in program.ABOUT_HOSTS:
        words = ["make", "-s", "-o", "setup", command, f"PY={python}", "INVENTORY=inventory/x"]
        done = subprocess.run(
            words, cwd=PROJECT, env=os.environ | given, capture_output=True, text=True, check=True
        ).stdout.strip()
        *said, typed = done.split("|")
        assert said[:3] == [command, "--inventory", "inventory/x"] and typed == "make"
        names = {flag.name for flag in flags.of(command)} - {"inventory", "check", "json", "ask-become-pass"}
        names -= {"yes"} if "confirm" in names else set()
        want = [part for name in names for part in (f"--{name}", wanted[name]) if part]
        assert sorted(said[3:]) == sorted(want), command
        flags.read(command, said[1:])
    refused = subprocess.run(
        ["make", "-s", "-o", "setup", "provision", f"PY={python}", "FORCE=maybe"],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode and "FORCE is 'yes' or 'no', not 'maybe'" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["provision", "--forse"], "did you mean --force?"),
        (["verify", "--force"], "--force belongs to provision, "),
        (["forget"], "say which: regatta forget --node NAME"),
        (["rollback", "--diff"], "rollback takes no '--diff'"),
        (["provisoin"], "there is no command 'provisoin'"),
    ],
)
def test_slips_are_named(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert commands.main(words) == 2
    assert said in capsys.readouterr().err


def test_slips_in_what_make_passes_on_are_named_as_those_of_make(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(program.TYPED, "make")
    assert commands.main(["provision", "--forse"]) == 2
    assert "did you mean --force? 'make help'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        commands.main(["verify", "--lease", "x"])
    assert capsys.readouterr().err.startswith("usage: make verify ")


def shell(text: str, folder: Path) -> str:
    """Return what bash prints, with this environment's `regatta`."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", text], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    ).stdout


def test_bash_completes_commands_and_flags(tmp_path: Path) -> None:
    typed = "COMP_WORDS=(regatta {}); COMP_CWORD={}; _regatta; echo ${{COMPREPLY[@]}};"
    lines = shell(
        "source <(regatta completion bash);" + typed.format("prov", 1) + typed.format("teardown --data ''", 3),
        tmp_path,
    ).splitlines()
    assert lines == ["provision", "destroy keep"]
    assert {"logs", "teardown", "completion"} <= {*completion.candidates([""])}
    assert completion.candidates(["verify", "--l"]) == ["--lease"]
    assert completion.candidates(["runs", "--jso", "--fai"]) == ["--failed"]
    assert "ppr" in completion.candidates(["run", "p"]) and "ppr" not in completion.candidates(["run", "ppr", ""])
    assert completion.candidates(["run", "ppr", "--worke"]) == ["--workers"]
    assert completion.candidates(["torchrun", "--priority", ""]) == ["high", "low", "normal"]
    assert completion.candidates(["run", "ppr", "--framework", "spa"]) == ["spark"]
    assert "csr" in completion.candidates(["run", "ppr", "--engine", ""])
    assert "smoke" in completion.candidates(["bench", "s"]) and completion.candidates(["help", "log"]) == ["logs"]
    with pytest.raises(UsageError, match=r"bash\|zsh\|fish"):
        completion.said(["tcsh"])


def test_regatta_alone_shows_its_commands_and_none_of_invokes_options(tmp_path: Path) -> None:
    shown = shell("regatta", tmp_path)
    assert shown.startswith("Usage: regatta COMMAND [FLAGS]\n")
    assert set(re.findall(r"^  .*(--[a-z-]+)  ", shown, re.M)) == {"--help", "--list", "--version"}
    assert {*program.ABOUT_HOSTS, *namespace.tasks} <= set(re.findall(r"^  ([a-z-]+)  ", shown, re.M))
    (tmp_path / "train.py").touch()
    said = shell("regatta torchrun train.py 2>&1 || true", tmp_path)
    assert "--inventory inventory/local" in said and "make " not in said, said


def test_the_help_of_a_command_shows_its_own_flags(capsys: pytest.CaptureFixture[str]) -> None:
    for command in program.ABOUT_HOSTS:
        with pytest.raises(SystemExit):
            commands.main([command, "--help"])
        shown = set(
            re.findall(
                r"--[a-z]+(?:-[a-z]+)*", capsys.readouterr().out.partition("options:")[2].partition("Further")[0]
            )
        )
        assert shown == {"--help", *(f"--{flag.name}" for flag in flags.of(command))} | (
            {"--data"} if command == "teardown" else set()
        )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        *((1, "fab --list"), (1, "fab bench --help"), (1, "fab runs --records")),
        *((1, "regatta --version"), (1, "regatta runs --records"), (1, "regatta completion bash")),
        *((0, f"{program} provision --help") for program in ("regatta", "python -m regatta.provisioning.commands")),
    ],
)
def test_a_command_whose_reader_has_seen_enough_ends_without_a_word(code: int, words: str) -> None:
    """Argparse, which has the help of `provision`, hides that it could not write it."""
    reading, writing = os.pipe()
    os.close(reading)
    program, *further = words.split()
    command = [Path(sys.executable).with_name(program), *further]
    env = {**os.environ, "REGATTA_RESULTS": str(PROJECT / "tests/unit/records")}
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, cwd=PROJECT, env=env)
    os.close(writing)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("program", ["regatta", "fab"])
def test_python_keeps_what_it_compiles(tmp_path: Path, program: str) -> None:
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "kept"), "REGATTA_RESULTS": str(tmp_path)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([Path(sys.executable).with_name(program), "runs", "--records"], cwd=PROJECT, env=env, check=True)
    kept = tmp_path / "kept"
    assert [*kept.rglob("regatta/report/listing.*.pyc")]  # a module of that command
    assert [*kept.rglob("regatta/tasks/begin.*.pyc")]  # one of all commands


def test_a_command_loads_at_its_start_nothing_that_only_others_need() -> None:
    others = "{'asyncio', 'unittest.mock', 'importlib.metadata', 'regatta.run.standing', 'regatta.terminal.top'}"
    text = f"import regatta.cli, regatta.api.cluster, regatta.run.elastic, sys; print(*{others} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert done.stdout.split() == []
