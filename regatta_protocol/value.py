"""Immutable values with typed fields, as frozen dataclasses are: those take a process more time at its start."""

import functools
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Dict, NamedTuple, TypeVar, get_origin, get_type_hints

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """For type checkers only."""
        return lambda kind: kind


_Same = TypeVar("_Same", bound="Value")
_NONE = object()


class Field(NamedTuple):
    """The type of a field, and its default."""

    kind: Any
    default: Any

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is _NONE


@dataclass_transform(frozen_default=True)
class Value:
    """The annotated names of a class and of those that it extends are its fields, in their order.

    A module with such classes has no `from __future__ import annotations`: annotations must be objects.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        """Raises TypeError as a function with these arguments does."""
        kind: Any = type(self)
        names = fields(kind)
        own = dict(zip(names, given))  # noqa: B905 (Python 3.9)
        if len(given) > len(names) or own.keys() & named.keys() or named.keys() - names.keys():
            raise TypeError(f"{type(self).__name__} takes {', '.join(names)}, each once, not {given} and {named}")
        own.update(named)
        for name, field in names.items():
            value = own.get(name, field.default)
            if value is _NONE:
                raise TypeError(f"{type(self).__name__} needs {name}")
            self.__dict__[name] = value

    def changed(self: _Same, **named: Any) -> _Same:
        """The same with other values of these fields."""
        return type(self)(**{**vars(self), **named})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"


@functools.lru_cache(maxsize=None)
def fields(kind: Any) -> Dict[str, Field]:
    """The fields of a class of values, by name; of other classes none."""
    if not (isinstance(kind, type) and issubclass(kind, Value)):
        return {}
    hints = get_type_hints(kind, include_extras=True)
    own = {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}
    return {sys.intern(name): Field(hint, getattr(kind, name, _NONE)) for name, hint in own.items()}
