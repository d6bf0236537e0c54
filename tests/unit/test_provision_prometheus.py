"""Verify and Prometheus: one that looks at nothing yet, or not at all that it is to look at, is not well."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import modules
import pytest
import yaml
from modules import ANSIBLE

JOBS = {"node": ["10.0.0.1:9100", "10.0.0.2:9100"], "prometheus": ["127.0.0.1:9090"]}
verify = modules.load("prometheus_verify", "roles/prometheus/library/prometheus_verify.py")


def target(job: str, address: str, health: str = "up", error: str = "") -> dict[str, Any]:
    """As Prometheus tells of it."""
    return {
        "discoveredLabels": {"__address__": address, "job": job},
        "labels": {"job": job, "instance": address},
        "scrapePool": job,
        "scrapeUrl": f"http://{address}/metrics",
        "lastError": error,
        "health": health,
    }


def every() -> list[dict[str, Any]]:
    return [target(job, address) for job, addresses in JOBS.items() for address in addresses]


@pytest.fixture
def says() -> Iterator[Callable[[int, object], str]]:
    """`says(status, targets)`: the URL of a Prometheus that answers so."""
    answer: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(answer["status"])
            self.end_headers()
            self.wfile.write(json.dumps({"data": {"activeTargets": answer["targets"]}}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def set_(status: int, targets: object) -> str:
            answer.update(status=status, targets=targets)
            return f"http://127.0.0.1:{server.server_port}"

        yield set_
        server.shutdown()
        thread.join()


def test_all_targets_up_is_well(says: Callable[[int, object], str]) -> None:
    assert verify.problems(says(200, every()), JOBS) == []


def test_one_that_has_just_started_looks_at_nothing_and_is_not_well(says: Callable[[int, object], str]) -> None:
    assert verify.problems(says(200, []), JOBS) == [
        "Prometheus does not look at 10.0.0.1:9100 (node)",
        "Prometheus does not look at 10.0.0.2:9100 (node)",
        "Prometheus does not look at 127.0.0.1:9090 (prometheus)",
    ]


def test_a_node_that_it_does_not_look_at_is_named(says: Callable[[int, object], str]) -> None:
    (only,) = verify.problems(says(200, every()[1:]), JOBS)
    assert "10.0.0.1:9100" in only


def test_not_ready_not_asked_and_not_reached(says: Callable[[int, object], str]) -> None:
    (only,) = verify.problems(says(503, every()), JOBS)
    assert "does not answer" in only and "503" in only
    found = [target("node", "10.0.0.1:9100", "unknown"), target("node", "10.0.0.2:9100", "down", "refused"), *every()]
    said = verify.problems(says(200, found), JOBS)
    assert len(said) == 2 and said[0].endswith("not asked yet") and said[1].endswith("refused")


def test_verify_knows_every_target_from_the_inventory(says: Callable[[int, object], str], tmp_path: Path) -> None:
    """The play as it is, but of its tasks only those about Prometheus, which is the test's and lacks one target."""
    (play,) = yaml.safe_load((ANSIBLE / "playbooks/verify.yml").read_text())
    (read,) = play["pre_tasks"]
    read["ansible.builtin.import_tasks"] = str(ANSIBLE / "playbooks/tasks/services.yml")
    wanted = [task["name"] for task in play["tasks"]].index("Verify each service")
    for task in play["tasks"][:wanted]:
        task["when"] = False
    play["tasks"][wanted]["loop"] = ["prometheus"]
    hosts = {name: {"preflight_host": {"address": f"10.0.0.{number}"}} for number, name in enumerate(("n1", "n2"), 1)}
    expected = {
        "hdfs": ["10.0.0.1:9870", "10.0.0.1:9864", "10.0.0.2:9864"],
        "node": ["10.0.0.1:9100", "10.0.0.2:9100"],
        "prometheus": ["127.0.0.1:9090"],
        "ray": ["10.0.0.1:6385", "10.0.0.2:6385"],
        "ray-head": ["10.0.0.1:6387", "10.0.0.1:6386"],
        "runs": ["10.0.0.1:9101"],
    }
    url = says(200, [target(job, address) for job, addresses in expected.items() for address in addresses])
    play["tasks"][wanted + 1 :] = [{"ansible.builtin.debug": {"msg": "{{ prometheus_verified | to_json }}"}}]
    everywhere = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    everywhere["prometheus_ready_timeout_s"] = "0"
    groups = {"head": {"hosts": {"n1": None}}, "workers": {"hosts": hosts}}
    inventory, book = tmp_path / "hosts.yml", tmp_path / "verify.yml"
    inventory.write_text(yaml.safe_dump({"all": {"vars": everywhere, "children": groups}}))
    book.write_text(yaml.safe_dump([{**play, "become": False}]))
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", inventory, "-e", f"prometheus_url={url}", book],
        env={**os.environ, "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "Prometheus does not look at 10.0.0.2:9101 (runs)" in done.stdout
    assert done.stdout.count("does not look at") == 2, "once for each host that is asked what was found"
