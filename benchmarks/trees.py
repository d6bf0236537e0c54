"""Source trees to sync: git repositories of so many Python files, and a script whose rank dies."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

VICTIM_SCRIPT = "victim.py"
DEATH_MARK = "a rank dies at"

_A_FOLDER = 25
_LINES = 60
_VICTIM = f"""\
import os, signal, time
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == dist.get_world_size() - 1:
    time.sleep(0.5)
    print("{DEATH_MARK}", f"{{time.time():.6f}}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(60)
"""


@dataclass
class Tree:
    """A git repository with everything committed; `edit` changes one line of one file."""

    root: Path
    edits: int = 0

    @classmethod
    def make(cls, root: Path, files: int) -> "Tree":
        """`files` files of about 3 KB, the script among them."""
        root.mkdir()
        (root / VICTIM_SCRIPT).write_text(_VICTIM)
        for number in range(1, files):
            folder = root / f"package_{number // _A_FOLDER:02}"
            folder.mkdir(exist_ok=True)
            lines = [f"VALUE_{line} = 'file {number}, line {line}: padding'" for line in range(_LINES)]
            (folder / f"module_{number:03}.py").write_text("\n".join(lines) + "\n")
        author = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
        for words in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "--message", "All")):
            subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)
        return cls(root)

    def edit(self) -> None:
        """Change the last line of a file."""
        self.edits += 1
        file = self.root / VICTIM_SCRIPT
        lines = file.read_text().splitlines()
        file.write_text("\n".join([*lines[:-1], f"time.sleep({60 + self.edits})"]) + "\n")
