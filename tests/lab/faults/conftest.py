"""Faults: each test strikes one and tells what came of it; with REGATTA_FAULTS=FILE all that is kept there."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import outcomes
from clusters import Cluster
from outcomes import Cell
from scripts import write_project
from telling import Teller


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Let the fixture know how its test has ended; one that was interrupted has not."""
    report = yield
    if report.when == "call" and not report.skipped:
        item.stash[PASSED] = report.passed
    return report


PASSED = pytest.StashKey[bool]()


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Iterator[Teller]:
    """The place for a test to report what it saw."""
    teller = Teller()
    yield teller
    passed = request.node.stash.get(PASSED, None)
    if teller.cell is not None and (passed is not None or not teller.cell.tested):
        keep(replace(teller.cell, passed=passed is not False))


def keep(cell: Cell) -> None:
    """Write down what a test told, at once: what has been seen outlives tests that are interrupted."""
    if file := os.environ.get("REGATTA_FAULTS"):
        outcomes.save(Path(file), [cell])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of scripts to strike."""
    return write_project(tmp_path / "project")


@pytest.fixture(scope="session")
def struck(cluster: Cluster) -> Iterator[Cluster]:
    """The shared cluster, all of it up."""
    cluster.fab("up")
    yield cluster
