"""Pages of services: one that does not answer ends nothing, and is tried again; the others are offered meanwhile."""

import http.server
import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from regatta.errors import LaunchError, UnreachableError
from regatta.frameworks.ray.jobs import JobApi
from regatta.run import pages

Serve = Callable[..., str]


class Moody(http.server.ThreadingHTTPServer):
    """Closes as many connections without an answer as the test sets, then answers."""

    closes = 0
    status = 200
    says: object = {"version": "4"}


class Handler(http.server.BaseHTTPRequestHandler):
    server: Moody

    def do_GET(self) -> None:
        if self.server.closes > 0:
            self.server.closes -= 1
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        body = json.dumps(self.server.says).encode()
        self.send_response(401 if self.path == "/" else self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Moody]:
    with Moody(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


def test_each_page_is_tried_on_its_own_and_again(server: Moody) -> None:
    url = f"http://127.0.0.1:{server.server_port}/"
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{sock.getsockname()[1]}/"
    asked = 0

    def late() -> str:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise UnreachableError("node1", "busy")
        return url

    server.closes = 1
    known = [
        pages.Page("first", lambda: url, pages.answering),
        pages.Page("second", lambda: closed, lambda url: pages.answering(url) + " (so)"),
        pages.Page("third", late, pages.answering),
        pages.Page("none", lambda: None, pages.answering),
    ]
    said: list[list[str]] = []
    for _ in range(4):
        said.append([])
        pages.turn(known, said[-1].append)
    assert [line.split()[0].rstrip(":") for line in said[0]] == ["first", "second", "third"]
    assert all("does not answer" in line for line in said[0])
    assert said[1:] == [[f"first: {url}"], [f"third: {url}"], []]
    known[1].url = url
    pages.turn(known, said[0].append)
    assert said[0][-1] == f"second: {url} (so)"
    server.closes = 10**6
    lost: list[str] = []
    for _ in range(pages.AGAIN_ROUNDS):
        pages.turn(known, lost.append)
    assert sorted(line.split()[0] for line in lost) == ["first", "second", "third"]


def test_the_page_of_a_run_ends_with_it_and_is_not_tried_again(server: Moody) -> None:
    url = f"http://127.0.0.1:{server.server_port}/"
    known = [pages.Page("job", lambda: url, pages.answering, passing=True)]
    said: list[str] = []
    pages.turn(known, said.append)
    server.closes = 10**6
    for _ in range(3 * pages.AGAIN_ROUNDS):
        pages.turn(known, said.append)
    assert said == [f"job: {url}", "job has ended"]
    never = [pages.Page("other", lambda: url, pages.answering, passing=True)]
    pages.turn(never, said.append)
    assert never[0].over and len(said) == 2


def test_the_line_of_rays_dashboard_says_why_it_has_no_charts(server: Moody) -> None:
    api = JobApi(server.server_port, "token", "lab")
    server.says = {"result": True, "data": {"grafanaHost": "http://charts.test:3000"}}
    assert api.charts() == ""
    server.says = {"result": True, "data": {"grafanaHost": "DISABLED"}}
    assert "grafana_package_source" in api.charts() and "ray_grafana_url" in api.charts()
    server.status = 500  # as Ray's dashboard answers
    server.says = {"result": False, "msg": "Grafana healthcheck failed", "data": {"exception": "refused"}}
    assert "does not answer" in api.charts()


def test_the_job_api_is_asked_again_where_it_closed_a_connection(server: Moody) -> None:
    api = JobApi(server.server_port, "token", "lab")
    server.closes = 1
    assert api.version() == {"version": "4"}
    server.closes = 2
    with pytest.raises(LaunchError, match="lab"):
        api.version()
