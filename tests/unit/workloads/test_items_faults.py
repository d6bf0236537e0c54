"""Items that raise, hang, end their worker or give what cannot be pickled; and very many of them."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from launching import PROJECT, Ended, python

from workloads.common.cardfile import whole
from workloads.common.failures import WorkerFailed
from workloads.common.framework import How
from workloads.common.frameworks import multiprocessing as pool
from workloads.common.items.work import Doing, Task

pytestmark = pytest.mark.frameworks

CARD = """
about = "Items that make trouble"
module = "troubles"
frameworks = ["single"]
include = ["items"]

[options.how]
kind = "text"
default = "well"

[options.items]
kind = "whole number"
default = 40
least = 0

[options.folder]
kind = "path"
default = "."
"""
WORK = """
import functools
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from workloads.common.items.work import Work

TOLERANCE = {}


@dataclass(frozen=True)
class Options:
    how: str
    items: int
    folder: str


def make(options, item):
    if item == 23 and options.how == "raise":
        raise ValueError("no such boat")
    if item == 23 and options.how == "raise once":
        mark = Path(options.folder, "tried")
        if not mark.exists():
            mark.touch()
            raise ValueError("no such boat")
    if item == 23 and options.how == "hang":
        time.sleep(1000)
    if item == 23 and options.how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if item == 23 and options.how == "exit":
        os._exit(7)
    if item == 23 and options.how == "lambda":
        return lambda: None
    return item


def work(options):
    return Work(functools.partial(make, options), range(options.items))


def combine(options, results):
    return {"sum": sum(results), "in order": results == list(range(options.items))}, []
"""
GUARDED = """
from workloads.common import command

if __name__ == "__main__":
    command.main("troubles")
"""
BARE = """
from workloads.common import command

command.main("troubles")
"""
Runs = Callable[..., Ended]
HERE = ("single", "multiprocessing", "processes", "joblib-loky")
IN_RAY = ("ray", "ray-actors", "ray-pool", "joblib-ray")


@pytest.fixture
def troubles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Runs a workload of items that does what the option `how` says with the item 23."""
    package = tmp_path / "troubles"
    package.mkdir()
    for name, text in {"__init__.py": "", "card.toml": CARD, "work.py": WORK, "__main__.py": GUARDED}.items():
        (package / name).write_text(text)
    path = f"{PROJECT}:{tmp_path}"

    def run(name: str, how: str, *words: str, **environment: str) -> Ended:
        own = {"REGATTA_WORKERS": "2", "PYTHONPATH": path, **environment}
        words = (f"--framework={name}", f"--how={how}", f"--folder={tmp_path}", "--chunk=5", *words)
        return python("-m", "troubles", *words, **own, timeout=120)

    return run


def failed(run: Ended, *said: str) -> None:
    """It ended with status 1, gave no result, and said this."""
    assert run.status == 1, run.err
    assert not run.of("result")
    for text in said:
        assert text in run.err, run.err


@pytest.mark.parametrize("name", HERE)
def test_the_first_item_that_raises_ends_all_and_is_named(name: str, troubles: Runs) -> None:
    failed(troubles(name, "raise"), "item 24 of 40, 23, failed: ValueError: no such boat", "Traceback")


@pytest.mark.parametrize("name", IN_RAY)
def test_so_it_does_under_ray(name: str, troubles: Runs, ray_cluster: dict[str, str]) -> None:
    run = troubles(name, "raise", **ray_cluster)
    failed(run, "item 24 of 40, 23, failed: ValueError: no such boat", "Traceback")
    (event,) = run.of("failed")
    assert event["of"] in (0, 1) and event["address"]


@pytest.mark.parametrize("name", HERE[1:])
@pytest.mark.parametrize(("how", "said"), [("die", "SIGKILL"), ("exit", "7")])
def test_a_worker_that_ends_is_not_waited_for(name: str, how: str, said: str, troubles: Runs) -> None:
    failed(troubles(name, how), "a worker process", said)


@pytest.mark.timeout(60)
def test_a_worker_that_ends_at_once_is_not_overlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    look = multiprocessing.active_children
    monkeypatch.setattr(multiprocessing, "active_children", lambda: (time.sleep(0.5), look())[1])
    task = Task(0, [int(signal.SIGKILL)])
    with (
        pytest.raises(WorkerFailed, match="was killed by SIGKILL"),
        pool.spread(Doing(signal.raise_signal), iter([task]), How()) as results,
    ):
        list(results)


@pytest.mark.parametrize("name", IN_RAY)
def test_nor_is_one_of_ray(name: str, troubles: Runs, ray_cluster: dict[str, str]) -> None:
    run = troubles(name, "die", **ray_cluster)
    failed(run, "died")
    assert "is lost" in run.of("warning")[0]["message"]


@pytest.mark.parametrize("name", ["multiprocessing", "processes"])
def test_a_result_that_cannot_be_pickled_is_named(name: str, troubles: Runs) -> None:
    failed(troubles(name, "lambda"), "item 24 of 40, 23, failed: its result, <function", "cannot be pickled")


def test_an_item_may_take_so_long(troubles: Runs) -> None:
    failed(troubles("multiprocessing", "hang", "--item-seconds=0.2"), "TimeoutError: took more than 0.2 s")


def test_an_item_that_raises_is_tried_again(troubles: Runs, tmp_path: Path) -> None:
    run = troubles("multiprocessing", "raise once", "--retries=1")
    assert run.status == 0 and run.answer == {"sum": 780, "in order": True}
    assert (tmp_path / "tried").exists() and "no such boat" in run.err


@pytest.mark.parametrize("name", ["multiprocessing", "processes"])
def test_spawn_without_a_main_guard_ends_with_a_word(name: str, troubles: Runs, tmp_path: Path) -> None:
    assert troubles(name, "well", "--start=spawn").answer == {"sum": 780, "in order": True}
    script = tmp_path / "bare.py"
    script.write_text(BARE)
    words = (f"--framework={name}", "--start=spawn")
    run = python(str(script), *words, PYTHONPATH=f"{PROJECT}:{tmp_path}", REGATTA_WORKERS="2", timeout=120)
    failed(run, 'below `if __name__ == "__main__":`')


def test_a_million_items_and_none(troubles: Runs) -> None:
    many = troubles("multiprocessing", "well", "--items=1000000", "--chunk=5000")
    assert many.answer == {"sum": 499999500000, "in order": True}
    assert troubles("multiprocessing", "well", "--items=0").answer == {"sum": 0, "in order": True}


def test_chunks_have_an_item_at_least(troubles: Runs) -> None:
    run = troubles("single", "well", "--chunk=0")
    assert run.status == 2 and "--chunk" in run.of("error")[0]["message"]
    assert whole(PROJECT / "workloads/perfect/card.toml")["options"]["chunk"]["least"] == 1
