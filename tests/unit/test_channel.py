"""The way to a node: requests one after the other through one process, and what becomes of it when they go wrong."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regatta.errors import RemoteError, UnknownHostKeyError, UnreachableError
from regatta.hosts.channel import Channel, Stream
from regatta.hosts.remote import Remote, explain
from regatta_protocol.operations.hosts import HoldLease, LeaseWord, Sample
from regatta_protocol.operations.launch import Inspect
from regatta_protocol.operations.operation import Operation
from regatta_protocol.operations.runs import StopRun

Ask = Callable[..., Stream[Any, Any]]


@pytest.fixture
def channel(remote: Remote) -> Iterator[Channel]:
    made = remote._channel(remote.cluster.head)
    yield made
    made.close()


@pytest.fixture
def kept() -> list[Channel]:
    return []


@pytest.fixture
def ask(remote: Remote, channel: Channel, kept: list[Channel]) -> Ask:
    node = remote.cluster.head

    def ask(asked: Operation[Any], timeout: float | None = 30.0) -> Stream[Any, Any]:
        return Stream(node, channel, asked, remote.place(node), timeout, kept.append, explain)

    return ask


def whole(stream: Stream[Any, Any]) -> Any:
    with stream:
        assert not list(stream)
        return stream.answer


def test_one_process_answers_one_request_after_the_other(ask: Ask, channel: Channel, kept: list[Channel]) -> None:
    for _ in range(3):
        assert whole(ask(Inspect())).facts["cores"] == len(os.sched_getaffinity(0))
    assert kept == [channel] * 3
    assert channel.alive


def test_an_error_is_an_answer(ask: Ask, channel: Channel, kept: list[Channel]) -> None:
    with pytest.raises(RemoteError, match="no run 'nothing' on this node"):
        whole(ask(StopRun("nothing", "none")))
    assert kept == [channel]
    assert whole(ask(Inspect())).facts


def test_what_is_not_heard_to_its_end_is_not_used_again(ask: Ask, channel: Channel, kept: list[Channel]) -> None:
    with ask(HoldLease("a test", "test")) as stream:
        assert next(iter(stream)) == LeaseWord(held=True)
    assert kept == []
    assert not channel.alive


def test_a_request_that_takes_too_long_ends_the_process(ask: Ask, channel: Channel, kept: list[Channel]) -> None:
    stream = ask(Sample(60.0, head=False), timeout=1.5)
    with stream, pytest.raises(UnreachableError, match=r"no answer within 1\.5 s; is the host up"):
        list(stream)
    assert kept == []
    assert not channel.alive


def test_a_process_that_has_gone_is_told_apart_from_an_answer(ask: Ask, channel: Channel, kept: list[Channel]) -> None:
    whole(ask(Inspect()))
    os.kill(channel._process.pid, signal.SIGKILL)
    channel._process.wait()
    with pytest.raises(UnreachableError, match="does not answer"):
        whole(ask(Inspect()))
    assert not channel.alive
    assert kept == [channel]  # of only the first request


def test_what_a_request_starts_cannot_read_the_next_one(ask: Ask, channel: Channel) -> None:
    whole(ask(Inspect()))
    assert Path(f"/proc/{channel._process.pid}/fd/0").readlink() == Path(os.devnull)


def test_what_ssh_says_before_it_is_asked_is_kept(remote: Remote) -> None:
    refused = Channel(["sh", "-c", "echo 'Host key verification failed.' >&2; exit 255"], b"")
    assert refused.ended()[0] == 255
    node = remote.cluster.head
    stream = Stream(node, refused, Inspect(), remote.place(node), 30.0, lambda _: None, explain)
    with stream, pytest.raises(UnknownHostKeyError, match="not pinned yet"):
        list(stream)
