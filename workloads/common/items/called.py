"""The function of a user's project, as workers call it."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.common.events import BadInput


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


def source_of(name: str) -> bytes:
    """The source of the module of ``module:function``. Raises :class:`BadInput` where there is none."""
    module = name.partition(":")[0]
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise BadInput(f"function {name}: there is no module {module} in the project: correct the card")
    return Path(spec.origin).read_bytes()
