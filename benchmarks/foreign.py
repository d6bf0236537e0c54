"""python -m benchmarks.foreign INVENTORY EXAMPLES [NAME...]: programs that were not written for Regatta, as they are.

EXAMPLES is a checkout of github.com/pytorch/examples. Each program runs on the cluster from its own folder, with
nothing but its device changed (CPU instead of CUDA, gloo instead of nccl). Prints seconds from the command to its end.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import shell
from regatta.paths import PROJECT

OWN = Path(__file__).parent / "programs"
REGATTA = Path(sys.executable).with_name("regatta")
Edit = tuple[str, str, str]
"""File, what is there, what is there instead."""

_ENOUGH: Sequence[tuple[str, str]] = (("has_gpu and gpu_count >= min_gpus", "True"),)


@dataclass(frozen=True)
class Program:
    """A program: its folder, what is changed in it, the command, and a word of its output that says it did its work.

    `folder`: below the examples, or `OWN`, or Ray's own package. `files`: only those, without: all of the folder.
    `requirements`: lines of a list that is put next to it.
    """

    name: str
    folder: str
    command: Sequence[str]
    proof: str
    edits: Sequence[Edit] = ()
    files: Sequence[str] = ()
    requirements: Sequence[str] = ()


PROGRAMS = (
    Program(
        "PyTorch multinode.py, 3 ranks",
        "distributed/ddp-tutorial-series",
        ("torchrun", "--workers", "3", "multinode.py", "3", "1"),
        "Training snapshot saved",
        (
            ("multinode.py", 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))', "pass"),
            ("multinode.py", 'backend="nccl"', 'backend="gloo"'),
            ("multinode.py", ".to(self.local_rank)", '.to("cpu")'),
            ("multinode.py", ", device_ids=[self.local_rank]", ""),
            ("multinode.py", 'f"cuda:{self.local_rank}"', '"cpu"'),
        ),
        ("multinode.py", "datautils.py"),
    ),
    Program(
        "PyTorch minGPT-ddp, 3 ranks, its requirements.txt",
        "distributed/minGPT-ddp",
        (
            *("torchrun", "--workers", "3", "mingpt/main.py"),
            *("data_config.path=mingpt/data/input.txt", "data_config.truncate=0.002", "data_config.block_size=32"),
            *("gpt_config.n_layer=2", "gpt_config.n_head=2", "gpt_config.n_embd=64", "trainer_config.max_epochs=2"),
            *("trainer_config.save_every=1", "trainer_config.use_amp=false", "trainer_config.data_loader_workers=0"),
        ),
        "Snapshot saved at epoch 2",
        (
            *(("mingpt/main.py", *one) for one in _ENOUGH),
            ("mingpt/main.py", "acc = torch.accelerator.current_accelerator()", "pass"),
            ("mingpt/main.py", 'device: torch.device = torch.device(f"{acc}:{rank}")', "pass"),
            ("mingpt/main.py", "torch.distributed.get_default_backend_for_device(device)", '"gloo"'),
            ("mingpt/main.py", "torch.accelerator.set_device_index(rank)", "pass"),
            ("mingpt/trainer.py", "torch.accelerator.current_accelerator()", '"cpu"'),
            ("mingpt/trainer.py", 'f"{self.acc}:{self.local_rank}"', '"cpu"'),
            ("mingpt/trainer.py", ".to(self.local_rank)", '.to("cpu")'),
            ("mingpt/trainer.py", ", device_ids=[self.local_rank]", ""),
        ),
    ),
    Program(
        "PyTorch tensor parallel, 2 ranks",
        "distributed/tensor_parallelism",
        ("torchrun", "--workers", "2", "tensor_parallel_example.py"),
        "Tensor Parallel training completed",
        (
            *(("log_utils.py", *one) for one in _ENOUGH),
            ("tensor_parallel_example.py", "torch.accelerator.current_accelerator().type", '"cpu"'),
        ),
        ("tensor_parallel_example.py", "log_utils.py"),
    ),
    Program(
        "PyTorch ddp_rpc/main.py, 4 processes of one host",
        "distributed/rpc/ddp_rpc",
        ("torchrun", "--workers", "1", "main.py"),
        "Distributed RPC example completed successfully",
        (
            *(("main.py", *one) for one in _ENOUGH),
            ("main.py", "acc = torch.accelerator.current_accelerator()", 'acc = "cpu"'),
            ("main.py", "torch.distributed.get_default_backend_for_device(device)", '"gloo"'),
            ("main.py", "torch.accelerator.device_index(rank)", "pass"),
            ("main.py", "torch.nn.Linear(16, 8).to(rank)", "torch.nn.Linear(16, 8)"),
            ("main.py", "emb_lookup.to(self.rank)", "emb_lookup"),
            ("main.py", ".random_(8).to(rank)", ".random_(8)"),
        ),
        ("main.py",),
    ),
    Program(
        "accelerate over scikit-learn's digits, 3 ranks",
        str(OWN),
        ("torchrun", "--workers", "3", "digits_accelerate.py"),
        "3 processes, accuracy 0.8",
        files=("digits_accelerate.py",),
        requirements=("accelerate", "scikit-learn"),
    ),
    Program(
        "scikit-learn's search by joblib on Ray",
        str(OWN),
        ("rayrun", "search_joblib.py"),
        "best of 12: 0.9",
        files=("search_joblib.py",),
        requirements=("scikit-learn", "joblib"),
    ),
    Program(
        "Ray Tune async_hyperband_example.py",
        "ray:tune/examples",
        ("rayrun", "async_hyperband_example.py", "--smoke-test"),
        "Best hyperparameters found:",
        files=("async_hyperband_example.py",),
    ),
    Program(
        "Ray Tune pbt_function.py",
        "ray:tune/examples",
        ("rayrun", "pbt_function.py", "--smoke-test"),
        "Best hyperparameters found were",
        files=("pbt_function.py",),
    ),
)


def prepare(program: Program, examples: Path, ray: Path, folder: Path) -> None:
    """Put the program into an empty folder, its device changed. BenchError where it is not what is known."""
    place, _, below = program.folder.rpartition(":")
    source = ray / below if place else Path(examples, program.folder)
    if not source.is_dir():
        raise shell.BenchError(f"{source} is no folder: EXAMPLES is a checkout of github.com/pytorch/examples")
    if program.files:
        for name in program.files:
            shutil.copy(source / name, folder / name)
    else:
        shutil.copytree(source, folder, dirs_exist_ok=True)
    for name, there, instead in program.edits:
        text = (folder / name).read_text()
        if there not in text:
            raise shell.BenchError(f"{source / name} has no '{there}': it is another version than the known one")
        (folder / name).write_text(text.replace(there, instead))
    if program.requirements:
        (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in program.requirements))


def ray_package() -> Path:
    """Return where Ray is installed for inventory/local."""
    return next((PROJECT / ".venv-node").glob("lib/python3*/site-packages/ray"))


def main() -> None:
    """Runs each and prints a table: the first start, the second."""
    inventory, examples, *names = sys.argv[1:]
    where = {"REGATTA_INVENTORY": str(Path(inventory).resolve())}
    failed = False
    for program in PROGRAMS:
        if names and not any(name in program.name for name in names):
            continue
        with tempfile.TemporaryDirectory(prefix="foreign-", dir=os.environ.get("TMPDIR")) as temporary:
            folder = Path(temporary)
            prepare(program, Path(examples), ray_package(), folder)
            done = [shell.run([REGATTA, *program.command], env=where, cwd=folder, check=False) for _ in range(2)]
        for one in done:
            if one.code or program.proof not in one.output:
                failed = True
                print(
                    f"{program.name}: ended with {one.code}, without '{program.proof}'\n{shell.last_lines(one.output)}"
                )
        print(f"| {program.name} | {done[0].seconds:.1f} s | {done[1].seconds:.1f} s |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
