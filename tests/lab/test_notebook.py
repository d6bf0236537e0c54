"""JupyterLab on the cluster in a real browser: Debian's chromium, headless."""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from clusters import Cluster, latest, read_until

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
ALIVE = "sum(one['Alive'] for one in ray.nodes())"
CELL = f"import os, ray; ray.init(); print('nodes', {ALIVE}); open('kept', 'w').write(os.getcwd())"
ANSWER_SECONDS = 60_000

pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(
        BROWSER is None and not os.environ.get("CI"), reason="chromium is not installed (make test as root does it)"
    ),
]


def first_cell(url: str) -> str:
    """The output of the first cell of a new notebook, typed as a person does."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(ANSWER_SECONDS)
        page.goto(url)
        page.click('.jp-LauncherCard[data-category="Notebook"]')
        page.click(".jp-Notebook .jp-Cell .cm-content")
        page.keyboard.type(CELL)
        page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']")  # else it is not sent
        page.keyboard.press("Shift+Enter")
        page.wait_for_selector(".jp-OutputArea-output :text('nodes')")
        text = page.inner_text(".jp-OutputArea")
        assert "Jupyter news" not in page.inner_text("body")
        browser.close()
    return text


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
        shown = first_cell(url)
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
