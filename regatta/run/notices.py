"""Messages about a run: that it has ended or failed, or prints nothing any more."""

import importlib.util
import os
from collections.abc import Callable, Sequence

from regatta.errors import UsageError
from regatta.node import notify

SECONDS = 3.0
"""So long a command waits at its end for messages to arrive."""


def resolved(urls: Sequence[str]) -> tuple[str, ...]:
    """The URLs, those of `env:NAME` from this shell. UsageError where a variable has none."""
    found = []
    for url in urls:
        name = url.removeprefix("env:")
        found.append(os.environ.get(name, "") if name != url else url)
        if "://" not in found[-1]:
            raise UsageError(f"--notify {url}: the variable {name} of this shell has no URL: set it, and export it")
    return tuple(found)


def check(urls: Sequence[str]) -> None:
    """UsageError where this machine cannot send to one of these URLs."""
    if not all(map(notify.web, resolved(urls))) and importlib.util.find_spec("apprise") is None:
        raise UsageError("--notify: only http:// and https:// go without apprise: pip install 'regatta[notify]'")


class Notices:
    """Those of one run: sent in the background, so that nothing waits for them."""

    def __init__(self, urls: Sequence[str], run: str, cluster: str, owner: str, say: Callable[[str], None]) -> None:
        """Send to `urls`; `say` gets a line about each message that has not arrived."""
        self._urls, self._say = resolved(urls), say
        self._about = {"run": run, "cluster": cluster, "owner": owner}
        self._sent: list[notify.Notice] = []

    def tell(self, state: str, words: str) -> None:
        """Send a message: the run's state, and a sentence about it."""
        about = {"text": words, "state": state, **self._about}
        self._sent += [notify.Notice(url, about) for url in self._urls]

    def settle(self) -> None:
        """Say what has not arrived."""
        sent, self._sent = self._sent, []
        for where, problem in notify.undelivered(sent, SECONDS).items():
            self._say(f"--notify: {where} has not got the message about {self._about['run']} ({problem})")
