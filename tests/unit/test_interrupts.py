"""Ctrl-C while something is being ended."""

import signal

import pytest

from regatta.run.interrupts import interrupts_deferred


def test_it_waits_and_then_counts() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_deferred():
        signal.raise_signal(signal.SIGINT)
        done.append("all of it")
    assert done == ["all of it"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_again_while_an_earlier_one_is_dealt_with() -> None:
    done = []
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with interrupts_deferred():
            signal.raise_signal(signal.SIGINT)
            done.append("stopped")
        done.append("said")
    assert done == ["stopped", "said"]
