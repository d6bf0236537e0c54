"""The log of a run keeps its beginning, its end and its events, whole lines, within its limit."""

import contextlib
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from regatta.node import progress, runlog

LIMIT = 16_000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[runlog.Writer]:
    """A log with a limit."""
    with contextlib.closing(runlog.Writer(str(tmp_path), LIMIT)) as made:
        yield made


def line(number: int) -> bytes:
    return b"0|line %06d %s\n" % (number, b"x" * (number % 60))


def event(name: str, number: int) -> bytes:
    return b'3|@regatta {"event":"%s","rank":3,"t":0,"what":"rows","done":%d}\n' % (name.encode(), number)


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def read_all(folder: Path, offset: int = 0) -> tuple[list[bytes], int, int]:
    """(lines, bytes missed, offset at the end) of a reader that starts somewhere."""
    lines, missed = [], 0
    while (piece := runlog.read(str(folder), offset, 1000)).offset > offset:
        lines += [*piece.events, *piece.lines]
        missed, offset = missed + piece.missed, piece.offset
    return lines, missed, offset


def test_beginning_and_end_stay_within_the_limit(tmp_path: Path, log: runlog.Writer) -> None:
    for number in range(0, 3000, 5):
        assert log.write(line(n) for n in range(number, number + 5)) == 0
        assert on_disk(tmp_path) <= LIMIT + 100
    lines, missed, offset = read_all(tmp_path)
    numbers = [int(one.split()[1]) for one in lines]
    gaps = [n for n in range(1, len(numbers)) if numbers[n] != numbers[n - 1] + 1]
    assert (numbers[0], numbers[-1], len(gaps)) == (0, 2999, 1)
    assert sum(len(one) + 1 for one in lines[: gaps[0]]) > LIMIT * 0.49
    assert sum(len(one) + 1 for one in lines[gaps[0] :]) > LIMIT * 0.3
    whole = sum(len(line(n)) for n in range(3000))
    assert offset == log.size == whole == runlog.end(str(tmp_path))
    assert missed == whole - sum(len(one) + 1 for one in lines)


def test_who_follows_sees_all_and_who_is_behind_is_told(tmp_path: Path, log: runlog.Writer) -> None:
    followed: list[bytes] = []
    offset = behind = 0
    for number in range(3000):
        log.write([line(number)])
        lines, missed, offset = read_all(tmp_path, offset)
        assert not missed
        followed += lines
        if number == 300:
            behind = offset
    assert b"".join(one + b"\n" for one in followed) == b"".join(line(n) for n in range(3000))
    lines, missed, end = read_all(tmp_path, behind)
    assert missed and end == offset
    assert int(lines[-1].split()[1]) == 2999


def test_events_outlive_what_is_printed_after_them_and_come_once(tmp_path: Path, log: runlog.Writer) -> None:
    log.write([event("ready", 1)])
    log.write(line(n) for n in range(400))
    log.write([event("progress", 2), event("result", 3)])
    log.write(line(n) for n in range(1000))
    _, _, middle = read_all(tmp_path)
    log.write(line(n) for n in range(1000))
    log.write([event("phase", 4)])
    lines, missed, _ = read_all(tmp_path)
    assert missed
    found = [one for one in lines if runlog.MARK in one]
    assert found == [event(name, n).rstrip() for name, n in (("ready", 1), ("result", 3), ("phase", 4))]
    assert [one for one in read_all(tmp_path, middle)[0] if runlog.MARK in one] == [event("phase", 4).rstrip()]


def test_events_without_end_stay_within_the_limit(tmp_path: Path, log: runlog.Writer) -> None:
    for number in range(2000):
        log.write([event("result", number)])
    assert on_disk(tmp_path) <= LIMIT + 100


def test_without_a_limit_all_is_kept(tmp_path: Path) -> None:
    with contextlib.closing(runlog.Writer(str(tmp_path), None)) as log:
        log.write(line(n) for n in range(3000))
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    assert len(read_all(tmp_path)[0]) == 3000


def test_a_full_disk_costs_whole_lines(tmp_path: Path) -> None:
    """Here: a file may not grow, which like a full disk writes a part of a block and then nothing."""
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        log = runlog.Writer(str(tmp_path), None)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        lost = log.write(line(n) for n in range(1000)) + log.write([line(1000)])
        os._exit(0 if lost == 1001 - (tmp_path / "log").read_bytes().count(b"\n") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    kept = (tmp_path / "log").read_bytes()
    assert 0 < len(kept) <= 5000 and b"".join(line(n) for n in range(1000)).startswith(kept) and kept.endswith(b"\n")


@pytest.mark.parametrize("late", [False, True])
def test_metrics_read_on_across_parts(
    tmp_path: Path, log: runlog.Writer, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "TAIL_BYTES", 2000)
    log.write(line(n) for n in range(300))
    seen = progress.Log(str(tmp_path))
    for number in range(300):
        log.write([line(number), event("progress", number)])
        if not late:
            seen.read()
            assert seen.ranks["3"]["progress"]["done"] == number
    seen.read()
    assert seen.ranks["3"]["progress"]["done"] == 299
