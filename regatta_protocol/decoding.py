"""Values of JSON as types, and back. A value that does not fit raises one error, which names the field and the value.

Types are classes of `Value` and enums, with fields of `str`, `int`, `float`, `bool`, `Any`, and of Optional,
Tuple[X, ...] and Dict[str, X] of these. Keys that a type does not know are left out.
"""

import functools
import math
import re
import sys
from enum import Enum
from typing import (
    Annotated,
    Any,
    Callable,
    Dict,
    Iterator,
    NamedTuple,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)  # fmt: skip

from regatta_protocol.value import Value, fields

Step = Union[str, int]
Decoder = Callable[[Any], Any]
_Made = TypeVar("_Made")
_ANYTHING = (Any, Dict[str, Any])
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
MOST_TEXT = 4096
"""Characters of a text that is only believed."""
MOST_WHOLE = 1 << 31
"""A number that is only believed is smaller."""


class FaultError(ValueError):
    """A fault, and the steps that lead there: keys, and places in lists."""

    def __init__(self, steps: Sequence[Step], said: str) -> None:
        self.steps = tuple(steps)
        self.said = said
        super().__init__(f"{self.where or 'top level'}: {said}")

    @property
    def where(self) -> str:
        """`ranks[0].phases.load`; empty: the value itself."""
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)
        return where[1:] if where.startswith(".") else where

    def inside(self, step: Step) -> "FaultError":
        """The same fault, seen from a level above."""
        return FaultError((step, *self.steps), self.said)


class Between(NamedTuple):
    """Bounds of a number, or of the length of a text, both allowed; NaN is outside of all."""

    least: float
    most: float


class Like(NamedTuple):
    """A text that a pattern matches whole."""

    pattern: str


AS_IT_IS = "as it is"
"""A text that is believed with all its characters: who shows it makes it harmless."""
PATH = "path"
Path = Annotated[str, PATH]
"""A text that may have what is no character: in a path, halves of surrogate pairs are bytes that are no UTF-8."""
Rank = Annotated[int, Between(-1, 2**63 - 1)]
Count = Annotated[int, Between(0, 2**63 - 1)]
Amount = Annotated[float, Between(0, sys.float_info.max)]
"""Neither negative nor NaN nor infinite."""


def decode(kind: Type[_Made], value: Any) -> _Made:
    """A value of JSON as this type. Raises FaultError with the first fault."""
    return cast(_Made, _decoder(cast(Any, kind), False)(value))


def believe(kind: Type[_Made], value: Any) -> _Made:
    """Return what fits of a value that anybody may have written; the type's fields have defaults, which count for the
    rest.

    Texts are cut and printable anywhere, numbers finite and of at most 31 bits where they are whole.
    """
    return cast(_Made, _decoder(cast(Any, kind), True)(value if isinstance(value, dict) else {}))


def fitting(kind: Any, value: Any, otherwise: Any) -> Any:
    """The value where it is one of this type, of which it is believed; else another."""
    try:
        return _decoder(kind, True)(value)
    except FaultError:
        return otherwise


def encode(value: Any) -> Any:
    """A value of these types as JSON has it. A field that is None, as by default, is left out."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Value):
        told = ((name, getattr(value, name), field) for name, field in fields(cast(Any, type(value))).items())
        return {
            name: one if field.kind in _ANYTHING else encode(one)
            for name, one, field in told
            if one is not None or field.required
        }
    if isinstance(value, (list, tuple)):
        return [encode(one) for one in value]
    return {name: encode(one) for name, one in value.items()} if isinstance(value, dict) else value


@functools.lru_cache(maxsize=None)
def _decoder(kind: Any, believing: bool) -> Decoder:
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: value
    if origin is Annotated:
        return _restricted(args[0], args[1], believing)
    if origin is Union:
        return _optional(_decoder(args[0], believing))
    if origin is tuple:
        return _listed(_decoder(args[0], believing), believing)
    if origin is dict:
        return _mapped(_decoder(args[0], believing), _decoder(args[1], believing), believing)
    if issubclass(kind, Value):
        return _made(kind, believing)
    return _word(kind) if issubclass(kind, Enum) else _scalar(kind, believing)


def _scalar(kind: Any, believing: bool) -> Decoder:
    wanted: Any = (int, float) if kind is float else kind

    def decoded(value: Any) -> Any:
        if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
            raise FaultError((), f"{_shown(value)} is not {_WORDS[kind]}")
        try:
            made = kind(value)
            return _modest(made) if believing else _writable(made)
        except (OverflowError, UnicodeEncodeError):
            raise FaultError((), f"{_shown(value)} cannot be kept") from None

    return decoded


def _path(value: Any) -> str:
    if not isinstance(value, str):
        raise FaultError((), f"{_shown(value)} is not text")
    return value


def _writable(value: Any) -> Any:
    """The value. UnicodeEncodeError for a text that has half of a surrogate pair, which no file takes."""
    if isinstance(value, str) and not value.isascii():
        value.encode()
    return value


def _modest(value: Any) -> Any:
    if isinstance(value, str):
        return "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in value[:MOST_TEXT])
    if isinstance(value, float) and not math.isfinite(value):
        raise FaultError((), f"{value} is not finite")
    if isinstance(value, int) and abs(value) >= MOST_WHOLE:
        raise FaultError((), "has more than 31 bits")
    return value


def _restricted(kind: Any, how: Any, believing: bool) -> Decoder:
    if how == AS_IT_IS:
        return _decoder(kind, False)
    if how == PATH:
        return _path
    decoded = _decoder(kind, believing)
    return _like(decoded, re.compile(how.pattern)) if isinstance(how, Like) else _bounded(decoded, how)


def _bounded(decoded: Decoder, bounds: Between) -> Decoder:
    def inside(value: Any) -> Any:
        made = decoded(value)
        if not bounds.least <= (len(made) if isinstance(made, str) else made) <= bounds.most:
            raise FaultError((), f"{_shown(value)} is not from {bounds.least:g} to {bounds.most:g}")
        return made

    return inside


def _like(decoded: Decoder, pattern: "re.Pattern[str]") -> Decoder:
    def matching(value: Any) -> Any:
        made = decoded(value)
        if not pattern.fullmatch(made):
            raise FaultError((), f"{_shown(value)} is not like {pattern.pattern}")
        return made

    return matching


def _word(kind: Any) -> Decoder:
    words = {one.value: one for one in kind}

    def decoded(value: Any) -> Any:
        if not isinstance(value, str) or value not in words:
            raise FaultError((), f"{_shown(value)} is none of {', '.join(words)}")
        return words[value]

    return decoded


def _optional(decoded: Decoder) -> Decoder:
    return lambda value: None if value is None else decoded(value)


def _listed(decoded: Decoder, believing: bool) -> Decoder:
    def items(value: Any) -> Tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise FaultError((), f"{_shown(value)} is not a list")
        return tuple(made for _, made in _inside(decoded, enumerate(value), believing))

    return items


def _mapped(named: Decoder, decoded: Decoder, believing: bool) -> Decoder:
    def pair(item: Tuple[Any, Any]) -> Tuple[Any, Any]:
        return named(item[0]), decoded(item[1])

    def items(value: Any) -> Dict[str, Any]:
        if not isinstance(value, dict):
            raise FaultError((), f"{_shown(value)} is not a table")
        return dict(made for _, made in _inside(pair, ((item[0], item) for item in value.items()), believing))

    return items


def _inside(decoded: Decoder, items: Any, believing: bool) -> Iterator[Tuple[Any, Any]]:
    for step, value in items:
        try:
            yield step, decoded(value)
        except FaultError as fault:
            if not believing:
                raise fault.inside(step) from None


def _made(kind: Any, believing: bool) -> Decoder:
    parts = {name: (_decoder(field.kind, believing), field.required) for name, field in fields(kind).items()}

    def made(value: Any) -> Any:
        if not isinstance(value, dict):
            raise FaultError((), f"{_shown(value)} is not a table")
        found = {}
        for name, (decoded, required) in parts.items():
            if name not in value:
                if required:
                    raise FaultError((name,), "is missing")
                continue
            try:
                found[name] = decoded(value[name])
            except FaultError as fault:
                if required or not believing:
                    raise fault.inside(name) from None
        return kind(**found)

    return made


def _shown(value: Any) -> str:
    """A value for a message: its beginning, whatever it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python writes no number of more than 4,300 digits
        return "the value"
    return text if len(text) <= 60 else f"{text[:57]}..."
