"""The function of a user's project, as workers call it."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Called:
    """Calls ``module:function`` with an item, and gives its result as JSON. Axes of a grid are keyword arguments."""

    name: str
    options: Mapping[str, Any]
    keywords: bool

    def __call__(self, item: Any) -> str:
        """The result of an item. Raises what the function raises, and TypeError for what is no JSON."""
        function = _found(self.name)
        made = function(**item, **self.options) if self.keywords else function(item, **self.options)
        return json.dumps(made)


@functools.cache
def _found(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)
