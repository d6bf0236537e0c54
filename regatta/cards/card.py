"""A card: everything that the controller knows of a workload, as values. docs/reference/cards.md describes each key.

Keys of a card's file are the fields of these types; `schema()` is made from them.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field, json

Value = str | int | float | bool
Kind = Literal["text", "whole number", "number", "true or false", "list", "path", "ranks"]
Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
"""Of a workload."""
OptionName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Positive = Annotated[int, Meta(ge=1)]


class Option(Struct, frozen=True, forbid_unknown_fields=True):
    """An option of the program: `--name value`.

    `kind` "ranks" is a flag for a person, for which the program gets the number of ranks. `each_rank`: a number that
    each rank takes, so that the single process takes as many times as much; `total` is what a plan calls the sum.
    `hidden`: known only to the program. `packages`: what a choice needs beyond the nodes' environment. `excludes`:
    options that do not go with it. `way`: it says by which way, or in which pieces, the same answer is
    found. Bounds: `least` <= value, `above` < value < `below`.
    """

    kind: Kind = "text"
    help: str = ""
    default: Value | None = None
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    below: float | None = None
    required: bool = False
    hidden: bool = False
    each_rank: bool = False
    total: str | None = None
    excludes: tuple[str, ...] = ()
    of_run: bool = False
    way: bool = False
    packages: dict[str, tuple[str, ...]] = {}


class Fault(Struct, frozen=True, forbid_unknown_fields=True):
    """Options that do not go together: each of `when` holds (true: given; false: not), and what to `say` then.

    `frameworks`: only under these; empty: under all.
    """

    when: dict[str, Value | list[Value]]
    say: str
    frameworks: tuple[str, ...] = ()


class Made(Struct, frozen=True, forbid_unknown_fields=True):
    """Input that a program makes on this machine where none is named: `module` with a path to write.

    `name`: of the file below the cache, `{state}` in it a hash of names, sizes and times of the `files` (patterns)
    below the folders that it `reads`.
    """

    module: str
    name: str
    about: str
    reads: tuple[str, ...] = ()
    files: tuple[str, ...] = ("*",)


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    """The file, or files of a folder, that an option names: put on all nodes outside the timers.

    `what`: what to give. `empty`: what to say of an empty one. `words`: values of the option that are no path.
    `keep`: the flag that lets the program keep a prepared form, for a run that is compared with none. `check`: a module
    that looks at the files before they leave this machine, by its Python: `python -m` takes it, and their paths. It
    prints one line, what they are; with status 2, what is wrong with them. `check_options`: the options that it takes,
    too.
    """

    option: OptionName
    kind: Literal["file", "files"] = "file"
    what: str = "a file that is there"
    empty: str = ""
    made: tuple[str, ...] = ()
    keep: str | None = None
    check: str | None = None
    check_options: tuple[str, ...] = ()
    default: Made | None = None


class GeneratedFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a generated folder: further words for the generator, and its share of the size."""

    name: str
    words: tuple[str, ...] = ()
    divisor: Positive = 1
    seed_step: int = 0


class Generator(Struct, frozen=True, forbid_unknown_fields=True):
    """Synthetic input: `module` writes `--size` units of `--seed` to standard output.

    `kind`: what `data-gen` calls it. `name`: of the file or folder, with `{size}` and `{seed}`.
    """

    kind: Name
    module: str
    name: str
    parts: tuple[GeneratedFile, ...] = ()


class Estimate(Struct, frozen=True, forbid_unknown_fields=True):
    """Of one unit of the input: bytes of a host's memory while loaded, and seconds of one core.

    `times`: options that multiply the seconds; `factors`: so do these values of these options. `size`: where unknown.
    """

    bytes: float = 0.0
    seconds: float = 0.0
    times: tuple[str, ...] = ()
    factors: dict[str, dict[str, float]] = {}
    size: Positive = 1


class Figure(Struct, frozen=True, forbid_unknown_fields=True):
    """Of a size under a framework with so many workers: a published `time`, minutes'seconds'', or `speedup`: how many
    times as fast as one process, where no time is published. Without a size: of any.
    """

    framework: str
    time: str | None = None
    size: Positive | None = None
    workers: Positive = 1
    speedup: Annotated[float, Meta(gt=0)] | None = None


class PublishedFigures(Struct, frozen=True, forbid_unknown_fields=True):
    """Other people's figures, on other hardware, for these parameters; `source` says whose.

    `accuracy` (0 to 1) and `loss`, of the test data: what all of these trainings came to.
    """

    source: str
    figures: tuple[Figure, ...]
    parameters: dict[str, Value] = {}
    accuracy: Annotated[float, Meta(ge=0, le=1)] | None = None
    loss: float | None = None


class Group(Struct, frozen=True, forbid_unknown_fields=True):
    """Ranks that talk to each other where options have these values: for the program."""

    kind: Literal["actors", "train"]
    when: dict[str, Value | list[Value]] = {}


class Items(Struct, frozen=True, forbid_unknown_fields=True):
    """The items that a function is applied to, one of these: numbers (`range`, as Python's), the values of a `list` in
    a JSON file, the `lines` of a file, or all combinations of the axes of a `grid`. Files are those of the project, or
    of an address (`s3://`).
    """

    range: Annotated[tuple[int, ...], Meta(min_length=1, max_length=3)] | None = None
    list: str | None = None
    lines: str | None = None
    grid: dict[str, tuple[Value, ...]] | None = None


class Span(Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers between two, both among them; whole ones where both are. `log`: alike in each order of magnitude."""

    range: tuple[int | float, int | float] | None = None
    log: tuple[int | float, int | float] | None = None


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """The aim of trials of a function: the largest or smallest `metric` of their reports; `space` has for each
    argument a list of values, or a span.
    """

    metric: str
    space: dict[str, tuple[Value, ...] | Span]
    mode: Literal["max", "min"] = "max"


class Card(Struct, frozen=True, forbid_unknown_fields=True):
    """A workload. `command`: script and arguments below the project, one for all frameworks or one for each; or
    `module`: as `python -m` takes it; or `function`: `module:function` of the project, which is applied to `items`,
    or has trials (`search`), as a `command` may have.

    `unit`: what a size counts. `size`: the option that says how much to do, where no input is generated.
    `length`: the option that says how many milliseconds of a core each of so many items takes.
    `checkpoints`: the program keeps its state in `--checkpoint` and continues from there. `gpus`: its ranks compute on
    GPUs where each of them can have one. `requirements`: a file by the card with packages beyond the nodes'
    environment.
    """

    about: str
    frameworks: tuple[str, ...]
    module: str | None = None
    command: str | dict[str, str] | None = None
    function: Annotated[str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] | None = None
    items: Items | None = None
    search: Search | None = None
    description: str = ""
    unit: str = ""
    size: OptionName | None = None
    length: OptionName | None = None
    include: tuple[str, ...] = ()
    checkpoints: bool = False
    gpus: bool = False
    options: dict[OptionName, Option] = {}
    faults: tuple[Fault, ...] = ()
    group: Literal["actors", "train", "items", "search"] | Group | None = None
    input: Input | None = None
    generate: Generator | None = None
    estimate: Estimate = Estimate()
    published: tuple[PublishedFigures, ...] = ()
    requirements: str | None = None

    def work(self, size: int | None, values: Mapping[str, Value]) -> float:
        """Seconds of one core that so many units take with these values of options, by the card's estimate."""
        guess = self.estimate
        seconds = guess.seconds * (size or guess.size)
        for name in (*guess.times, *guess.factors):
            value = values.get(name, self.options[name].default)
            factors = guess.factors.get(name)
            seconds *= float(value or 1) if factors is None else factors.get(str(value), 1.0)
        return seconds

    def brings(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """Packages that these values of options need."""
        given = ((option, values.get(name, option.default)) for name, option in self.options.items())
        return tuple(one for option, value in given for one in option.packages.get(str(value), ()))

    @property
    def called(self) -> bool:
        """Whether Regatta's own program calls what the card names: a function for each item, or trials of a search."""
        return self.function is not None or (self.search is not None and self.module is None)

    @property
    def offered(self) -> Mapping[str, Option]:
        """The options that a person gives, by name: not the input's own, nor hidden ones."""
        own = self.input.option if self.input else None
        return {name: option for name, option in self.options.items() if not option.hidden and name != own}


class Workload(Struct, frozen=True):
    """A card with its name, the project that it is in, and the file that it was read from."""

    name: str
    card: Card
    root: Path
    where: str
    own: bool = field(default=False)
    """Whether it is in a project of the user's."""

    @property
    def requirements(self) -> Path | None:
        """The list, or the lock, of the packages that it needs beyond the nodes' environment."""
        return self.folder / self.card.requirements if self.card.requirements else None

    @property
    def folder(self) -> Path:
        """The folder of its card, or of the project file that the card is in."""
        return Path(self.where).parent if Path(self.where).is_file() else self.root


def schema() -> dict[str, Any]:
    """The JSON schema of a card, for editors and for readers in other languages."""
    return json.schema(Card)


def flag(name: str) -> str:
    """`max_iterations` -> `--max-iterations`."""
    return f"--{name.replace('_', '-')}"


def missing(names: Sequence[str], known: Collection[str]) -> list[str]:
    """Those of some names that are not known."""
    return [name for name in names if name not in known]
