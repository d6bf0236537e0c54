"""A workload's card, as values: its options, which of them do not go together, its group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regatta_protocol import cards
from regatta_protocol.cards import Fault, Option
from workloads.common.part import Group


@dataclass(frozen=True)
class Card:
    """`items`: it is a function over items; `search`: trials of a function. Else it is made of parts: `group` is how
    they talk to each other while `grouped` holds, None: they do not."""

    description: str
    options: tuple[Option, ...]
    faults: tuple[Fault, ...] = ()
    group: Group | None = None
    grouped: Mapping[str, Any] = field(default_factory=dict)
    items: bool = False
    search: bool = False

    def fault(self, given: Mapping[str, Any], framework: str) -> str | None:
        """Return what is wrong with options that do not go together, as one sentence; None where they do."""
        return cards.fault(self.faults, given, framework)

    def group_of(self, given: Mapping[str, Any]) -> Group | None:
        """Return how the parts of a run with these options talk to each other; None: not at all."""
        return self.group if cards.holds(self.grouped, given) else None
