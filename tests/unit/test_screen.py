"""Nothing that a person is shown commands their terminal: the screen, what is drawn, children, and whole commands."""

import ast
import contextlib
import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.panel import Panel
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from regatta.paths import PROJECT
from regatta.terminal import screen
from regatta.text import fit

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
HOSTILE = f"{CLIPBOARD}\x1b[2J\x9b31m\x1bc\x9d52;c;eA==\x9c\u202edlrow\u2069 \x7f\x00 \ud800 \x1b"
COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
OWN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SCRIPT = f"""\
import json, os, pathlib, sys, time
evil = {HOSTILE!r}
pathlib.Path("out").mkdir()
pathlib.Path("out", os.fsdecode(b"a\\xff\\x1b]52;c;eA==\\x07\\xe2\\x80\\xae")).write_text("1")
print(evil.encode("utf-8", "replace").decode(), flush=True)
for kind in ("progress", "warning", "error"):
    said = {{"event": kind, "rank": 0, "t": time.time(), "message": evil, "what": evil, "done": 1, "total": 2}}
    print("@regatta", json.dumps(said), flush=True)
sys.exit(2)
"""


@settings(deadline=None)
@given(st.lists(st.text() | st.text(alphabet="\x1b\x9b\x9d[]0;m\x07\\\r\nP^_Xab\u202e\ud800"), max_size=4))
def test_what_is_written_in_pieces_is_harmless_as_a_whole(pieces: list[str]) -> None:
    below = io.StringIO()
    shown = screen.over(below)
    for piece in pieces:
        assert shown.write(piece) == len(piece)
    print(*pieces, file=shown)
    assert not COMMANDS.search(below.getvalue())
    assert fit(below.getvalue()) == below.getvalue()


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        (f"one{CLIPBOARD}\n\ttwo\r\n", "one\n\ttwo\n"),
        ("10 %\r20 %", "10 %\\r20 %"),
        ("\x9d52;c;eA==\x9c", "\\x9d52;c;eA==\\x9c"),
        ("plain, μ 船", "plain, μ 船"),
    ],
)
def test_fit_keeps_lines(text: str, harmless: str) -> None:
    assert fit(text) == harmless


def test_an_encoding_that_lacks_letters_is_no_error() -> None:
    raw = io.BytesIO()
    below = io.TextIOWrapper(raw, "ascii", write_through=True)
    print("μ \ud800", file=screen.over(below))
    assert raw.getvalue() == b"\\u03bc \\ud800\n"


def test_what_is_drawn_keeps_its_colours_and_no_others() -> None:
    below = io.StringIO()
    console = screen.painter(screen.over(below), force_terminal=True, color_system="standard", width=400)
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(Text(HOSTILE, "red"))
    console.print(Panel(table, title=HOSTILE))
    console.print(HOSTILE, soft_wrap=True)
    with Progress(TextColumn("{task.description}", markup=False), console=console) as bars:
        bars.add_task(HOSTILE)
    assert "\x1b[31m" in below.getvalue()
    assert "\x1b[?25l" in below.getvalue(), "the cursor is hidden while bars are there"
    left = OWN.sub("", below.getvalue()).replace("\r", "")
    assert not COMMANDS.search(left)
    assert not set(OWN.findall(below.getvalue())) & {"\x1b[2J", "\x9b31m"}


def on_terminal(command: list[str]) -> str:
    """Return what a command writes to a terminal."""
    main, other = pty.openpty()
    process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=os.environ | {"TERM": "xterm"})
    os.close(other)
    pieces: list[bytes] = []
    with process, contextlib.suppress(OSError):  # all who wrote there are gone
        while piece := os.read(main, 65536):
            pieces.append(piece)
    os.close(main)
    return b"".join(pieces).decode("utf-8", "replace")


CHILD = """\
import os
from pathlib import Path
from regatta.provisioning import playbook
from regatta.terminal import screen
screen.install()
raise SystemExit(playbook._ansible(["printf", "%b"], {**os.environ}, Path(os.devnull), None))
"""


def test_what_ansible_shows_keeps_its_colours_on_a_terminal_alone() -> None:
    said = r"\033[0;32mok: [node1]\033[0m\n\033[0;31mfatal: \033]52;c;eA==\007\033[2J\342\200\256\377\033[0m\nend"
    code = CHILD.replace('"%b"', f'"%b", {said!r}')
    command = [sys.executable, "-c", code]
    shown = on_terminal(command)
    assert shown == "\x1b[0;32mok: [node1]\x1b[0m\r\n\x1b[0;31mfatal: \\u202e\\xff\x1b[0m\r\nend"
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert piped == "ok: [node1]\nfatal: \\u202e\\xff\nend"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    return folder


def test_no_command_of_a_hostile_run_reaches_the_terminal(
    project: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGATTA_RESULTS", str(project / "results"))
    monkeypatch.setenv("REGATTA_INVENTORY", str(here))
    monkeypatch.chdir(project)
    program = str(Path(sys.executable).with_name("regatta"))
    typed = (
        ("torchrun", "--workers=1", "--name=one", "train.py"),
        ("logs", "one"),
        ("runs",),
        ("ls", "one"),
        ("fetch", "one"),
        ("show", "one"),
        ("show", CLIPBOARD),
        (CLIPBOARD,),
    )
    for words in typed:
        shown = on_terminal([program, *words])
        left = OWN.sub("", shown).replace("\r", "")
        assert not COMMANDS.search(left), (words, shown)
        assert "\x1b[2J" not in shown, words
        assert shown, words
    assert [path.name for path in (project / "results/one/out").iterdir()], "the file came, whatever its name"


SOURCES = [
    path
    for path in [*sorted((PROJECT / "regatta").rglob("*.py")), PROJECT / "fabfile.py"]
    if not re.match(r"regatta/(node|project|frameworks/\w+/(node|run))/", path.relative_to(PROJECT).as_posix())
]


def ways_past(path: Path) -> Iterator[str]:
    """Calls of a file by which text could reach a terminal without passing the screen."""
    for node in ast.walk(ast.parse(path.read_text())):
        where = f"{path.relative_to(PROJECT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Attribute) and node.attr in ("__stdout__", "__stderr__", "buffer"):
            yield f"{where}: {node.attr}"
        if isinstance(node, ast.Constant) and node.value in ("/dev/tty", "/dev/stdout", "/dev/stderr"):
            yield f"{where}: {node.value}"
        if isinstance(node, ast.Call):
            yield from (f"{where}: {found}" for found in _ways_of(node))


def _ways_of(call: ast.Call) -> Iterator[str]:
    name = ast.unparse(call.func)
    given = {word.arg for word in call.keywords}
    if name in ("os.write", "os.system", "os.popen", "os.writev"):
        yield name
    if name == "input" and call.args:
        yield "input with a prompt: the terminal is written to by C"
    if name.split(".")[-1] == "Console" and name.startswith("rich"):
        yield "a console of Rich's"
    if name in ("Live", "Progress") and "console" not in given and any(word.arg for word in call.keywords):
        yield f"{name} on Rich's own console"
    children = ("run", "Popen", "call", "check_call", "check_output")
    if name in {f"subprocess.{each}" for each in children} and not (
        "capture_output" in given or {"stdout", "stderr"} <= given or None in given
    ):
        yield f"{name}: a child that writes to the terminal"


OF_SSH = ("regatta/hosts/overssh.py", "regatta/hosts/rsyncssh.py")


def test_no_way_leads_past_the_screen() -> None:
    others = [path for path in SOURCES if path.name != "screen.py"]
    found = [found for path in others for found in ways_past(path)]
    # `shell` and ssh-add have a person's terminal; what the others write goes to ssh, or to rsync.
    asking = {"regatta/tasks/nodes.py", "regatta/hosts/passphrases.py"}
    assert {one.partition(":")[0] for one in found} == {*asking, *OF_SSH}, found
    assert not [path for path in others if "from rich.console import Console" in path.read_text()]


def test_every_program_has_a_screen_first() -> None:
    programs = [path for path in SOURCES if '\nif __name__ == "__main__"' in path.read_text()]
    programs = [path for path in programs if str(path.relative_to(PROJECT)) not in OF_SSH]
    assert len(programs) > 3
    for path in [*programs, PROJECT / "regatta/cli.py", PROJECT / "fabfile.py"]:
        assert "screen.install()" in path.read_text(), path
