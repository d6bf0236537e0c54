"""python -m benchmarks.notebook INVENTORY [TIMES]: seconds from `regatta notebook` to the first cell's answer of Ray.

In Debian's chromium, headless, on this machine. The first time may bring packages to the nodes.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CELL = "import ray; ray.init(); print('nodes', len(ray.nodes()))"
READY = ".jp-Notebook-ExecutionIndicator[data-status='idle']"
"""There once the kernel takes cells; JupyterLab drops those that come before."""

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
ANSWER_SECONDS = 60


def first_cell(url: str, cell: str = CELL) -> tuple[str, str]:
    """Open a new notebook and type a cell that prints `nodes ...`: its output, and the text of the page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(ANSWER_SECONDS * 1000)
        page.goto(url)
        page.click('.jp-LauncherCard[data-category="Notebook"]')
        page.click(".jp-Notebook .jp-Cell .cm-content")
        page.keyboard.type(cell)
        page.wait_for_selector(READY)
        page.keyboard.press("Shift+Enter")
        page.wait_for_selector(".jp-OutputArea-output :text('nodes')")
        texts = page.inner_text(".jp-OutputArea"), page.inner_text("body")
        browser.close()
    return texts


def main() -> None:
    """Prints both times of each start."""
    inventory, times = Path(sys.argv[1]).resolve(), int(sys.argv[2]) if sys.argv[2:] else 5
    with tempfile.TemporaryDirectory() as project:
        Path(project, "regatta.toml").touch()
        for _ in range(times):
            began = time.monotonic()
            command = [str(Path(sys.executable).with_name("regatta")), "notebook", "--inventory", str(inventory)]
            env = {**os.environ, "REGATTA_RESULTS": f"{project}/results"}
            process = subprocess.Popen(
                command, cwd=project, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            assert process.stdout
            url = next(found[1] for line in process.stdout if (found := re.search(r"JupyterLab: (\S+)", line)))
            there = time.monotonic() - began
            first_cell(url)
            print(f"JupyterLab after {there:.1f} s, its first cell after {time.monotonic() - began:.1f} s", flush=True)
            os.killpg(process.pid, signal.SIGINT)
            process.wait()


if __name__ == "__main__":
    main()
