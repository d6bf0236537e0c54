#!/usr/bin/python3 -I
"""Sends messages about a run: by a webhook, or by apprise where that is installed, which knows mail and chat.

On the head it is Slurm's MailProg, as Slurm's own account, for runs without a controller.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from typing import Any, Dict, Sequence

SECONDS = 10.0
WANTED = "/var/lib/slurm/notify"
"""The head's folder with whom to tell of which run, Slurm's own."""
STATES = {"COMPLETED": "succeeded", "CANCELLED": "cancelled"}
_SUBJECT = re.compile(r"Name=(\S+) (.*)")
_END = re.compile(r", ([A-Z_]{4,})(,|$)")


class Notice(threading.Thread):
    """A message on its way to one URL. `where`: what of that is no secret; `problem`: empty once it has arrived."""

    def __init__(self, url: str, about: Dict[str, Any]) -> None:
        """Send it; `about` is what a webhook gets as JSON, and `text` in it what a person reads."""
        super().__init__(daemon=True)
        parts = urllib.parse.urlsplit(url)
        self.where, self.problem = f"{parts.scheme}://{parts.hostname or ''}", "no answer"
        self._url, self._about = url, about
        self.start()

    def run(self) -> None:
        """See `Thread`."""
        try:
            self.problem = "" if self._sent() else "refused"
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}".replace(self._url, self.where)

    def _sent(self) -> bool:
        if web(self._url):
            head = {"Content-Type": "application/json", "User-Agent": "regatta"}
            asked = urllib.request.Request(self._url, json.dumps(self._about).encode(), head, method="POST")
            with urllib.request.urlopen(asked, timeout=SECONDS):
                return True
        apprise: Any = importlib.import_module("apprise")
        service = apprise.Apprise()
        return bool(service.add(self._url) and service.notify(body=self._about["text"]))


def web(url: str) -> bool:
    """Whether a URL is that of a webhook."""
    return url.startswith(("http://", "https://"))


def undelivered(notices: Sequence[Notice], seconds: float) -> Dict[str, str]:
    """Wait so long at most; returns why messages did not arrive, by where they went to."""
    end = time.monotonic() + seconds
    for one in notices:
        one.join(max(0.0, end - time.monotonic()))
    return {one.where: one.problem for one in notices if one.problem}


def main(words: Sequence[str]) -> None:
    """Do what Slurm asks of its MailProg: `-s SUBJECT USER`; the subject names the run, and how it ended."""
    found = _SUBJECT.search(words[words.index("-s") + 1])
    if not found:
        return
    run, how = found.groups()
    wanted = os.path.join(WANTED, os.path.basename(run))
    with contextlib.suppress(FileNotFoundError), open(wanted) as file:
        said = json.load(file)
        end = _END.search(how)
        state = STATES.get(end[1], "failed") if end else "waiting"
        text = f"{run} on {said['cluster']}: {state} ({how})"
        about = {"text": text, "run": run, "state": state, "cluster": said["cluster"], "owner": said["owner"]}
        for where, problem in undelivered([Notice(url, about) for url in said["urls"]], SECONDS).items():
            subprocess.run(["logger", "--tag=regatta-queue", f"{run}: {where}: {problem}"])
        if end:
            os.unlink(wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)
