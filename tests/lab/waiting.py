"""A run whose ranks have met and then wait, for tests that look at a cluster meanwhile."""

import os
import secrets
import signal
import subprocess
from pathlib import Path

from clusters import Cluster, finish, read_until

WAITS = """\
import time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 0:
    print("all have met", flush=True)
time.sleep(600)
"""


class Waiting:
    """`with Waiting(cluster, folder) as run`: a run is in progress on every node, and is cancelled in the end."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.run = f"waits-{secrets.token_hex(2)}"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> str:
        self.folder.mkdir()
        (self.folder / "waits.py").write_text(WAITS)
        self._process = self.cluster.background(
            self.folder, "torchrun", "--workers", "3", "--name", self.run, "waits.py"
        )
        read_until(self._process, "all have met")
        return self.run

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
        finish(self._process, 60)
