"""A workload's card: how it takes over what it includes, its options, and which of them do not go together.

The controller, which knows more of a card, and the workload read these in one way.
"""

import string
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from regatta_protocol.states import Word
from regatta_protocol.value import Value

NAME, PROJECT = "card.toml", "regatta.toml"
"""The file of a card next to the code of a workload; that of a person's project, which may hold cards."""
OF_FUNCTIONS, OF_SEARCHES = ("function", "items"), ("search",)
"""The parts that cards of functions, and of searches, include without naming them."""


def includes(table: Mapping[str, Any]) -> Tuple[str, ...]:
    """The names of what a card includes, each once; a module of Regatta's own says all of them."""
    own = OF_SEARCHES if "search" in table else OF_FUNCTIONS if "function" in table else ()
    return tuple(dict.fromkeys((*table.get("include", ()), *(own if "module" not in table else ()))))


def merged(own: Mapping[str, Any], included: Mapping[str, Any]) -> Dict[str, Any]:
    """A card with what it includes: tables key by key, faults one after the other, and else its own value counts.

    Keys of its own come first, then those of both and the included ones, in the order of the included.
    """
    made = {key: value for key, value in own.items() if key not in included}
    for key, value in included.items():
        mine = own.get(key)
        if isinstance(mine, Mapping) and isinstance(value, Mapping):
            made[key] = merged(mine, value)
        elif key == "faults" and isinstance(mine, list) and isinstance(value, list):
            made[key] = [*mine, *value]
        else:
            made[key] = own.get(key, value)
    return made


class Kind(Word):
    """The kind of an option's value; `RANKS`: a flag for which the program gets the number of ranks."""

    TEXT = "text"
    PATH = "path"
    WHOLE = "whole number"
    NUMBER = "number"
    LIST = "list"
    SWITCH = "true or false"
    RANKS = "ranks"


TYPES: Mapping[str, Tuple[str, Tuple[type, ...]]] = {
    Kind.TEXT: ("text", (str,)),
    Kind.PATH: ("text", (str,)),
    Kind.LIST: ("text", (str,)),
    Kind.WHOLE: ("a whole number", (int,)),
    Kind.NUMBER: ("a number", (int, float)),
    Kind.SWITCH: ("true or false", (bool,)),
    Kind.RANKS: ("true or false", (bool,)),
}
"""The values of each kind, in words and as types."""
FLAGS = (Kind.SWITCH, Kind.RANKS)
"""Kinds that take no value when they are typed."""
OF_PROGRAMS = ("help", "framework")
"""Options that every program has."""


class Option(Value):
    """An option of a program's command line; `name` has a `_` where that has a `-`.

    `excludes`: options that are not given together with it. `of_run`: a path that means the same in every process of
    the run, with its id for `{run}`. Bounds: `least` <= value, `above` < value < `below`.
    """

    name: str = ""
    kind: Kind = Kind.TEXT
    help: str = ""
    default: Any = None
    metavar: Optional[str] = None
    required: bool = False
    choices: Tuple[str, ...] = ()
    least: Optional[float] = None
    above: Optional[float] = None
    below: Optional[float] = None
    excludes: Tuple[str, ...] = ()
    of_run: bool = False


class Fault(Value):
    """Options that do not go together: each of `when` holds, and what to `say` then, with values for `{option}`.

    True: the option is given and not zero; false: it is not. `frameworks`: only under these; empty: under all.
    """

    say: str
    when: Dict[str, Any] = {}
    frameworks: Tuple[str, ...] = ()


class Grouped(Value):
    """The way in which the parts of a workload talk to each other, and the options with which they do."""

    kind: Any = None
    when: Dict[str, Any] = {}


class Program(Value):
    """A card's account of the program's command line."""

    description: str = ""
    options: Dict[str, Option] = {}
    faults: Tuple[Fault, ...] = ()
    group: Any = None


def fault(faults: Sequence[Any], given: Mapping[str, Any], framework: Optional[str]) -> Optional[str]:
    """The sentence of the first of these faults that the values of all options have; None where there is none."""
    for one in faults:
        if (not one.frameworks or framework in one.frameworks) and holds(one.when, given):
            return str(one.say.format_map(given))
    return None


def holds(when: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether each option has the value, or one of the values; true: it is given and not zero, false: it is not."""
    return all(_fits(given.get(name), wanted) for name, wanted in when.items())


def listed(text: str) -> Optional[List[str]]:
    """The words of a list that commas separate; quotes may be around a word with a comma. None: a quote is open."""
    import csv

    try:
        return [word.strip() for word in next(csv.reader([text], skipinitialspace=True, strict=True), [])]
    except csv.Error:
        return None


def misfit(option: Any, value: Any) -> Optional[str]:
    """Return what is wrong with the value of an option, as the end of a sentence; None where nothing is."""
    words, types = TYPES[option.kind]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        return f"must be {words}, not {value!r}"
    if option.choices and value not in option.choices:
        known = " or ".join(filter(None, (", ".join(option.choices[:-1]), option.choices[-1])))
        return f"must be {known}, not {value!r}"
    if option.kind == Kind.LIST and not all(listed(str(value)) or [""]):
        return f"must be words with commas between, without an empty one, not {value!r}"
    return _beyond(option, value) if isinstance(value, (int, float)) else None


def wrong(options: Mapping[str, Any], faults: Sequence[Any]) -> Iterator[Tuple[str, str]]:
    """Yield where options and faults of a card are wrong, and what is."""
    grouped: Set[str] = set()
    for name, option in options.items():
        yield from ((f"options.{name}{key}", said) for key, said in _of_option(name, option, options, grouped))
        grouped |= {name, *option.excludes} if option.excludes else set()
    for name in (name for name, option in options.items() if option.required and name in grouped):
        yield f"options.{name}", "required, and excluded by another option"
    for number, one in enumerate(faults, 1):
        yield from ((f"faults[{number}].{key}", said) for key, said in _of_fault(one, options))


def _of_option(name: str, option: Any, options: Mapping[str, Any], grouped: Set[str]) -> Iterator[Tuple[str, str]]:
    if not name.isidentifier() or name in OF_PROGRAMS:
        yield "", "no name for an option"
    if option.choices and option.kind != Kind.TEXT:
        yield ".choices", "only a text has choices"
    if option.default is not None and option.kind in FLAGS:
        yield ".default", "a flag has none"
    elif option.default is not None and (said := misfit(option, option.default)):
        yield ".default", said
    if lost := [other for other in option.excludes if other not in options]:
        yield ".excludes", f"there is no option {', '.join(lost)}"
    elif option.excludes and (twice := {name, *option.excludes} & grouped):
        yield ".excludes", f"{min(twice)} is among options that exclude each other already"


def _of_fault(one: Any, options: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    if not one.when:
        yield "when", f"says nothing: {one.say!r}"
    if lost := [name for name in one.when if name not in options]:
        yield "when", f"there is no option {', '.join(lost)}"
    try:
        named = [field for _, field, _, _ in string.Formatter().parse(one.say) if field is not None]
    except ValueError as error:
        yield "say", f"{error}: {one.say!r}"
        return
    if lost := [name for name in named if name not in options]:
        yield "say", f"there is no option {', '.join(lost)}: {one.say!r}"


def _beyond(option: Any, value: float) -> Optional[str]:
    if option.least is not None and value < option.least:
        return f"must be at least {option.least:g}, not {value}"
    if option.above is not None and not value > option.above:
        return f"must be above {option.above:g}, not {value}"
    if option.below is not None and not value < option.below:
        return f"must be below {option.below:g}, not {value}"
    return None


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool):
        return bool(value) is wanted
    return value in wanted if isinstance(wanted, (list, tuple)) else bool(value == wanted)
