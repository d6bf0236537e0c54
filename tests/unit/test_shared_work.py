"""Libraries on top of torch, as a person brings them: on a host without GPUs the ranks share the work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regatta.paths import PROJECT

pytestmark = pytest.mark.whole
PYTHON = PROJECT / ".venv-node/bin/python"
SCRIPTS = {
    "accelerate": "from accelerate import Accelerator; print('ranks', Accelerator().num_processes)",
    "lightning": "import lightning.pytorch as pl; print('ranks', pl.Trainer(logger=False).world_size)",
}


@pytest.mark.skipif(not PYTHON.exists(), reason="make setup-node makes the nodes' environment")
@pytest.mark.parametrize("library", SCRIPTS)
def test_ranks_share_the_work(here: Path, tmp_path: Path, library: str) -> None:
    hosts = here / "hosts.yml"
    hosts.write_text(hosts.read_text().replace(sys.executable, str(PYTHON)))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "script.py").write_text(SCRIPTS[library])
    words = ["torchrun", f"--inventory={here}", "--workers=2", f"--with={library}", "script.py"]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("regatta")), *words],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"REGATTA_RESULTS": str(tmp_path / "results"), "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.count("| ranks 2\n") == 2, done.stdout + done.stderr
    assert done.stdout.count(f"so the ranks share the work under {library}") == 1
