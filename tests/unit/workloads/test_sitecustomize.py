"""The start of a rank's Python before the user's script: regatta/node/sitecustomize_rank.py as its sitecustomize."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NODE = Path(__file__).parents[3] / "regatta" / "node"
PROGRAM = """
import gc, sys
assert "torch" not in sys.modules
from torch.distributed import distributed_c10d
print(distributed_c10d.default_pg_timeout.total_seconds(), gc.isenabled(), gc.get_freeze_count() > 100_000)
"""


def begin_as_ranks_do(folder: Path) -> None:
    shutil.copy(NODE / "sitecustomize_rank.py", folder / "sitecustomize.py")
    shutil.copy(NODE / "imports.py", folder / "regatta_imports.py")


def test_torch_has_a_timeout_and_costs_no_collections(tmp_path: Path) -> None:
    begin_as_ranks_do(tmp_path)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "REGATTA_PG_TIMEOUT": "33"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["33.0", "True", "True"], done.stderr


def test_numba_costs_no_collections(tmp_path: Path) -> None:
    begin_as_ranks_do(tmp_path)
    (tmp_path / "numba.py").write_text("import gc\nprint(gc.isenabled())")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "REGATTA_PG_TIMEOUT": "33"}
    program = "import gc, numba\nprint(gc.isenabled())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["False", "True"], done.stderr


def test_a_module_that_fails_to_load_leaves_the_collector_on(tmp_path: Path) -> None:
    begin_as_ranks_do(tmp_path)
    (tmp_path / "torch.py").write_text("raise ImportError('broken')")
    program = "import gc\ntry:\n import torch\nexcept ImportError as error:\n print(error, gc.isenabled())"
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "REGATTA_PG_TIMEOUT": "33"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["broken", "True"], done.stderr


def test_each_line_is_written_at_once_and_as_soon_as_it_is_complete(tmp_path: Path) -> None:
    begin_as_ranks_do(tmp_path)
    reading, writing = os.pipe2(os.O_DIRECT)  # a read returns what one write wrote
    program = "import os\nprint('one', 2)\nprint('three', end='')\nos.write(1, b'between')\nprint()\nos._exit(0)"
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    subprocess.run([sys.executable, "-c", program], env=env, stdout=writing, timeout=60, check=True)
    os.close(writing)
    assert [os.read(reading, 100) for _ in range(4)] == [b"one 2\n", b"between", b"three\n", b""]
    os.close(reading)


MEETING = """
import os, sys
import torch.distributed as dist
{changed}
dist.init_process_group("gloo"{options})
"""


@pytest.mark.parametrize(
    ("changed", "options", "said"),
    [
        ("os.environ['MASTER_ADDR'] = 'localhost'", "", "train.py:4 sets MASTER_ADDR=localhost"),
        ("os.environ.update(RANK='0')", "", "train.py:5 sets RANK=0, and rank 1 was given RANK=1"),
        ("", ", init_method='tcp://127.0.0.1:29500', rank=1, world_size=2", "train.py:5 lets ranks of several hosts"),
        ("", ", rank=0, world_size=2", "train.py:5 gives rank=0, and rank 1 was given RANK=1"),
        ("", "", ""),
    ],
    ids=["address", "rank", "method", "number", "nothing"],
)
def test_a_script_that_sets_another_meeting_place_is_warned_of(
    tmp_path: Path, changed: str, options: str, said: str
) -> None:
    begin_as_ranks_do(tmp_path)
    shutil.copy(NODE / "meeting.py", tmp_path / "regatta_meeting.py")
    (tmp_path / "train.py").write_text(MEETING.format(changed=changed, options=options))
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "REGATTA_PG_TIMEOUT": "0.5", "RANK": "1", "WORLD_SIZE": "2"}
    env |= {"LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.2", "MASTER_PORT": "29499"}
    done = subprocess.run(
        [sys.executable, "train.py"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    ours = [line for line in done.stderr.splitlines() if line.startswith("regatta: ")]
    assert done.returncode != 0 and len(ours) == bool(said), done.stderr
    assert said in "".join(ours)
