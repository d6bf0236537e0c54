"""Trainings without torch's compiler, which is there for whoever asks for it."""

from pathlib import Path

import pytest
from launching import PROJECT, Ended, python

pytestmark = pytest.mark.frameworks

TRAINED = """
import sys
import torch
from torch import distributed as dist
from workloads.common import training, gradients

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for compress in (gradients.NONE, gradients.BF16, gradients.POWERSGD):
    for kind in (torch.optim.SGD, torch.optim.Adam):
        model = torch.nn.Linear(3, 2)
        optimizer = kind(model.parameters(), lr=0.1, fused=True)
        trained = gradients.Exchanged(model, compress)
        for _ in range(gradients.WHOLE_STEPS + 2):
            with trained.no_sync():
                trained(torch.ones(4, 3)).sum().backward()
            trained(torch.ones(4, 3)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        optimizer.load_state_dict(optimizer.state_dict())
dist.destroy_process_group()
print([name for name in sys.modules if name.startswith("torch._dynamo.")])
"""

COMPILED = """
print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)))
import torch._dynamo.utils
assert sys.modules["torch._dynamo"] is torch._dynamo
assert sys.modules["torch._dynamo.utils"] is torch._dynamo.utils
"""


def run(folder: Path, program: str) -> Ended:
    (folder / "program.py").write_text(program)
    return python(str(folder / "program.py"), OMP_NUM_THREADS="1", PYTHONPATH=str(PROJECT))


def test_a_training_imports_nothing_of_the_compiler(tmp_path: Path) -> None:
    done = run(tmp_path, TRAINED)
    assert done.out == "[]\n", done.err


@pytest.mark.whole
@pytest.mark.parametrize(
    "first",
    [
        "pass",
        "import torch._dynamo.config; assert torch._dynamo.config.recompile_limit",
        "from torch._dynamo import utils; assert utils.counters is not None",
        "assert torch._dynamo.is_compiling() is False",
    ],
)
def test_the_compiler_is_imported_where_it_is_asked_for(tmp_path: Path, first: str) -> None:
    done = run(tmp_path, f"{TRAINED}\n{first}\n{COMPILED}")
    assert done.out == "[]\ntensor([2.])\n", done.err
