"""Values as JSON has them."""

import math
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

_AS_THEY_ARE = {str, int, bool}


def plain(value: Any) -> Any:
    """`value` as JSON has it: lists for tuples, objects for Regatta's types, strings for NaN and infinities.

    Fields that are UNSET are left out.
    """
    kind = type(value)
    if value is None or kind in _AS_THEY_ARE:
        return value
    if kind is float or isinstance(value, float):
        return value if math.isfinite(value) else _odd(value)
    if kind is dict or isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if kind is list or isinstance(value, list | tuple):
        return [plain(item) for item in value]
    names = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", ())
    return {name: plain(at) for name in names if (at := getattr(value, name)) is not UNSET} if names else value


def _odd(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
