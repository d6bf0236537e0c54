"""TensorBoard on what a run has written, by a person who has only their own project."""

import json
import os
import signal
import socket
import urllib.request

import pytest
from person import Person, wait_until

pytestmark = pytest.mark.timeout(1500)  # the first test sets a clone up, on a machine that may be busy

WRITE = """\
from torch.utils.tensorboard import SummaryWriter

writer = SummaryWriter("logs/first")
for step in range(3):
    writer.add_scalar("loss", 1 / (step + 1), step)
writer.close()
"""


def test_event_files_of_a_run_are_shown(ready: Person) -> None:
    folder = ready.home / "board"
    ready.write(folder / "write.py", WRITE)
    ready.write(folder / "quiet.py", "print('no events')\n")
    words = ("torchrun", "--workers=1", "--no-environment")
    assert ready.type(ready.regatta, *words, "--name=quiet", "quiet.py", cwd=folder)[0] == 0
    code, text = ready.type(ready.regatta, "board", "quiet", cwd=folder)
    assert (code, "quiet: no event files of TensorBoard" in text) == (2, True), text
    words = ("torchrun", "--workers=1", "--with=tensorboard")
    code, text = ready.type(ready.regatta, *words, "--name=written", "write.py", cwd=folder)
    assert code == 0, text
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    board = ready.start(ready.regatta, "board", "written", "--port", str(port), cwd=folder)

    def tags() -> object:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/plugin/scalars/tags", timeout=5) as answer:
                return json.load(answer)
        except OSError:
            return None

    said = ""
    for line in board.stdout or ():  # to its end, where it does not start
        said += line
        if f"http://127.0.0.1:{port}/ shows written" in line:
            break
    wait_until(tags, lambda: said)
    found = tags()
    os.killpg(board.pid, signal.SIGINT)
    said += board.communicate()[0]
    assert isinstance(found, dict) and [*found] == ["written/logs/first"], said
    assert [*found["written/logs/first"]] == ["loss"]
    assert board.returncode == 0, said
