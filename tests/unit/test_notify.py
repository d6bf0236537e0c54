"""Messages about how a run has ended reach a server on loopback; one that hangs holds nothing."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from regatta.errors import UsageError
from regatta.node import notify
from regatta.options import kinds
from regatta.run import notices

SUBJECTS = {
    "Slurm Job_id=5 Name=night Ended, Run time 00:00:04, COMPLETED, ExitCode 0": "succeeded",
    "Slurm Job_id=5 Name=night Failed, Run time 00:00:04, FAILED, ExitCode 1": "failed",
    "Slurm Job_id=5 Name=night Failed, Run time 00:00:04, NODE_FAIL, ExitCode 0": "failed",
    "Slurm Job_id=5 Name=night Ended, Run time 00:00:04, CANCELLED, ExitCode 0": "cancelled",
    "Slurm Job_id=5 Name=night Invalid dependency, Queued time 00:00:01": "waiting",
}


class Heard(ThreadingHTTPServer):
    """A server that keeps what it was sent; below /hangs it does not answer until it is let go."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.heard: list[dict[str, Any]] = []
        self.go = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Of `Heard`."""

    server: Heard

    def do_POST(self) -> None:
        """Keep the message."""
        self.server.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        if self.path == "/hangs":
            self.server.go.wait()
        self.send_response(404 if self.path.startswith("/nothing") else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[Heard]:
    made = Heard()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.go.set()
    made.shutdown()
    thread.join()
    made.server_close()


def test_a_message_arrives_or_a_line_says_why_without_what_is_secret(
    server: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setenv("HOOK", f"{server.url}/nothing?key=secret")
    made = notices.Notices((f"{server.url}/hook", "env:HOOK"), "night", "lab", "ann on pc", said.append)
    made.tell("failed", "night on lab: rank 3 exited with code 7")
    made.settle()
    assert [one["run"] for one in server.heard] == ["night"] * 2 and "rank 3" in server.heard[0]["text"]
    assert len(said) == 1 and "404" in said[0] and "127.0.0.1" in said[0] and "secret" not in said[0]
    made.settle()
    assert len(said) == 1


def test_a_webhook_that_hangs_holds_nothing(server: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "SECONDS", 0.05)
    said: list[str] = []
    made = notices.Notices([f"{server.url}/hangs"], "night", "lab", "ann", said.append)
    made.tell("succeeded", "night: succeeded")
    made.settle()
    assert len(said) == 1 and "no answer" in said[0] and not server.go.is_set()
    server.go.set()


@pytest.mark.parametrize(("subject", "state"), SUBJECTS.items())
def test_the_head_reads_how_a_run_ended_from_slurms_subject(
    subject: str, state: str, server: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "WANTED", str(tmp_path))
    (tmp_path / "night").write_text(json.dumps({"urls": [server.url], "cluster": "lab", "owner": "ann"}))
    notify.main(["-s", subject, "root"])
    assert [(one["run"], one["state"]) for one in server.heard] == [("night", state)]
    assert (tmp_path / "night").exists() is (state == "waiting")
    notify.main(["-s", subject.replace("night", "other"), "root"])
    assert len(server.heard) == 1


@pytest.mark.parametrize("word", ["example.org", "env:", "https://", "https://a b", ""])
def test_what_is_no_url_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="no URL"):
        kinds.urls([word])


def test_a_url_needs_its_variable_and_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    with pytest.raises(UsageError, match="HOOK of this shell"):
        notices.check(["env:HOOK"])
    notices.check(["https://example.org/key"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install"):
        notices.check(["mailto://example.org"])
