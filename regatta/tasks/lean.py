"""Imports Invoke without `unittest.mock`, which brings asyncio and ssl: a quarter of a command's own start.

Only Invoke's MockContext needs it, and nothing here uses that. Whoever imports this first has the shorter start.
"""

import importlib
import sys
from types import ModuleType

_MOCKS = "unittest.mock"


def _import_invoke() -> None:
    if _MOCKS in sys.modules or "invoke" in sys.modules:
        return
    empty = ModuleType(_MOCKS)
    vars(empty)["Mock"] = None
    sys.modules[_MOCKS] = empty
    try:
        importlib.import_module("invoke")
    finally:
        del sys.modules[_MOCKS]


_import_invoke()
