"""An operation: what a controller asks of nodes, whose fields are its arguments, and the type of the answer."""

from typing import Any, ClassVar, Generic, Tuple, Type, TypeVar, get_args

from regatta_protocol.value import Value

Answer = TypeVar("Answer")
Line = TypeVar("Line")


class Operation(Value, Generic[Answer]):
    """A request whose fields are its arguments; `Operation[None]` answers nothing. `op`: its name on the wire."""

    op: ClassVar[str]


class Telling(Operation[Answer], Generic[Answer, Line]):
    """A request that is answered by values of a `Line` first, while it is worked on."""


def kinds(asked: Type[Operation[Any]]) -> Tuple[Any, ...]:
    """The types of what an operation answers, and of its lines where it has some."""
    return get_args(vars(asked)["__orig_bases__"][0])
