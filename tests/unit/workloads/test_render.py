"""Films: the published one's steps by structure, and what the render farm refuses. Frames themselves: tests/lab."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from launching import python

from workloads.common.events import BadInput
from workloads.render import work as render
from workloads.render_words import work as words


@dataclass(frozen=True)
class Step:
    """A task that is not done: when it could be at the soonest, if each takes a unit."""

    ends: int
    what: str


class Soonest:
    """A graph that only looks at who needs whom."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def submit(self, function: Any, *arguments: Any) -> Step:
        """See `Graph`."""
        needs = [one.ends for one in arguments if isinstance(one, Step)]
        self.steps.append(Step(1 + max(needs, default=0), type(function).__name__))
        return self.steps[-1]

    def get(self, task: Step) -> bytes:
        """See `Graph`."""
        return b""


def test_the_film_of_words_has_40_units_in_series_and_11_spread() -> None:
    graph = Soonest()
    film = words.film(graph, words.Options(pictures=10, seconds=1.0))
    assert len(film.frames) == 10
    assert len(graph.steps) == 40
    assert max(step.ends for step in graph.steps) == 11
    at_once = [sum(step.ends == unit for step in graph.steps) for unit in range(1, 12)]
    assert max(at_once) == 4, "a worker for each word and one that draws are enough"


def test_words_end_in_the_middle_whatever_the_number_of_pictures() -> None:
    for pictures in (1, 7, 10):
        move, at, to = words.Move(0), (20.0, 190.0), (160.0, 140.0)
        for left in range(pictures, 0, -1):
            at = move(at, to, left)
        assert at == pytest.approx(to)


def test_films_are_of_frameworks_that_run_graphs() -> None:
    run = python("-m", "workloads.render_words", "--framework=torch")
    assert run.status == 2 and "torch runs no graphs" in run.of("error")[0]["message"]


def test_odd_sizes_are_refused_before_a_frame_is_rendered() -> None:
    with pytest.raises(BadInput, match="320 x 241: width and height must be even"):
        render.work(render.Options(10, 320, 241, 16, 0, 1))
    assert len(render.work(render.Options(10, 320, 240, 16, 0, 1)).items) == 10


def test_a_host_without_a_library_of_mitsubas_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As drjit does it where libatomic is missing: what has failed is hidden by what it then does."""
    hidden = (
        "try:\n    raise ImportError('libatomic.so.1: cannot open')\nexcept ImportError:\n    _drjit_ext.__file__\n"
    )
    (tmp_path / "drjit.py").write_text(hidden)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        BadInput, match=r"Mitsuba cannot be loaded here: libatomic\.so\.1: cannot open; 'regatta provision'"
    ):
        render.frame(render.Options(1, 2, 2, 1, 0, 1), 0)


def test_tasks_of_a_length_take_so_much_of_a_processor() -> None:
    words = ("-m", "workloads.task_length", "--tasks=20", "--milliseconds=20")
    alone = python(*words)
    assert alone.answer == {"tasks": 20, "sum": 190, "milliseconds": 20.0}
    assert alone.of("cpu")[0]["seconds"] >= 0.4
    assert python(*words, "--framework=multiprocessing", REGATTA_WORKERS="2").answer == alone.answer
