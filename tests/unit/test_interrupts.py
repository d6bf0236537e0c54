"""Ctrl-C while something is being ended."""

import signal
import subprocess
import sys

import pytest

from regatta.terminal.ctrl_c import interrupts_deferred


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


DROPPED = """\
import os, signal, time, weakref
from regatta.terminal import ctrl_c

class Freed:
    pass

def pressed(_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)

ctrl_c.install()
freed = Freed()
kept = weakref.ref(freed, pressed)
del freed
try:
    time.sleep(10)
except KeyboardInterrupt:
    print("came")
"""


def test_ctrl_c_comes_also_while_python_frees_an_object() -> None:
    said = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True, check=False)
    assert (said.stdout, said.stderr) == ("came\n", "")
