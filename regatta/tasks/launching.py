"""Commands made from declared options, and what their flags say of a run."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from regatta.options.declaration import RunOptions
from regatta.options.option import Option
from regatta.tasks.common import task

if TYPE_CHECKING:
    from regatta.hosts.selection import Selection

SCRIPT = Option("Python script of this tree; all words after it are its own")


def hosts(options: RunOptions) -> "Selection":
    """Which hosts of the cluster a person wants to use."""
    from regatta.hosts.selection import Selection

    return Selection(options.nodes, options.without, options.skip_lost)


def command(
    name: str,
    about: str,
    options: Mapping[str, Option],
    body: Callable[[dict[str, Any]], None],
    *,
    positional: Mapping[str, Option] | None = None,
    script: bool = False,
) -> Any:
    """A task with these options as flags; `body` gets what was typed, by name. `script`: it runs one, its last word."""
    words = {**(positional or {}), **({"script": SCRIPT} if script else {})}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter("c", kind),
        *(inspect.Parameter(word, kind) for word in words),
        *(inspect.Parameter(name, kind, default=False if one.kind.switch else None) for name, one in options.items()),
    ]

    def typed(c: Any, **given: Any) -> None:
        body(given)

    typed.__doc__ = about
    typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    help = {name.rstrip("_").replace("_", "-"): one.about for name, one in {**words, **options}.items() if one.about}
    many = [name for name, one in options.items() if one.kind.many]
    return task(name=name, help=help, runs_script=script, positional=[*words], iterable=many)(typed)
