"""Names commands as the reader of a message types them: `regatta X`; in the checkout `fab X`, about hosts `make X`."""

import os
import re
import sys
from pathlib import Path

TYPED = "REGATTA_TYPED"
"""`make` sets it to its name for what it starts."""
ABOUT_HOSTS = {
    "provision": "bare hosts -> a cluster; again: nothing changes",
    "check": "say what provision would change, and change nothing",
    "verify": "prove that the cluster works",
    "teardown": "remove from the hosts what provision made, and prove it",
    "add-node": "make a host that was added to the inventory a member",
    "remove-node": "move a node's data away, then remove its services",
    "forget": "drop the pinned host key of a node, and pin the one it shows now",
    "rotate-secrets": "new secrets of all services and new keys between the nodes, everywhere",
    "support-bundle": "one archive with versions, states, logs and configuration of all nodes, without secrets",
    "rebuild": "provision a host that was installed again: asks for its new host key, its data comes from the others",
    "rollback": "back to the Python environment that was there before",
    "bundle": "everything that provision would download, in one archive",
    "hdfs-restore-metadata": "make the NameNode again from the newest copy of its metadata, then provision",
}
"""Commands about hosts, and what each does."""
_VARIABLES = {"yes": "CONFIRM"}
"""Variables of `make` that are not the flag's name in capitals."""


def in_checkout() -> bool:
    """Whether `fab` or `make` was typed, which only a checkout has."""
    return os.environ.get(TYPED) == "make" or Path(sys.argv[0]).name == "fab"


def hint(command: str, *words: str) -> str:
    """`fab logs RUN` or `regatta logs RUN`: a command about runs and records, with its words."""
    return " ".join(["fab" if in_checkout() else "regatta", command, *words])


def about_hosts(command: str, **options: str | bool) -> str:
    """`make forget NODE=n1` or `regatta forget --node n1`: a command about hosts, with its options."""
    return " ".join(["make" if in_checkout() else "regatta", command, *(option(**{k: v}) for k, v in options.items())])


def help_of(command: str) -> str:
    """`make help` or `regatta forget --help`: what shows the options of a command about hosts."""
    return "make help" if in_checkout() else f"regatta {command} --help"


def option(**given: str | bool) -> str:
    """`FORCE=yes` or `--force`, `DATA=destroy` or `--data destroy`: one option of a command about hosts."""
    ((name, value),) = given.items()
    if in_checkout():
        return f"{_VARIABLES.get(name, name.upper())}={'yes' if value is True else value}"
    return f"--{name}" if value is True else f"--{name} {value}"


def setup(package: str) -> str:
    """Return what brings a program of a package next to this Python: `make setup` or `pip install PACKAGE`."""
    return "make setup" if in_checkout() else f"{sys.executable} -m pip install {package}"


def checkout_only(command: str) -> str:
    """`make locks`, and that this is for Regatta's checkout; a quoted whole."""
    return f"'make {command}'" if in_checkout() else f"'make {command}' in a checkout of Regatta"


def retold(text: str) -> str:
    """Return what a node or a role says, with its `regatta X --flag value` as it is typed here."""
    return _TOLD.sub(lambda found: _named(found[0], found[1], found[2].split()), text) if in_checkout() else text


def _named(whole: str, command: str, flags: list[str]) -> str:
    if command in ABOUT_HOSTS:
        given = zip(flags[::2], flags[1::2], strict=True)
        return about_hosts(command, **{flag.removeprefix("--"): value for flag, value in given})
    return hint(command, *flags) if command in _OF_NODES else whole


_TOLD = re.compile(r"\bregatta ([a-z][a-z-]*)((?: --[a-z-]+ [^\s';,]+)*)")
_OF_NODES = ("cancel", "data-get", "data-ls", "hdfs-status", "pull", "runs-gc", "status", "sync", "up")
"""Commands about runs that nodes name (a test compares)."""
