"""Settings of sshd on trial: whatever stops the module, the old file is there or the timer that brings it back."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import modules
import pytest


class Stopped(BaseException):
    """The module is killed here."""


class Host:
    """systemd and sshd as the module asks them; the files are real. At its so many-th question it kills the module."""

    def __init__(self, trial: ModuleType, kill_at: int | None = None) -> None:
        self.trial, self.kill_at, self.asked, self.timer = trial, kill_at, 0, False

    def run(self, *words: str) -> tuple[int, str]:
        self.asked += 1
        if self.asked == self.kill_at:
            raise Stopped
        if words[0] == "systemd-run":
            self.timer = True
        if words[:2] == ("systemctl", "stop"):
            self.timer = False
        if words[:2] == ("systemctl", "is-active"):
            return (0 if self.timer else 3), ""
        return 0, "port 22" if words[-1] == "-T" else ""

    def comes_back(self, old: str) -> bool:
        """Whether the host has the old file, or gets it when the timer ends."""
        if self.timer:
            self._back(self.trial.BACK)
        return bool(self.trial.read(self.trial.PATH) == old)

    def _back(self, script: str) -> None:
        words: Sequence[str] = ["/bin/sh", "-c", script.rpartition(";")[0]]
        subprocess.run(words, check=True)


@pytest.fixture
def trial(tmp_path: Path) -> ModuleType:
    made = modules.load("ssh_hardening", "roles/ssh_hardening/library/ssh_hardening.py")
    path, before = str(tmp_path / "00-regatta.conf"), str(tmp_path / "before")
    made.BACK = made.BACK.replace(made.PATH, path).replace(made.BEFORE, before)
    made.PATH, made.BEFORE = path, before
    return made


@pytest.mark.parametrize("old", ["", "MaxAuthTries 3\n"])
@pytest.mark.parametrize("again", [False, True])
def test_wherever_it_is_stopped_the_old_settings_come_back(trial: ModuleType, old: str, again: bool) -> None:
    for kill_at in range(1, 20):
        trial.put(trial.PATH, old)
        trial.put(trial.BEFORE, "")
        host = Host(trial)
        trial.run = host.run
        if again:
            trial.begin_trial("MaxSessions 10\n")
            host.asked = 0
        host.kill_at = kill_at
        try:
            trial.begin_trial("MaxSessions 100\n")
        except Stopped:
            assert host.comes_back(old), f"killed at question {kill_at}"
            continue
        assert trial.read(trial.PATH) == "MaxSessions 100\n" and host.timer
        return
    raise AssertionError("it never ended")


def test_what_sshd_does_not_take_is_taken_back(trial: ModuleType) -> None:
    trial.put(trial.PATH, "MaxAuthTries 3\n")
    host = Host(trial)
    trial.run = lambda *words: (255, "bad") if words[-1] == "-t" else host.run(*words)
    with pytest.raises(trial.SshError, match="does not take them; change ssh_hardening_settings: bad"):
        trial.begin_trial("Nonsense 1\n")
    assert trial.read(trial.PATH) == "MaxAuthTries 3\n" and not host.timer and not Path(trial.BEFORE).exists()
