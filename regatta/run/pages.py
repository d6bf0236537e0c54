"""The web pages of a cluster's services: each is tried again and again; a line names those that do not answer."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from regatta.errors import LaunchError, RegattaError

ANSWER_SECONDS = 5.0
AGAIN_ROUNDS = 10
"""A page that has answered is looked at again after so many rounds."""


@dataclass
class Page:
    """One page: `open` leads a local port to it and gives the address, None where the service is not installed.

    `check` proves that something answers at that address, and returns what a person reads with it. `answers` is None
    until it has been tried. `passing`: it ends with a run; then it is `over` where it does not answer any more.
    """

    name: str
    open: Callable[[], str | None]
    check: Callable[[str], str]
    url: str | None = None
    opened: bool = False
    answers: bool | None = field(default=None)
    rounds: int = 0
    passing: bool = False
    over: bool = False


def answering(url: str) -> str:
    """Prove that a web server answers at an address, whatever it says. LaunchError says what it did instead."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(url, timeout=ANSWER_SECONDS).close()
    except urllib.error.HTTPError as error:
        error.close()
    except (OSError, http.client.HTTPException) as error:
        raise LaunchError(f"no answer ({error})") from None
    return ""


def turn(pages: Sequence[Page], say: Callable[[str], None]) -> None:
    """Try every page that has not answered yet, and now and then the others; `say` what is new of each."""
    for page in pages:
        page.rounds += 1
        if page.over or (page.answers and page.rounds % AGAIN_ROUNDS):
            continue
        try:
            if not page.opened:
                page.url = page.open()
                page.opened = True
            if page.url is None:
                continue
            about = page.check(page.url)
        except (RegattaError, OSError) as error:
            page.over = page.passing
            if page.over and page.answers:
                say(f"{page.name} has ended")
            elif page.answers is not False and not page.over:
                cause = " ".join(str(error).split())
                say(f"{page.name} does not answer: {cause}; trying again{f' at {page.url}' if page.url else ''}")
            page.answers = False
            continue
        if not page.answers:
            say(f"{page.name}: {page.url}{about}")
        page.answers = True
