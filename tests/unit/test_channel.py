"""The way to a node: requests one after the other through one process, and what becomes of it when they go wrong."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regatta.errors import RemoteError, UnreachableError
from regatta.hosts.channel import Channel, Stream
from regatta.hosts.remote import Remote, explain


@pytest.fixture
def channel(remote: Remote) -> Iterator[Channel]:
    made = remote._channel(remote.cluster.head)
    yield made
    made.close()


@pytest.fixture
def kept() -> list[Channel]:
    return []


@pytest.fixture
def ask(remote: Remote, channel: Channel, kept: list[Channel]) -> Callable[..., Stream]:
    node = remote.cluster.head

    def ask(op: str, timeout: float | None = 30.0, **args: Any) -> Stream:
        request = {"op": op, "place": remote.place(node), "args": args}
        return Stream(node, channel, request, timeout, kept.append, explain)

    return ask


def whole(stream: Stream) -> list[dict[str, Any]]:
    with stream:
        return list(stream)


def test_one_process_answers_one_request_after_the_other(
    ask: Callable[..., Stream], channel: Channel, kept: list[Channel]
) -> None:
    for _ in range(3):
        (answer,) = whole(ask("inspect"))
        assert answer["done"]["facts"]["cores"] == len(os.sched_getaffinity(0))
    assert kept == [channel] * 3
    assert channel.alive


def test_an_error_is_an_answer(ask: Callable[..., Stream], channel: Channel, kept: list[Channel]) -> None:
    with pytest.raises(RemoteError, match="no run 'nothing' on this node"):
        whole(ask("run.stop", run="nothing", reason="none"))
    assert kept == [channel]
    assert "done" in whole(ask("inspect"))[0]


def test_what_is_not_heard_to_its_end_is_not_used_again(
    ask: Callable[..., Stream], channel: Channel, kept: list[Channel]
) -> None:
    with ask("lease.hold", who="a test", command="test") as stream:
        for line in stream:
            assert "done" not in line
            break
    assert kept == []
    assert not channel.alive


def test_a_request_that_takes_too_long_ends_the_process(
    ask: Callable[..., Stream], channel: Channel, kept: list[Channel]
) -> None:
    with pytest.raises(UnreachableError, match=r"no answer within 1\.5 s; is the host up"):
        whole(ask("sample", timeout=1.5, interval=60.0, head=None))
    assert kept == []
    assert not channel.alive


def test_a_process_that_has_gone_is_told_apart_from_an_answer(
    ask: Callable[..., Stream], channel: Channel, kept: list[Channel]
) -> None:
    whole(ask("inspect"))
    os.kill(channel._process.pid, signal.SIGKILL)
    channel._process.wait()
    with pytest.raises(UnreachableError, match="does not answer"):
        whole(ask("inspect"))
    assert not channel.alive
    assert kept == [channel]  # of only the first request


def test_what_a_request_starts_cannot_read_the_next_one(ask: Callable[..., Stream], channel: Channel) -> None:
    whole(ask("inspect"))
    assert Path(f"/proc/{channel._process.pid}/fd/0").readlink() == Path(os.devnull)
