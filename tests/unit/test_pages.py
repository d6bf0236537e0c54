"""Pages of services: one that does not answer ends nothing, and is tried again; the others are offered meanwhile."""

import http.server
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from regatta.errors import UnreachableError
from regatta.frameworks.ray.node import actors
from regatta.frameworks.ray.state import RayNode, RayState
from regatta.hosts.remote import Remote
from regatta.node import frameworks
from regatta.node.problem import Problem
from regatta.run import pages
from regatta_protocol.operations.services import CallFramework

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


@pytest.fixture
def ray(server: Moody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RayState:
    """What is asked of Ray on this machine, whose API the server stands in for."""
    (tmp_path / "token").write_text("token")
    monkeypatch.setattr(actors, "TOKEN", str(tmp_path / "token"))
    monkeypatch.setattr(actors, "DASHBOARD", f"http://127.0.0.1:{server.server_port}")

    class Here:
        cluster = SimpleNamespace(head=None)

        def call(self, node: None, asked: CallFramework, timeout: float) -> Any:
            return frameworks.call({}, asked.function, asked.words)

    return RayState(cast(Remote, Here()))


def test_the_line_of_rays_dashboard_says_why_it_has_no_charts(server: Moody, ray: RayState) -> None:
    server.says = {"result": True, "data": {"grafanaHost": "http://charts.test:3000"}}
    assert ray.charts() == ""
    server.says = {"result": True, "data": {"grafanaHost": "DISABLED"}}
    assert "grafana_package_source" in ray.charts() and "ray_grafana_url" in ray.charts()
    server.status = 500  # as Ray's dashboard answers
    server.says = {"result": False, "msg": "Grafana healthcheck failed", "data": {"exception": "refused"}}
    assert "does not answer" in ray.charts()


def _row(address: str, own: str, state: str) -> dict[str, str]:
    return {"node_ip": address, "node_id": own, "state": state}


def test_ray_is_asked_again_where_it_closed_a_connection(server: Moody, ray: RayState) -> None:
    rows = [_row("10.0.0.1", "a", "ALIVE"), _row("10.0.0.2", "b", "DEAD")]
    server.says = {"data": {"result": {"result": rows}}}
    server.closes = 1
    assert ray.nodes() == [RayNode("10.0.0.1", "a")]
    server.closes = 2
    with pytest.raises(Problem, match=r"Ray's API does not answer .*'regatta up'"):
        ray.nodes()
    server.status = 403
    with pytest.raises(Problem, match=r"Ray's API refuses .*403.*'regatta status'"):
        ray.nodes()
