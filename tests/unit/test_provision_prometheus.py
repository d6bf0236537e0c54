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

import pytest
import yaml
from modules import ANSIBLE

JOBS = {"node": ["10.0.0.1:9100", "10.0.0.2:9100"], "prometheus": ["127.0.0.1:9090"]}


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


def played(folder: Path, plays: list[dict[str, Any]], *words: str) -> str:
    """Return what ansible-playbook shows of these plays, which succeed."""
    book = folder / "book.yml"
    book.write_text(yaml.safe_dump(plays))
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", *words, book],
        env={**os.environ, "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def says() -> Iterator[Callable[..., str]]:
    """`says(status, targets)`: the URL of a Prometheus that answers so."""
    answers: list[tuple[int, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, targets = answers[int(self.path.split("/")[1])]
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"data": {"activeTargets": targets}}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def add(status: int, targets: object) -> str:
            answers.append((status, targets))
            return f"http://127.0.0.1:{server.server_port}/{len(answers) - 1}"

        yield add
        server.shutdown()
        thread.join()


def test_one_that_looks_at_too_little_or_does_not_reach_it_is_not_well(
    says: Callable[..., str], tmp_path: Path
) -> None:
    ill = [target("node", "10.0.0.1:9100", "unknown"), target("node", "10.0.0.2:9100", "down", "refused")]
    cases = {
        "whole": says(200, every()),
        "just started": says(200, []),
        "one less": says(200, every()[1:]),
        "not ready": says(503, every()),
        "ill": says(200, [*ill, *every()[2:]]),
        "of another job": says(200, [target("other", "10.0.0.1:9100"), *every()[1:]]),
    }
    role = ANSIBLE / "roles/prometheus"
    said = {
        "ansible.builtin.copy": {
            "content": "{{ prometheus_verified | to_json }}",
            "dest": f"{tmp_path}/{{{{ case.key }}}}",
        }
    }
    (tmp_path / "case.yml").write_text(yaml.safe_dump([*yaml.safe_load((role / "tasks/verify.yml").read_text()), said]))
    case = {
        "include_tasks": str(tmp_path / "case.yml"),
        "loop": [{"key": name, "value": url} for name, url in cases.items()],
    }
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars_files": [str(role / "vars/main.yml")],
        "tasks": [{**case, "loop_control": {"loop_var": "case"}, "vars": {"prometheus_url": "{{ case.value }}"}}],
    }
    given = {"_prometheus_targets": JOBS, "_prometheus_head": "localhost", "prometheus_ready_timeout_s": 0}
    given["ansible_python_interpreter"] = sys.executable
    played(tmp_path, [play], "-i", "localhost,", "-c", "local", "-e", json.dumps(given))
    found = {name: json.loads((tmp_path / name).read_text()) for name in cases}
    assert found.pop("whole") == {"problems": [], "lines": ["Prometheus reaches 2 of node, 1 of prometheus"]}
    assert all(not one["lines"] for one in found.values())
    problems = {name: one["problems"] for name, one in found.items()}
    assert problems["just started"] == [
        "Prometheus does not look at 10.0.0.1:9100 (node)",
        "Prometheus does not look at 10.0.0.2:9100 (node)",
        "Prometheus does not look at 127.0.0.1:9090 (prometheus)",
    ]
    assert problems["one less"] == problems["of another job"] == ["Prometheus does not look at 10.0.0.1:9100 (node)"]
    (only,) = problems["not ready"]
    assert "does not answer" in only and "503" in only
    first, second = problems["ill"]
    assert first.endswith("not asked yet") and second.endswith("refused")


def test_verify_knows_every_target_from_the_inventory(says: Callable[..., str], tmp_path: Path) -> None:
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
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"vars": everywhere, "children": groups}}))
    shown = played(tmp_path, [{**play, "become": False}], "-i", str(inventory), "-e", f"prometheus_url={url}")
    assert "Prometheus does not look at 10.0.0.2:9101 (runs)" in shown
    assert shown.count("does not look at") == 2, "once for each host that is asked what was found"
