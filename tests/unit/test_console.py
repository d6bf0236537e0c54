"""The console: in a pipe, on a terminal (a real pty), and against what a log may hold."""

import io
import os
import pty
import re
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regatta.terminal.console import Console, label, progress_text
from regatta.text import clean
from regatta_protocol.events import ErrorEvent, Memory, Phase, Progress, WarningEvent
from regatta_protocol.log import DRIVER

PROJECT = Path(__file__).resolve().parents[2]
SGR = re.compile(r"\x1b\[[0-9;]*m")
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"

SCRIPT = """
import sys, time
from regatta.terminal.console import Console
from regatta_protocol.events import Phase, Progress
with Console() as console:
    console.note("two [bold]ranks[/bold]")
    for step in range(11):
        for rank in (0, 1):
            console.event(f"node{rank + 1}", Progress(rank, 0.0, "compute", step, 10, loss=0.5))
        console.line("node1", 0, f"\\x1b[31mstep\\x1b[0m {step}")
        console.line("node2", None, "no rank")
        time.sleep(float(sys.argv[1]))
    console.event("node1", Phase(0, 0.0, "compute", 1.0))
    console.warn("careful")
    if len(sys.argv) > 2:
        raise KeyboardInterrupt
console.error("over")
"""


def environment(**extra: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"}}
    return (
        kept
        | {"PYTHONPATH": str(PROJECT), "TERM": "xterm-256color", "PYTHONUTF8": "1", "COLUMNS": "100", "LINES": "24"}
        | extra
    )


def in_pipe(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(**extra), timeout=60, check=False)


def on_pty(*arguments: str, **extra: str) -> tuple[str, bool]:
    """Return what the script wrote to its terminal, and whether the terminal's settings are as before."""
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    command = [sys.executable, "-c", SCRIPT, *arguments]
    output = bytearray()

    def read() -> None:
        while chunk := os.read(master, 65536):
            output.extend(chunk)
            if output.endswith(b"<end>"):
                return

    reader = threading.Thread(target=read)
    reader.start()
    subprocess.run(command, stdin=slave, stdout=slave, stderr=slave, env=environment(**extra), timeout=60, check=False)
    same = termios.tcgetattr(slave) == before
    os.write(slave, b"<end>")
    reader.join(timeout=10)
    os.close(slave)
    os.close(master)
    return output.decode(), same


@pytest.mark.parametrize("extra", [{}, {"FORCE_COLOR": "1"}, {"TTY_COMPATIBLE": "1"}])
def test_a_pipe_gets_plain_lines(extra: dict[str, str]) -> None:
    ended = in_pipe("0", **extra)
    assert ended.returncode == 0
    assert "\x1b" not in ended.stdout + ended.stderr
    assert "\r" not in ended.stdout
    lines = ended.stdout.splitlines()
    assert lines[0] == "two [bold]ranks[/bold]"
    assert lines.count("node2   | no rank") == 11
    assert "node1/0 | step 7" in lines
    assert [line for line in lines if line.startswith("node2/1")] == [
        "node2/1 | compute 0/10 (0 %) loss 0.5",
        "node2/1 | compute 10/10 (100 %) loss 0.5",
    ]
    assert ended.stderr.splitlines() == ["warning: careful", "error: over"]


@pytest.mark.parametrize("arguments", [("0.05",), ("0.05", "interrupted")])
def test_a_terminal_gets_bars_and_is_restored(arguments: tuple[str, ...]) -> None:
    output, same = on_pty(*arguments)
    assert same
    assert "━" in output
    assert re.search(r"━.* compute \d+/10", SGR.sub("", output))
    assert output.count(HIDE) == output.count(SHOW) == 1
    assert output.index(HIDE) < output.index(SHOW)
    after = output[output.index(SHOW) :]
    assert "━" not in after
    assert "\x1b[1A\x1b[2K" in after, "the bars of both ranks are erased"
    assert ("KeyboardInterrupt" in output) == (len(arguments) > 1)
    assert "\x1b[31m" not in output
    assert "\x1b[36mnode1/0 | \x1b[0mstep 3" in output
    assert "two [bold]ranks[/bold]" in output


def test_no_color_on_a_terminal() -> None:
    output, _ = on_pty("0.05", NO_COLOR="1")
    assert "━" in output
    assert "node1/0 | step 3" in output
    assert not SGR.search(output)


def test_a_dumb_terminal_gets_plain_lines() -> None:
    output, _ = on_pty("0", TERM="dumb")
    assert "\x1b" not in output
    assert "node1/0 | compute 10/10 (100 %)" in output


def test_the_run_goes_on_when_nobody_reads() -> None:
    script = SCRIPT + "\nfor _ in range(5000): console.line('node1', 0, 'x' * 100)\nsys.stderr.write('reached the end')"
    process = subprocess.Popen(
        [sys.executable, "-c", script, "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert errors.endswith("reached the end")
    assert "Traceback" not in errors


def test_a_full_disk_is_said_once_and_the_run_goes_on() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", SCRIPT, "0"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    assert ended.returncode == 0
    assert ended.stderr.count("output cannot be written (No space left on device)") == 1
    assert "error: over" in ended.stderr


def test_an_encoding_that_lacks_letters_is_no_error() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, "ascii")
    Console(out).line("node1", 0, "μ \ud800")
    assert raw.getvalue() == b"node1/0 | \\u03bc \\ud800\n"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def plain_console(clock: Clock | None = None) -> tuple[Console, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Console(out, err, now=clock or Clock()), out, err


def test_progress_in_a_pipe_is_bounded_in_time() -> None:
    clock = Clock()
    console, out, _ = plain_console(clock)
    for step in range(1001):
        clock.now = step / 10
        console.event("node1", Progress(0, 0.0, "slow", step, 100_000))
    assert len(out.getvalue().splitlines()) == 1 + 100 // 3


def test_progress_in_a_pipe_is_every_tenth_but_not_faster_than_a_second() -> None:
    clock = Clock()
    console, out, _ = plain_console(clock)
    for step in range(1001):
        clock.now = step * 0.02
        console.event("node1", Progress(0, 0.0, "quick", step, 1000))
    shown = [int(line.split("(")[1].split()[0]) for line in out.getvalue().splitlines()]
    assert shown == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    before = len(out.getvalue())
    console.event("node1", Progress(0, 0.0, "quick", 1000, 1000))
    assert len(out.getvalue()) == before
    console.event("node1", Progress(0, 0.0, "other", 1, 1000))
    assert out.getvalue().endswith("node1/0 | other 1/1000 (0 %)\n")


def test_labels_line_up() -> None:
    console, out, _ = plain_console()
    console.line("node1", None, "a")
    console.line("node1", 3, "b")
    console.line("node1", 12, "c\nd\r\n")
    console.line("node1", DRIVER, "e")
    console.line("node1", 3, "f")
    assert out.getvalue().splitlines() == [
        "node1   | a",
        "node1/3 | b",
        "node1/12 | c",
        "node1/12 | d",
        "node1/driver | e",
        "node1/3      | f",
    ]
    assert label("n", None) == "n"


def test_warnings_and_errors_of_ranks_are_said_once() -> None:
    console, out, err = plain_console()
    for rank in range(3):
        console.event("node1", WarningEvent(rank, 0.0, "few \x1b[2Jrows"))
        console.event("node1", ErrorEvent(rank, 0.0, "no such file"))
        console.event("node1", Memory(rank, 0.0, 1))
        console.event("node1", Phase(rank, 0.0, "load", 1.0))
    assert err.getvalue() == "warning: node1/0: few rows\n"
    assert out.getvalue() == "node1/0 | error: no such file\n"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]never ended", "never ended"),
        ("\x1bPq#0\x1b\\sixel", "sixel"),
        ("\x1bcreset", "reset"),
        ("10 %\r20 %\r30 %\r", "30 %"),
        ("a\tb", "a\tb"),
        ("bell\x07 back\x08 nul\x00", "bell\\x07 back\\x08 nul\\x00"),
        ("\u202eright to left", "\\u202eright to left"),
        ("lone \ud800", "lone \\ud800"),
        ("[red]markup[/red] :smile:", "[red]markup[/red] :smile:"),
        ("\x1b", "\\x1b"),
        ("", ""),
    ],
)
def test_clean(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@settings(deadline=None)
@given(st.text() | st.text(alphabet="\x1b\x9b[]0;m\x07\\\r\nP^_Xab"))
def test_clean_text_does_nothing_to_a_terminal(text: str) -> None:
    cleaned = clean(text)
    assert all(c == "\t" or c.isprintable() or c.isspace() or ord(c) > 0xA0 for c in cleaned)
    assert not set(cleaned) & {*map(chr, range(9)), *map(chr, range(10, 32)), *map(chr, range(127, 160))}
    cleaned.encode()
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Progress(0, 0.0, "epoch", 1, 3, loss=0.25), "epoch 1/3 (33 %) loss 0.25"),
        (Progress(0, 0.0, "iteration", 7, 0, residual=1e-9), "iteration 7 residual 1e-09"),
        (Progress(0, 0.0, "rows", 1.5, 2, loss=float("nan")), "rows 1.5/2 (75 %) loss nan"),
        (Progress(0, 0.0, "rows", 1_000_000, 999_999), "rows 1000000/999999 (100 %)"),
        (Progress(0, 0.0, "x\x1b[2J" + "y" * 100, 1, 2), "x" + "y" * 39 + " 1/2 (50 %)"),
        (Progress(0, 0.0, "x", 1.7e308, 5e-324), "x 1.7e+308/4.941e-324 (100 %)"),
        (Progress(0, 0.0, "x", 1.7e308, 1.7e308), "x 1.7e+308/1.7e+308 (100 %)"),
    ],
)
def test_progress_text(event: Progress, text: str) -> None:
    assert progress_text(event) == text


class SlowFile(io.StringIO):
    """Lets other threads run in the middle of every write."""

    def write(self, text: str) -> int:
        for character in text:
            super().write(character)
            time.sleep(0)
        return len(text)


def test_threads_do_not_mix_lines() -> None:
    out = SlowFile()
    console = Console(out, io.StringIO())

    def talk(rank: int) -> None:
        for number in range(20):
            console.line("node1", rank, f"{rank}-" * 20 + str(number))

    threads = [threading.Thread(target=talk, args=(rank,)) for rank in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [f"node1/{r} | " + f"{r}-" * 20 + str(n) for r in range(6) for n in range(20)]
    assert sorted(out.getvalue().splitlines()) == sorted(expected)


STANDING = """
import time
from regatta.terminal.console import Console
with Console() as console:
    for step in range(3):
        console.bars("node1", {0: f"\\x1b[32m{step} of 3\\x1b[0m", 1: f"other {step}"})
        time.sleep(0.3)
    console.bars("node2", {})
    console.line("node1", 0, "done")
    console.bars("node1", {1: "other last"})
    console.line("node1", 0, "over")
    time.sleep(0.3)
"""


def test_a_line_that_is_written_over_stands_in_place_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SCRIPT", STANDING)
    seen, _ = on_pty()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert all(f"{step} of 3" in text and f"other {step}" in text for step in range(3))
    assert re.search(r"node1/0 +\| done", text)
    left = text.rpartition("over")[2]
    assert "other last" in left and "2 of 3" not in left


def test_a_line_that_is_written_over_comes_once_a_second_in_a_pipe() -> None:
    out, clock = io.StringIO(), [100.0]
    console = Console(out, io.StringIO(), now=lambda: clock[0])
    for tenth in range(31):
        clock[0] = 100 + tenth / 10
        console.bars("node1", {0: f"{tenth} of 31", 1: "stays"})
    console.bars("node1", {})
    console.bars("node1", {0: "anew"})
    said = out.getvalue().splitlines()
    assert [line.partition(" | ")[2] for line in said if line.startswith("node1/0")] == [
        *(f"{tenth} of 31" for tenth in (0, 10, 20, 30)),
        "anew",
    ]
    assert sum("stays" in line for line in said) == 1


TWO_RUNS = """
import time
from regatta.terminal.console import Console
from regatta_protocol.events import Progress
with Console() as console:
    console.event("node1", Progress(3, 0.0, "compute", 10, 10))
    time.sleep(0.3)
    console.clear_bars()
    console.note("over")
    console.event("node2", Progress(0, 0.0, "compute", 1, 10))
    time.sleep(0.3)
"""


def test_the_bars_of_a_run_go_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SCRIPT", TWO_RUNS)
    before, _, after = on_pty()[0].partition("over")
    assert "node1/3" in before
    assert "node2/0" in after and "node1/3" not in after
