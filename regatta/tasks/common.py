"""Shared by the tasks: errors as one message, and numbers that are typed."""

import errno
import functools
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from invoke.exceptions import Exit
from invoke.tasks import task as invoke_task

from regatta import paths
from regatta.errors import DeclinedError, RegattaError
from regatta.hosts import sudo
from regatta.options import kinds
from regatta.options.declaration import ASK_BECOME_PASS, OF_RUNS
from regatta.tasks.program import Task

INTERRUPTED = 130
RUN_HELP = "id of a run, a unique beginning of it, or 'last'"
AT_LEAST_HELP = "a difference matters from here on: 2% (default 1%)"
JSON_HELP = "print it for programs, as JSON (schema: regatta/tasks/schemas/)"


def records_dir() -> Path:
    """Return where the project's records are; a line where the current folder has others."""
    found, here = paths.results_dir(), Path(paths.RESULTS)
    if (
        "REGATTA_RESULTS" not in os.environ
        and found.resolve() != here.resolve()
        and (count := len([*here.glob("*.json")]))
    ):
        print(
            f"note: {here.resolve()} has {count} record(s) that are not read: move them to {found}, where those "
            f"of the project are, or set REGATTA_RESULTS={here.resolve()}",
            file=sys.stderr,
        )
    return found


def task(
    *, help: dict[str, str] | None = None, runs_script: bool = False, further: str | None = None, **options: Any
) -> Any:
    """`invoke.task` whose errors end the program with one message and the right exit code.

    `runs_script`: what follows its last positional argument belongs to that script, see `regatta.tasks.argv`.
    `further`: words behind its positional arguments are values of this flag, a list.
    """

    def decorate(body: Callable[..., Any]) -> Any:
        signature = inspect.signature(body)
        asks_hosts = "inventory" in signature.parameters

        @functools.wraps(body)
        def guarded(*call_args: Any, **call_options: Any) -> Any:
            try:
                if call_options.pop(ASK_BECOME_PASS.name, False):
                    sudo.ask()
                return body(*call_args, **call_options)
            except RegattaError as error:
                print(error if isinstance(error, DeclinedError) else f"error: {error}", file=sys.stderr)
                raise Exit(code=error.exit_code) from None
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                full = error.filename or paths.cache_dir()
                print(f"error: a disk of this machine is full: free some space at {full}", file=sys.stderr)
                raise Exit(code=1) from None
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)
                raise Exit(code=INTERRUPTED) from None

        options["iterable"] = [*options.get("iterable", ()), *([further] if further else [])]
        shared = {}
        if asks_hosts:
            guarded.__signature__ = _with_password(signature)  # type: ignore[attr-defined]
            shared = {"inventory": OF_RUNS["inventory"].help, ASK_BECOME_PASS.flag[2:]: ASK_BECOME_PASS.help}
        made: Any = invoke_task(guarded, help=shared | (help or {}), klass=Task, auto_shortflags=False, **options)
        made.is_regatta_task = True
        made.runs_script = runs_script
        made.further = further
        return made

    return decorate


def _with_password(signature: inspect.Signature) -> inspect.Signature:
    asked = inspect.Parameter(ASK_BECOME_PASS.name, inspect.Parameter.KEYWORD_ONLY, default=False)
    return signature.replace(parameters=[*signature.parameters.values(), asked])


def whole(option: str, text: str | int | None, *, least: int = 1) -> int | None:
    """A whole number given as an option. UsageError where it is none or too small."""
    return None if text is None else kinds.Whole(least=least).word(f"--{option}", text)


def seconds(option: str, text: str | float | None) -> float | None:
    """A positive number of seconds given as an option."""
    return None if text is None else kinds.SECONDS.word(f"--{option}", text)
