"""`regatta init`, typed on a terminal: what it asks, writes and leaves alone; and what `demo` says elsewhere."""

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from regatta import paths
from regatta.cards import project
from regatta.hosts import inventories
from regatta.tasks import begin

REGATTA = str(Path(sys.executable).with_name("regatta"))
ANSWERS = [
    ("Name of the inventory [mine]:", "-x"),
    ("'-x' cannot name an inventory", "yours"),
    ("Host 1:", "a b"),
    ("'a b' cannot name a host", "ubuntu@192.0.2.10"),
    ("Its name in the cluster [node1]:", ""),
    ("in the network of the hosts [192.0.2.10]:", "10.0.0.999"),
    ("needs cluster_address", "10.0.0.10"),
    ("Host 2:", "192.0.2.11:2222"),
    ("[node2]:", "node1"),
    ("node1 is a host already", "two"),
    ("[192.0.2.11]:", "10.0.0.10"),
    ("have the same cluster_address", "10.0.0.11"),
    ("Host 3:", ""),
    ("User that logs in, and may use sudo [ubuntu]:", "a b"),
    ("give the name of a user there", "bob"),
    ("Private key", "/nowhere/id"),
    ("there is no file /nowhere/id", "agent"),
    ("of node1, two [node1]:", "three"),
    ("there is no 'three'", "two"),
    ("Shall the head run ranks, too [yes]:", "no"),
    ("Services", "hdfs,spork"),
    ("there is no service 'spork'", "spark,hdfs"),
]


def typed(folder: Path, answers: list[tuple[str, str]], *words: str) -> tuple[int, str]:
    """Type answers on a terminal, each once its question is shown; exit code, and all that was shown.

    A key that ends it is pressed again while nothing happens: Python loses a signal that comes between its last look
    for one and the read that waits.
    """
    child, terminal = pty.fork()
    if not child:
        os.chdir(folder)
        os.execv(REGATTA, [REGATTA, "init", *words])
    shown, end = "", time.monotonic() + 120
    waiting = list(answers)
    with contextlib.closing(open(terminal, "r+b", buffering=0)) as file, contextlib.suppress(OSError):  # noqa: PTH123
        seen, key = 0, b""
        while time.monotonic() < end:
            if not select.select([file], [], [], 2)[0]:
                file.write(key)
                continue
            shown += file.read(4096).decode()
            while waiting and (at := shown.find(waiting[0][0], seen)) >= 0 and shown[at:].rstrip(" ")[-1] == ":":
                seen = len(shown)
                answer = waiting.pop(0)[1]
                key = answer.encode() if answer in ("\x03", "\x04") else b""
                file.write(key or f"{answer}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert not waiting, shown
    return code, shown


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    made = tmp_path / "empty"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


def without_questions(*hosts: str, **flags: str | bool) -> int:
    """The result of `regatta init --yes --no-check`."""
    try:
        begin.init(Context(), host=list(hosts), yes=True, no_check=True, **flags)
    except Exit as error:
        return int(error.code)
    return 0


def test_wrong_answers_are_asked_again_and_the_right_ones_make_an_inventory(tmp_path: Path) -> None:
    code, shown = typed(tmp_path, ANSWERS, "--no-check")
    assert code == 0, shown
    assert "regatta provision --inventory inventory/yours" in shown
    made = inventories.load(str(tmp_path / "inventory/yours"))
    assert [(n.name, n.host, n.cluster_address, n.user, n.port, n.key_file) for n in made.nodes] == [
        ("two", "192.0.2.11", "10.0.0.11", "bob", 2222, None),
        ("node1", "192.0.2.10", "10.0.0.10", "ubuntu", None, None),
    ]
    assert made.head.name == "two" and [node.name for node in made.workers] == ["node1"]
    text = (tmp_path / "inventory/yours/hosts.yml").read_text()
    assert "shared_folder_enabled: false, spark_enabled: true" in text and "hdfs_enabled" not in text


def test_what_the_project_file_offers_can_be_taken(folder: Path) -> None:
    assert without_questions("10.0.0.1") == 0
    assert project.read(folder) == project.Project()
    text = (folder / project.FILE).read_text()
    (folder / project.FILE).write_text(re.sub(r"(?m)^# (?=\[|\w+ = )", "", text))
    found = project.read(folder)
    assert len(found.options) == 2 and found.environment.requirements and [*found.workloads] == ["own"]


def test_nothing_is_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / project.FILE).write_text("workers = 3\n")
    assert without_questions("10.0.0.1") == 0
    assert "regatta.toml: is there already, and is left as it is" in capsys.readouterr().out
    kept = (folder / "inventory/mine/hosts.yml").read_bytes()
    assert without_questions("10.0.0.1", name="mine") == 2
    given = ("--no-check", "--host=n=10.0.0.1,10.0.0.1", "--user=a", "--key=agent", "--services=none")
    code, text = typed(folder, [("[mine2]:", "mine"), ("is there already", "other")], *given)
    assert code == 0 and "inventory/other: made" in text, text
    assert (folder / "inventory/mine/hosts.yml").read_bytes() == kept
    assert (folder / project.FILE).read_text() == "workers = 3\n"
    assert {path.name for path in (folder / "inventory").iterdir()} == {"mine", "other"}


@pytest.mark.parametrize(("key", "wanted"), [("\x03", 130), ("\x04", 2)])
def test_an_end_midway_writes_nothing(tmp_path: Path, key: str, wanted: int) -> None:
    code, shown = typed(tmp_path, [("[mine]:", "mine"), ("Host 1:", key)])
    assert (code, "nothing was written" in shown) == (wanted, True), shown
    assert not [*tmp_path.glob("*")]


def test_without_a_terminal_flags_are_needed(tmp_path: Path) -> None:
    command = [REGATTA, "init", "--host=10.0.0.1"]
    done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no terminal to ask on" in done.stderr and "--yes" in done.stderr
    assert not [*tmp_path.glob("*")]


@pytest.mark.parametrize(
    ("hosts", "flags", "why"),
    [
        ((), {}, "at least one host is needed"),
        (("u@10.0.0.1:99999",), {}, "give a port from 1 to 65535"),
        (("n=10.0.0.1", "n=10.0.0.2"), {}, "n is a host already"),
        (("10.0.0.1",), {"head_only": True}, "'workers' has no host"),
        (("10.0.0.1",), {"name": "a/b"}, "'a/b' cannot name an inventory"),
        (("10.0.0.1",), {"services": "hdfs,x"}, "there is no service 'x'"),
    ],
)
def test_wrong_flags_end_it_with_the_reason(
    folder: Path, capsys: pytest.CaptureFixture[str], hosts: tuple[str, ...], flags: dict[str, str | bool], why: str
) -> None:
    assert without_questions(*hosts, **flags) == 2
    assert why in capsys.readouterr().err
    assert not [*folder.iterdir()]


def test_what_ssh_knows_of_an_alias_is_taken(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = "Host gpu1\n HostName 192.0.2.7\n User bob\n Port 2200\n IdentityFile ~/.ssh/lab\n ProxyJump me@gate\n"
    (tmp_path / "config").write_text(own)
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {tmp_path}/config "$@"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert without_questions("gpu1,10.0.0.7") == 0
    (node,) = inventories.load(str(folder / "inventory/mine")).nodes
    assert (node.name, node.host, node.user, node.port, node.cluster_address, node.ssh_args) == (
        "gpu1", "192.0.2.7", "bob", 2200, "10.0.0.7", ("-J", "me@gate"),
    )  # fmt: skip
    assert node.key_file and node.key_file.endswith("/.ssh/lab")


def test_the_demo_elsewhere_names_what_works_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paths, "INSTALLED", True)
    with pytest.raises(Exit):
        begin.demo(Context())
    assert "regatta demo --local" in capsys.readouterr().err
