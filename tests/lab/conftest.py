"""Real hosts for tests: `cluster` (three provisioned ones, shared by the session) and `make_lab` (bare ones)."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


from lab.handle import LabHandle, lab_command, read_lab

sys.path.insert(0, str(Path(__file__).resolve().parent))
import leftovers
import life
import proven
from clusters import Cluster
from provisioning import play, with_spark

PATIENCE = 2400
"""Seconds for a test on a busy machine; the first one may have to provision the shared cluster."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder `lab`; what ends a cluster's life comes last, what is proven is skipped."""
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.lab)
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PATIENCE))
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)
    if life.fresh():
        return
    for item in [item for item in ours if item.get_closest_marker("provisioning") and Path("/usr/bin/dpkg").exists()]:
        if passed := proven.passed(item.nodeid, item.path):
            item.add_marker(pytest.mark.skip(reason=f"passed on {passed} for what provisioning reads now"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Keep which tests of provisioning have passed."""
    report = yield
    if report.when == "call" and report.passed and item.get_closest_marker("provisioning"):
        proven.keep(item.nodeid, item.path)
    return report


@pytest.fixture(scope="session", autouse=True)
def ended_by_signals(lab_possible: None) -> Iterator[None]:
    """SIGTERM and SIGHUP end the tests as Ctrl-C does: what they made is removed."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def records_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Records that belong to no test are not kept in the checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGATTA_RESULTS", str(tmp_path_factory.mktemp("results")))
        yield


@pytest.fixture(scope="session")
def lab_possible() -> None:
    """Skip where the machine cannot run a lab; fail instead where it must."""
    done = lab_command("check")
    if done.returncode:
        if os.environ.get("CI") or os.environ.get("REGATTA_REQUIRE_LAB") == "1":
            pytest.fail(done.stdout)
        pytest.skip(done.stdout)


@pytest.fixture(scope="session")
def lab_names(ended_by_signals: None) -> Iterator[Iterator[str]]:
    """Names `t<pid><letter>` for labs of this session; whatever is left of such a lab is removed in the end."""
    leftovers.remove()
    used: list[str] = []

    def names() -> Iterator[str]:
        for letter in LETTERS:
            used.append(f"t{os.getpid()}{letter}")
            yield used[-1]

    try:
        yield names()
    finally:
        failed = []
        for name in used:
            done = lab_command("down", "--name", name)
            if done.returncode:
                failed.append(done.stdout)
        assert not failed, failed


@pytest.fixture(scope="session")
def make_lab(lab_names: Iterator[str]) -> Callable[..., LabHandle]:
    """A function that makes a further lab: `make_lab(nodes=2, egress=False)`; removed when the session ends."""

    def make(
        *, nodes: int = 3, egress: bool = True, topology: str = "flat", cores: str | None = None, suite: str = ""
    ) -> LabHandle:
        for _ in range(3):
            name = next(lab_names)
            done = lab_command(
                "up",
                "--name",
                name,
                "--nodes",
                str(nodes),
                "--egress",
                "yes" if egress else "no",
                "--topology",
                topology,
                *(["--cores", cores] if cores else []),
                *(["--suite", suite] if suite else []),
            )
            if "choose another subnet" not in done.stdout:
                break
        assert done.returncode == 0, done.stdout
        return read_lab(name)

    return make


@pytest.fixture(scope="session")
def spark_lab(make_lab: Callable[..., LabHandle]) -> LabHandle:
    """Two hosts for tests of Spark. `$REGATTA_TEST_SPARK_LAB` names a lab to use instead."""
    name = os.environ.get("REGATTA_TEST_SPARK_LAB")
    return read_lab(name) if name else make_lab(nodes=2)


@pytest.fixture(scope="module")
def spark(spark_lab: LabHandle) -> Cluster:
    """They have Spark, whatever another module has done with them."""
    with_spark(spark_lab)
    play(spark_lab, "provision")
    made = Cluster(spark_lab)
    made.fab("runs-gc", "--before", "0m", "--yes")  # names of an earlier session's runs are free again
    return made


@pytest.fixture(scope="session")
def cluster(ended_by_signals: None) -> Iterator[Cluster]:
    """Three provisioned hosts without a way out, shared by the session: leave them running and as you found them.

    They come from the lab that is kept for what provisioning reads now. `$REGATTA_TEST_LAB` names a lab to use instead,
    which stays when the session ends: the next one starts at once.
    """
    wanted = life.key()
    if name := os.environ.get("REGATTA_TEST_LAB"):
        yield life.of_a_person(name, wanted)
        return
    for name in life.NAMES:
        with life.held(name) as free:
            try:
                if free and (made := life.begin(name, wanted, fresh=life.fresh())):
                    yield made
                    return
            finally:
                if free:
                    done = lab_command("down", "--name", name)
                    assert done.returncode == 0, done.stdout
    pytest.fail(f"the labs {', '.join(life.NAMES)} are all in use: end another session of tests")
