"""Names of runs."""

import re
import secrets
import time

from regatta.errors import UsageError

NAME_LENGTH = 60
RUN_NAME = re.compile(rf"[a-z0-9]([a-z0-9-]{{0,{NAME_LENGTH - 2}}}[a-z0-9])?\Z")


def new_run_name(label: str, framework: str) -> str:
    """A name that no one else makes: label, framework, UTC time, four random digits."""
    return f"{label}-{framework}-{time.strftime('%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def generation(first: str, number: int) -> str:
    """The name of a further generation of an elastic run."""
    return f"{first[: NAME_LENGTH - 4]}-g{number}"


def check_run_name(name: str) -> str:
    """A name for a run as a person gives it; UsageError where it cannot be one."""
    if not RUN_NAME.match(name):
        raise UsageError(
            f"'{name}' cannot name a run: use up to 60 of a-z, 0-9 and '-', beginning with a letter or digit"
        )
    return name
