"""JupyterLab on the cluster in a real browser: Debian's chromium, headless."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from clusters import Cluster, latest, read_until

from benchmarks.notebook import BROWSER, first_cell

ALIVE = "sum(one['Alive'] for one in ray.nodes())"
CELL = f"import os, ray; ray.init(); print('nodes', {ALIVE}); open('kept', 'w').write(os.getcwd())"

pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(
        BROWSER is None and not os.environ.get("CI"), reason="chromium is not installed (make test as root does it)"
    ),
]


def test_a_first_cell_joins_ray_and_nothing_is_left(cluster: Cluster, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "regatta.toml").write_text("# notebooks\n")
    began = time.monotonic()
    process = cluster.background(project, "notebook")
    try:
        said = read_until(process, "JupyterLab: ")
        (url,) = re.findall(r"JupyterLab: (\S+/lab\?token=\S+)", said)
        took = time.monotonic() - began
        shown, page = first_cell(url, CELL)
        assert "Jupyter news" not in page
        assert f"nodes {len(cluster.lab.nodes)}" in shown and "ipywidgets" not in shown
        print(f"JupyterLab after {took:.1f} s, the first cell after {time.monotonic() - began:.1f} s")
        run = latest(cluster, project)
        assert run["state"] == "running" and run["owner"].startswith("ubuntu SHA256:")
        token = url.rpartition("=")[2]
        log = cluster.regatta(project, "logs", run["run"]).stdout
        assert token not in log + said.replace(url, "")
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)
    assert cluster.nothing_runs(run["run"])
    head = cluster.lab.nodes[0]
    kept = cluster.lab.ssh(head, "sudo sh -c 'cat /var/lib/regatta-shared/projects/*/notebooks/kept'").stdout
    assert kept.endswith("/notebooks")
    found = cluster.lab.ssh(
        head, f"sudo grep -rl -- {token} /var/lib/regatta /tmp /run/regatta* 2>/dev/null", check=False
    )
    assert found.stdout == ""
    record = json.loads((tmp_path / f"results/{run['run']}.json").read_text())
    assert record["identity"]["owner"] == run["owner"] and token not in json.dumps(record)
