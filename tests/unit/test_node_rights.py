"""Work that root does as another account."""

import ctypes
import os
import pwd
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hostile import USER, needs_root

from regatta.node import rights
from regatta.node.problem import Problem

PR_GET_DUMPABLE = 3


def _who() -> list[object]:
    return [os.getresuid(), os.getresgid(), os.getgroups(), ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)]


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def _raise(error: BaseException) -> None:
    raise error


def test_without_an_account_it_is_done_here() -> None:
    assert rights.call(None, os.getpid) == os.getpid()


@needs_root
def test_all_of_roots_is_dropped() -> None:
    found = pwd.getpwnam(USER)
    groups = sorted(os.getgrouplist(USER, found.pw_gid))
    uids, gids, has, dumpable = rights.call(USER, _who)
    assert uids == [found.pw_uid] * 3 and gids == [found.pw_gid] * 3 and sorted(has) == groups
    assert dumpable == 0  # other processes of the account cannot look into it
    with pytest.raises(PermissionError):
        rights.call(USER, lambda: os.setuid(0))


@needs_root
def test_what_goes_wrong_comes_through() -> None:
    with pytest.raises(FileNotFoundError) as missing:
        rights.call(USER, lambda: Path("/no/such/path").stat())
    assert missing.value.filename == "/no/such/path"
    with pytest.raises(Problem, match="as it is"):
        rights.call(USER, lambda: _raise(Problem("as it is")))
    with pytest.raises(RuntimeError, match="KeyError"):
        rights.call(USER, lambda: _raise(KeyError("what")))


@needs_root
def test_it_is_bounded_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _children()
    monkeypatch.setattr(rights, "MOST_BYTES", 1 << 16)
    with pytest.raises(Problem, match="longer than"):
        rights.call(USER, lambda: subprocess.run(["sleep", "1000"], check=False), 0.3)
    with pytest.raises(Problem, match="MiB"):
        rights.call(USER, lambda: "x" * (1 << 20))
    with pytest.raises(Problem, match="killed"):
        rights.call(USER, lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(Problem, match="killed"):
        rights.call(USER, lambda: _deep(100_000))
    assert _children() == before
    left = subprocess.run(["pgrep", "-au", USER, "sleep"], capture_output=True, text=True, check=False)
    assert "sleep 1000" not in left.stdout


def _deep(depth: int) -> list[object]:
    made: list[object] = []
    for _ in range(depth):
        made = [made]
    return made


@needs_root
def test_it_ends_with_its_caller(tmp_path: Path) -> None:
    script = (
        "import os, time\nfrom regatta.node import rights\n"
        f"rights.call('{USER}', lambda: (os.write(1, b'%d\\n' % os.getpid()), time.sleep(1000)), None)\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert caller.stdout is not None
    helper = int(caller.stdout.readline())
    caller.kill()
    caller.wait()
    end = time.monotonic() + 20
    while Path(f"/proc/{helper}").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
