"""The message of `ray_ready` where Ray's head does not come up."""

import modules
import pytest

READY = modules.load("ray_ready", "roles/ray/library/ray_ready.py")


def test_the_head_is_named_with_its_restarts_and_the_lines_that_name_a_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "systemctl": "8",
        "journalctl": "Timed out waiting for file dashboard_agent\nKilling process 7\nunit: Scheduled restart",
    }
    monkeypatch.setattr(READY, "of_head", lambda *command: said[command[0]])
    monkeypatch.setattr(READY.os, "getloadavg", lambda: (28.0, 20.0, 10.0))
    monkeypatch.setattr(READY.os, "cpu_count", lambda: 2)
    text = READY.trouble(["node2"], 0)
    assert "has started again 8 times; load 28 on 2 cores: provision again when it is less busy" in text
    assert text.endswith("Its last words:\nTimed out waiting for file dashboard_agent")
    assert "regatta-ray-worker" in READY.trouble(["node2"], 500)
