"""Lets a test report what it saw."""

from dataclasses import replace

import pytest
from outcomes import Cell


class Teller:
    """Takes what a test saw; `untested` says why a fault cannot be struck here."""

    def __init__(self) -> None:
        self.cell: Cell | None = None

    def begin(self, family: str, fault: str, framework: str) -> None:
        """Name the fault before anything may fail."""
        self.cell = Cell(family, fault, framework, "")

    def end(self, outcome: str, message: str = "", seconds: float | None = None) -> None:
        """Say what came of it."""
        assert self.cell is not None
        self.cell = replace(self.cell, outcome=outcome, message=message, seconds=seconds)

    def untested(self, reason: str) -> None:
        """Keep the reason, and skip the test."""
        assert self.cell is not None
        self.cell = replace(self.cell, outcome=reason, tested=False)
        pytest.skip(reason)
