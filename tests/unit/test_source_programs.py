"""Programs in the shape of those of the published sources run as they are, by `rayrun` and `torchrun`."""

import shutil
import sys
from pathlib import Path

import pytest
import running

from regatta import paths

PROGRAMS = Path(__file__).with_name("programs")
NODE = paths.PROJECT / ".venv-node/bin/python"
PERFECT = "[6, 28, 496]"


@pytest.mark.skipif(not NODE.exists(), reason="needs .venv-node: make setup-node")
@pytest.mark.parametrize(
    ("command", "script", "expected"),
    [
        (
            "rayrun",
            "ray_core.py",
            {
                "chain": "36",
                "tree": "36",
                "actor": "[2, 4, 6]",
                "objects": "499500 [3, 7] []",
                "tasks": PERFECT,
                "pool": PERFECT,
                "cube": "287496",
            },
        ),
        (
            "torchrun",
            "processes.py",
            {"loop": PERFECT, "processes": PERFECT, "join": "True False", "pool": PERFECT},
        ),
    ],
)
def test_a_program_of_a_source(command: str, script: str, expected: dict[str, str], tmp_path: Path, here: Path) -> None:
    hosts = here / "hosts.yml"
    hosts.write_text(hosts.read_text().replace(sys.executable, str(NODE)))
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(PROGRAMS / script, folder)
    done = running.typed(folder, command, f"--inventory={here}", "--workers=1", "--no-environment", script)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.rpartition("| ")[2].partition(" ") for line in done.stdout.splitlines()]
    assert {name: said for name, _, said in lines if name in expected} == expected
