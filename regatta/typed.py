"""A value from outside as one of our types: msgspec says what is wrong with it, this says where, key by key."""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, inspect

from regatta_protocol.decoding import FaultError, Step

_Made = TypeVar("_Made")
_Struct = TypeVar("_Struct", bound=Struct)
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_PLACE = re.compile(r"(.*) - at (?:`key` in )?`\$([^`]*)`", re.DOTALL)
_LACKING = re.compile(r"Object missing required field `(.*)`")


def convert(value: Any, to: type[_Made]) -> _Made:
    """A JSON value as the type `to`. Raises FaultError with the first fault."""
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError as error:
        said, place = found.groups() if (found := _PLACE.fullmatch(str(error))) else (str(error), "")
        raise FaultError([*_steps(value, to, str(error), place)], _words(said)) from None
    except (UnicodeEncodeError, RecursionError) as error:
        raise FaultError((), str(error)) from None


def whole(value: Any, to: type[_Struct], *, partial: tuple[type, ...] = ()) -> _Struct:
    """As `convert`, but keys must be there even where the type has a default, except those of `partial` types."""
    made = convert(value, to)
    if fault := _lacking(made, value, partial):
        raise FaultError(*fault)
    return made


def _lacking(made: Struct, given: Mapping[str, Any], partial: tuple[type, ...]) -> tuple[tuple[Step, ...], str] | None:
    """The first key that `given` lacks, of which `made` was made: where, and the words for it."""
    names = made.__struct_fields__
    if len(given) < len(names) and not isinstance(made, partial):
        return (), _lack(next(name for name in names if name not in given))
    for name in _nesting(type(made)):
        inner, below = getattr(made, name), given.get(name)
        if isinstance(inner, tuple):
            for index, (one, part) in enumerate(zip(inner, below or (), strict=False)):
                if fault := _lacking(one, part, partial):
                    return (name, index, *fault[0]), fault[1]
        elif inner is not None and below is not None and (fault := _lacking(inner, below, partial)):
            return (name, *fault[0]), fault[1]
    return None


@functools.cache
def _nesting(kind: type[Struct]) -> tuple[str, ...]:
    """The fields of a struct that hold one, or a tuple of them."""
    return tuple(one.name for one in inspect.type_info(kind).fields if _holds(one.type))  # type: ignore[attr-defined]


def _holds(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return any(map(_holds, kind.types))
    return isinstance(kind.item_type if isinstance(kind, inspect.VarTupleType) else kind, inspect.StructType)


def _steps(value: Any, to: type, said: str, place: str) -> Iterator[Step]:
    """The steps of msgspec's place, in which a key of a mapping is `[...]`: here by its name."""
    here = value
    for name, index in _STEP.findall(place):
        step: Step = name or index
        if index == "...":
            step = next((key for key in here if _is_at(here, key, value, to, said)), index)
        elif index:
            step = int(index)
        yield step
        if step == "...":
            return
        here = here[step]


def _is_at(mapping: dict[str, Any], key: str, value: Any, to: type, said: str) -> bool:
    """Whether the fault is that of this key: it stays when the others of its mapping are gone."""
    kept = dict(mapping)
    mapping.clear()
    mapping[key] = kept[key]
    try:
        msgspec.convert(value, to)
    except msgspec.ValidationError as error:
        return str(error) == said
    finally:
        mapping.clear()
        mapping.update(kept)
    return False


def _words(said: str) -> str:
    if found := _LACKING.fullmatch(said):
        return _lack(found[1])
    return said[:1].lower() + said[1:].replace("`", "'")


def _lack(name: str) -> str:
    return f"'{name}' is a required property"
