"""Prometheus on the head looks at a real run: every panel has data, and nothing says that a dead run lives."""

import contextlib
import json
import re
import secrets
import shlex
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import Cluster, finish, read_until, wait_for
from metrics import Prometheus, opened

from lab.model import PROJECT
from regatta.frameworks.ray.state import RayState
from regatta.hosts import inventories
from regatta.hosts.remote import Remote

RUN = f"watched-{secrets.token_hex(2)}"
TARGETS = 3 + 3 + 3 + 2 + 1 + 3 + 1
"""Nodes, their runs, Ray, its head's own two, NameNode, DataNodes, Prometheus itself."""


ENDLESS = """\
import json, os, time
import ray

def tell(event, rank, **more):
    print("@regatta", json.dumps({"event": event, "rank": rank, "t": time.time(), **more}), flush=True)

@ray.remote(num_cpus=1)
class Rank:
    def step(self, seconds):
        time.sleep(seconds)

ray.init()
ranks = [Rank.options(resources={f"node:{at}": 0.001}).remote() for at in json.loads(os.environ["REGATTA_RANK_MAP"])]
ray.get([rank.step.remote(0) for rank in ranks])
for number in range(len(ranks)):
    tell("ready", number)
for done in range(10**6):
    ray.get([rank.step.remote(0.5) for rank in ranks])
    for number in range(len(ranks)):
        tell("progress", number, what="steps", done=done, total=10**6, loss=1 / (done + 1))
"""


@pytest.fixture(scope="module")
def prometheus(cluster: Cluster) -> Iterator[Prometheus]:
    cluster.fab("up")
    with opened(cluster) as prometheus:
        yield prometheus


def dashboard(cluster: Cluster, name: str) -> dict[str, Any]:
    """A dashboard as it is on the head."""
    text = cluster.lab.ssh("node1", f"sudo cat /etc/regatta/grafana/dashboards/{name}.json").stdout
    return dict(json.loads(text))


def substituted(expression: str, run: str) -> str:
    """Return what Grafana makes of a query, for all nodes and one run.

    Without Ray's GCS: it exports nothing where its node's agent needed more than 30 s to start.
    """
    values = {"$__rate_interval": "30s", "$__range": "5m", "$node": ".*", "$run": run, '"gcs"': '"silent"'}
    for name, value in values.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def test_all_targets_answer_and_are_those_that_ray_names(cluster: Cluster, prometheus: Prometheus) -> None:
    wait_for(lambda: not prometheus.query("up == 0") and len(prometheus.query("up")) == TARGETS, 60)
    named = json.loads(
        cluster.lab.ssh("node1", "sudo cat /var/lib/regatta/ray/prom_metrics_service_discovery.json").stdout
    )
    ours = {target["labels"]["instance"] for target in prometheus.ask("targets", state="active")["activeTargets"]}
    theirs = {target for entry in named for target in entry["targets"]}
    assert len(theirs) >= 3
    assert theirs <= ours
    assert f"monitoring: {TARGETS} of {TARGETS} targets answer" in cluster.fab("status").stdout


def test_strangers_and_other_hosts_find_no_prometheus(cluster: Cluster) -> None:
    listening = cluster.lab.ssh("node1", "ss -H -ltn").stdout
    bound = {tuple(line.split()[3].rsplit(":", 1)) for line in listening.splitlines()}
    at = {port: {address for address, its in bound if its == port} for port in ("9090", "9100", "9101")}
    head = cluster.lab.addresses["node1"]
    assert at == {"9090": {"127.0.0.1"}, "9100": {head}, "9101": {head}}
    packaged = cluster.lab.ssh("node1", "systemctl is-enabled prometheus prometheus-node-exporter", check=False)
    assert packaged.stdout.split() == ["disabled", "disabled"]


def test_every_panel_has_data_while_a_run_lives_and_no_more(
    cluster: Cluster, prometheus: Prometheus, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/endless.py").write_text(ENDLESS)
    boards = {name: dashboard(cluster, name) for name in ("cluster", "run")}
    process = cluster.background(tmp_path / "project", "rayrun", "--name", RUN, "--workers", "3", "endless.py")
    try:
        variables = boards["run"]["templating"]["list"]
        metric, label = re.match(r"label_values\((.+), (\w+)\)$", variables[0]["definition"]).groups()  # type: ignore[union-attr]
        wait_for(lambda: RUN in {found["metric"][label] for found in prometheus.query(metric)}, 90)

        def empty() -> list[str]:
            return [
                panel["title"]
                for panel in boards["cluster"]["panels"] + boards["run"]["panels"]
                for target in panel.get("targets", ())
                if not target["expr"].startswith("regatta_gpu_")  # lab hosts have no cards
                and not prometheus.query(substituted(target["expr"], RUN))
            ]

        wait_for(lambda: not empty(), 120)
        ranks = {
            found["metric"]["rank"]: found["metric"]["node"] for found in prometheus.query("regatta_run_rank_info")
        }
        assert ranks == {"0": "node1", "1": "node2", "2": "node3"}
        cluster.lab.ssh("node1", f"sudo pkill -KILL -f 'supervisor.py /var/lib/regatta/runs/{RUN}$'")
        wait_for(lambda: not prometheus.query("regatta_run_info"), 30)
    finally:
        cluster.fab("cancel", RUN, check=False)
        finish(process)
    assert process.returncode


ASKED_OF_RAY = """\
import sys, urllib.request
header = {"Authorization": "Bearer " + open("/etc/regatta/ray_token").read().strip()}
asked = urllib.request.Request("http://127.0.0.1:8265" + sys.argv[1], headers=header)
print(urllib.request.urlopen(asked).read().decode())
"""


def asked_of_ray(cluster: Cluster, path: str) -> Any:
    """What Ray's API on the head says."""
    return json.loads(cluster.lab.ssh("node1", f"sudo python3 -c {shlex.quote(ASKED_OF_RAY)} {path}").stdout)


def test_dashboard_leads_to_prometheus(cluster: Cluster) -> None:
    process = cluster.background(PROJECT, "dashboard")
    try:
        shown = read_until(process, "Prometheus:")
        address = re.search(r"http://127\.0\.0\.1:\d+/", shown.splitlines()[-1])
        assert address
        with urllib.request.urlopen(f"{address[0]}-/ready", timeout=30) as page:
            assert page.status == 200
        assert "running" in asked_of_ray(cluster, "/api/prometheus_health")["msg"]
    finally:
        process.send_signal(signal.SIGINT)
        finish(process, 20)
    assert "it has no charts" in shown


STAND_IN = """\
import http.server
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"database": "ok"}')
http.server.HTTPServer(("127.0.0.1", 3999), Health).serve_forever()
"""


@pytest.mark.whole
def test_rays_dashboard_has_the_charts_of_a_grafana_of_ones_own(cluster: Cluster) -> None:
    """Debian has no Grafana: what answers here is a stand-in, and where a person's browser finds it is passed on."""
    variables = cluster.lab.inventory / "group_vars/all.yml"
    before = variables.read_text()
    urls = "ray_grafana_url: http://127.0.0.1:3999\nray_grafana_browser_url: http://charts.test:3000\n"
    cluster.lab.ssh("node1", f"sudo systemd-run --unit=stand-in python3 -c {shlex.quote(STAND_IN)}")
    try:
        variables.write_text(before + urls)
        cluster.make("provision")
        with contextlib.closing(Remote(inventories.load(str(cluster.lab.inventory)))) as remote:
            ray = RayState(remote)
            assert asked_of_ray(cluster, "/api/grafana_health")["data"]["grafanaHost"] == "http://charts.test:3000"
            assert ray.charts() == ""
            cluster.lab.ssh("node1", "sudo systemctl stop stand-in")
            assert "does not answer" in ray.charts()
    finally:
        cluster.lab.ssh("node1", "sudo systemctl stop stand-in", check=False)
        variables.write_text(before)
        cluster.make("provision")
