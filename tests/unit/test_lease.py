"""The lease on a cluster, with real processes that hold it, die and lose it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regatta import paths
from regatta.errors import BusyError, RemoteError, UsageError
from regatta.hosts.lease import Lease, may_break
from regatta.hosts.remote import Remote

HOLD = """
import sys, time
from regatta.hosts import inventories
from regatta.hosts.lease import Lease, may_break
from regatta.hosts.remote import Remote
with Lease(Remote(inventories.load(sys.argv[1])), "one"):
    print("held", flush=True)
    time.sleep(300)
"""
Holder = subprocess.Popen[str]


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEASE", raising=False)


@pytest.fixture
def hold(here: Path) -> Iterator[Callable[[], Holder]]:
    """Starts a process that holds the lease."""
    begun: list[Holder] = []

    def start() -> Holder:
        words = [sys.executable, "-c", HOLD, str(here)]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=paths.PROJECT, start_new_session=True
        )
        begun.append(process)
        assert process.stdout and process.stdout.readline() == "held\n"
        return process

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def taken_within(remote: Remote, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with Lease(remote, "two"):
                return True
        except BusyError:
            time.sleep(0.1)
    return False


def test_who_holds_it_is_said_and_it_is_given_back(remote: Remote) -> None:
    with Lease(remote, "make verify"):
        mine = rf"here is in use: make verify by .* \(process {os.getpid()}\), for \d+ s now.*--lease break"
        with pytest.raises(BusyError, match=mine):
            Lease(remote, "two").take()
    with Lease(remote, "two") as lease:
        lease.take()


def test_it_ends_with_its_holder_however_that_ends(remote: Remote, hold: Callable[[], Holder]) -> None:
    holder = hold()
    with pytest.raises(BusyError, match=rf"one by .* \(process {holder.pid}\)"):
        Lease(remote, "two").take()
    holder.kill()
    assert taken_within(remote, 20)


def test_it_can_be_taken_away_and_its_holder_hears_of_it(remote: Remote, hold: Callable[[], Holder]) -> None:
    holder = hold()
    with Lease(remote, "two", breaks=True):
        _, said = holder.communicate(timeout=20)
    assert "another user has taken its lease away" in said and "KeyboardInterrupt" in said


def test_a_holder_that_does_not_hear_loses_it_too(remote: Remote, hold: Callable[[], Holder]) -> None:
    holder = hold()
    (node,) = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
    os.kill(int(node), signal.SIGSTOP)
    with pytest.raises(BusyError):
        Lease(remote, "two").take()
    with Lease(remote, "two", breaks=True):
        pass


def test_only_the_holder_is_ended(remote: Remote) -> None:
    """A number in the file that is another process by now."""
    with subprocess.Popen(["sleep", "60"]) as other:
        state = Path(remote.cluster.head.state)
        state.mkdir(parents=True, exist_ok=True)
        (state / "lease").write_text(f'{{"pid": {other.pid}}}')
        with Lease(remote, "two", breaks=True):
            assert other.poll() is None
        other.kill()


def test_that_it_is_lost_is_said(remote: Remote) -> None:
    told: list[str] = []
    with Lease(remote, "one", told.append) as lease:
        assert lease._stream and lease._watcher
        os.kill(lease._stream._channel._process.pid, signal.SIGKILL)
        lease._watcher.join(20)
    assert len(told) == 1 and "here: the lease on it is lost" in told[0]


def test_a_word_that_is_none() -> None:
    with pytest.raises(UsageError, match="takes 'break'"):
        may_break("yes")


def test_a_head_that_cannot_be_asked(remote: Remote) -> None:
    state = Path(remote.cluster.head.state)
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text("a file")
    with pytest.raises(RemoteError):
        Lease(remote, "two").take()
