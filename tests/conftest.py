"""For all tests: their cost is reported, and Ctrl-C works in what they start, also from the background of a shell."""

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# `make fuzz` takes the thorough one; tests that set their own number keep it.
_AT_EASE = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=100, **_AT_EASE)
settings.register_profile("thorough", max_examples=10_000, **_AT_EASE)
settings.load_profile("quick")

# A shell starts background jobs with SIGINT ignored, and programs inherit that; they do not inherit a Python handler.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Costs:
    """Seconds of each test, and what was left out; kept in the file that `$REGATTA_TEST_TIMES` names."""

    def __init__(self) -> None:
        self.place = Path(os.environ["REGATTA_TEST_TIMES"]) if "REGATTA_TEST_TIMES" in os.environ else None
        self.tests: Counter[str] = Counter()
        self.skipped: dict[str, str] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Say which test runs now."""
        if self.place:
            self.place.with_suffix(".now").write_text(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up setting up, the test and cleaning up."""
        self.tests[report.nodeid] += report.duration
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skipped[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the files that took longer than they should: what it says is no failure."""
        files: Counter[str] = Counter()
        for name, seconds in self.tests.items():
            files[name.partition("::")[0]] += seconds
        for name, seconds in files.most_common():
            if seconds > (budget := seconds_for(name)):
                said = f"over its budget: {name} took {seconds:.0f} s of {budget} (tests/budget.json)"
                terminalreporter.write_line(said)
        if self.place:
            counts = {word: len(found) for word, found in terminalreporter.stats.items() if word and found}
            said = ", ".join(
                f"{counts[word]} {word}" for word in ("passed", "failed", "error", "skipped") if word in counts
            )
            told = {"tests": self.tests, "skipped": self.skipped, "counts": said}
            self.place.write_text(json.dumps(told))


def seconds_for(file: str) -> int:
    """A file's budget, from tests/budget.json: its own, or that of the longest folder that has one."""
    known: dict[str, int] = json.loads(BUDGET.read_text())
    return known[max((name for name in known if file.startswith(name)), key=len)]


BUDGET = Path(__file__).with_name("budget.json")


def pytest_configure(config: pytest.Config) -> None:
    """One process counts, also where several test."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Costs())
