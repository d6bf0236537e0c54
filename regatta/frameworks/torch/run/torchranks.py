"""Lets ranks of a script share the work as their library can, and marks that they have met in a process group.

Without a process group each rank does all the work, and torch says nothing: the supervisor warns of a missing mark. On
hosts without GPUs accelerate (and transformers' Trainer, by it) and Lightning let each rank train alone, unless
variables ask for more. They are set when the script imports such a library, unless they are set already.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from typing import Any, Dict, Iterator, Mapping

MARK, LOADED = ".joined", ".torch"
GROUPS = "torch.distributed.distributed_c10d"
ACCELERATE, COMPOSER, LIGHTNING = "accelerate", "composer", ("lightning.pytorch", "pytorch_lightning")


def watch() -> None:
    """Do this as soon as the script imports torch.distributed, or one of these libraries."""
    around = {"torch": loaded, GROUPS: marked, **dict.fromkeys((ACCELERATE, COMPOSER, *LIGHTNING), sharing)}
    importlib.import_module("regatta_imports").watch(around)


def mark(name: str) -> None:
    """Make an empty file in the run's scratch folder."""
    with contextlib.suppress(OSError, KeyError), open(os.path.join(os.environ["REGATTA_SCRATCH"], name), "w"):
        pass


@contextlib.contextmanager
def loaded(module: Any) -> Iterator[None]:
    """Mark the run once this process has imported torch."""
    yield
    mark(LOADED)


@contextlib.contextmanager
def marked(module: Any) -> Iterator[None]:
    """Mark the run once this process has joined a process group."""
    yield
    join = module.init_process_group

    @functools.wraps(join)
    def init_process_group(*args: Any, **more: Any) -> Any:
        joined = join(*args, **more)
        mark(MARK)
        return joined

    module.init_process_group = init_process_group


@contextlib.contextmanager
def sharing(module: Any) -> Iterator[None]:
    """Set what a library needs here, and name it once."""
    yield
    name = module.__name__
    found = {key: value for key, value in needed(name, os.environ, gpus()).items() if key not in os.environ}
    os.environ.update(found)
    if found and os.environ.get("RANK") == "0":
        words = " ".join(f"{key}={value}" for key, value in found.items())
        sys.stderr.write(f"regatta: {words}: so the ranks share the work under {name.partition('.')[0]}\n")


def gpus() -> bool:
    """Whether torch, which such a library has loaded, finds a GPU."""
    torch = sys.modules.get("torch")
    kinds = [getattr(torch, name, None) for name in ("cuda", "xpu")]
    return any(kind is not None and kind.is_available() for kind in kinds)


def needed(name: str, env: Mapping[str, str], has_gpus: bool) -> Dict[str, str]:
    """Return the variables that make a library share the work of the ranks; none where they would be wrong."""
    ranks, here, hosts = (int(env.get(key, 1)) for key in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"))
    if ranks == 1:
        return {}
    if name == COMPOSER:
        return {"NODE_RANK": env.get("GROUP_RANK", "0")}
    if has_gpus:
        return {}
    if name == ACCELERATE:
        return {"ACCELERATE_USE_CPU": "true"}
    if here * hosts != ranks:  # Lightning needs as many ranks on each host
        return {}
    asked = {"ACCELERATOR": "cpu", "STRATEGY": "ddp", "DEVICES": str(here), "NUM_NODES": str(hosts)}
    return {f"PL_TRAINER_{key}": value for key, value in asked.items()}
