"""The web pages of a cluster's services: each is tried again and again; a line names those that do not answer."""

import contextlib
import functools
import http.client
import itertools
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from regatta.errors import LaunchError, RegattaError
from regatta.frameworks import api
from regatta.hosts.remote import Remote
from regatta.hosts.tunnels import Tunnels, free_local_port
from regatta.run import services
from regatta_protocol.operations.services import AskPages

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


class OfCluster:
    """The pages of a cluster's services and of its runs in progress, each led to a port of this machine.

    `port`: that of the first page. `say` gets a line about what is new of each.
    """

    def __init__(self, remote: Remote, opened: Tunnels, port: int | None, say: Callable[[str], None]) -> None:
        """Ask the head for its pages; none is tried yet."""
        self._remote, self._opened, self._say = remote, opened, say
        self._rounds = itertools.count(1)
        self._known = [
            *(self._of_service(page, None if number else port) for number, page in enumerate(self._of_services())),
            *(
                Page(page.title, functools.partial(self._lead, page.port, page.host), answering)
                for page in remote.call(remote.cluster.head, AskPages()).pages
            ),
        ]

    def turn(self) -> None:
        """Try the pages, see the function of this name."""
        turn(self._known, self._say)

    def again(self) -> None:
        """Try the pages again, and now and then look for those of runs that have begun."""
        if next(self._rounds) % AGAIN_ROUNDS == 0:
            there = {page.name for page in self._known if not page.over}
            with contextlib.suppress(RegattaError):
                new = [page for page in self._of_services() if page.passing and page.name not in there]
                self._known.extend(map(self._of_service, new))
        self.turn()

    def addresses(self) -> list[str]:
        """Return those of the pages that answer."""
        return [page.url for page in self._known if page.answers and page.url]

    def _of_services(self) -> list[api.Page]:
        return [page for framework in services.served(self._remote.cluster) for page in framework.pages(self._remote)]

    def _of_service(self, page: api.Page, local: int | None = None) -> Page:
        def check(url: str) -> str:
            if not page.passing:  # the page of a busy run answers late: it proves itself in its own way
                answering(url)
            return page.check(int(url.rstrip("/").rpartition(":")[2]))

        lead = functools.partial(self._lead, page.port, page.host, local)
        return Page(page.name, lead, check, passing=page.passing)

    def _lead(self, to: int, host: str | None = None, local: int | None = None) -> str:
        at = self._opened.open(to, host=host or "127.0.0.1", local_port=local or free_local_port(to))
        return f"http://127.0.0.1:{at}/"
