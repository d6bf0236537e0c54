"""The flags of commands about hosts: `regatta COMMAND --help` shows its own; `make` passes its variables on."""

import argparse
import difflib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from regatta.errors import UsageError
from regatta.options.declaration import ASK_BECOME_PASS
from regatta.program import ABOUT_HOSTS, about_hosts, help_of
from regatta.services import parts

UNCHANGING = ("check", "forget", "support-bundle", "bundle")
"""Commands that change nothing on the hosts, and take no lease."""
OF_A_NODE = ("add-node", "remove-node", "forget", "rebuild")
PROVISIONING = ("provision", "add-node", "rebuild", "hdfs-restore-metadata")
"""Commands that end in provisioning."""
_WITHOUT_ANSIBLE = ("forget", "rollback", "support-bundle")
_NEAR = 0.8


@dataclass(frozen=True)
class Flag:
    """One flag: the commands that have it, what it says, and how it is read (see argparse)."""

    name: str
    commands: Collection[str]
    help: str
    reading: dict[str, Any]
    short: str = ""


@dataclass(frozen=True)
class Options:
    """The arguments of a command about hosts; `extra` goes to ansible-playbook."""

    inventory: str | None = None
    node: str | None = None
    check: bool = False
    force: bool = False
    bundle: Path | None = None
    data: str = "keep"
    confirm: str = ""
    out: Path | None = None
    suite: str | None = None
    machine: str | None = None
    project: Sequence[str] = ()
    lease: str = ""
    json: bool = False
    verbose: int = 0
    ask_become_pass: bool = False
    extra: Sequence[str] = ()

    @property
    def of_ansible(self) -> list[str]:
        """Words for `playbook.play`: which output is shown, and all that goes to ansible-playbook."""
        more = {0: [], 1: ["--verbose"]}.get(self.verbose, [f"-{'v' * self.verbose}"])
        return [*more, *self.extra]

    @property
    def projects(self) -> list[Path]:
        """Every folder or file of `--project`, which may name several with `:` between."""
        return [Path(one).expanduser() for given in self.project for one in given.split(os.pathsep) if one]


def _path(text: str) -> Path:
    return Path(text).expanduser()


_SWITCH = {"action": "store_true"}
_CHANGING = [name for name in ABOUT_HOSTS if name not in UNCHANGING]
FLAGS = (
    Flag(
        "inventory",
        tuple(ABOUT_HOSTS),
        "folder or file (default: $REGATTA_INVENTORY, $INVENTORY, inventory/lab)",
        {"metavar": "PATH"},
        "i",
    ),
    Flag("node", OF_A_NODE, "which", {"metavar": "NAME"}),
    Flag(
        "check",
        (*PROVISIONING, "verify", "teardown", "remove-node", "forget", "rotate-secrets"),
        "only say what would change",
        _SWITCH,
    ),
    Flag(
        "force",
        (*PROVISIONING, "teardown", "remove-node", "rotate-secrets", "rollback"),
        "cancel runs in its way",
        _SWITCH,
    ),
    Flag(
        "bundle",
        (*PROVISIONING, "check"),
        "download nothing: all is in this archive",
        {"metavar": "FILE", "type": _path},
    ),
    Flag(
        "data",
        ("teardown",),
        f"what becomes of files in {parts.places_of_data()} (default: keep)",
        {"choices": ("keep", "destroy")},
    ),
    Flag(
        "yes",
        ("teardown", "forget", "rebuild", "hdfs-restore-metadata"),
        "do not ask",
        {"action": "store_const", "const": "yes", "dest": "confirm"},
        "y",
    ),
    Flag(
        "confirm",
        ("teardown",),
        "do not ask, with --data destroy: the inventory's name",
        {"metavar": "NAME"},
    ),
    Flag("out", ("bundle",), "archive to write (default: regatta-bundle.tar)", {"metavar": "FILE", "type": _path}),
    Flag("out", ("support-bundle",), "folder to write it to (default: this one)", {"metavar": "FOLDER", "type": _path}),
    Flag("suite", ("bundle",), "the hosts' release, such as bookworm (default: this machine's)", {"metavar": "NAME"}),
    Flag("machine", ("bundle",), "the hosts' kind, x86_64 or aarch64 (default: this machine's)", {"metavar": "KIND"}),
    Flag(
        "project",
        ("bundle",),
        "put packages of this project in, too: a folder or a file of requirements; repeat for more",
        {"metavar": "PATH", "action": "append"},
    ),
    Flag(
        "json", ("check", "verify"), "print it for programs, as JSON (schema: regatta/provisioning/schemas/)", _SWITCH
    ),
    Flag(
        "verbose",
        [name for name in ABOUT_HOSTS if name not in _WITHOUT_ANSIBLE],
        "show Ansible's own output instead of steps; -vv and -vvv have more of it",
        {"action": "count"},
        "v",
    ),
    Flag(
        ASK_BECOME_PASS.flag[2:],
        tuple(name for name in ABOUT_HOSTS if name not in ("forget", "bundle")),
        ASK_BECOME_PASS.help,
        _SWITCH,
        "K",
    ),
    Flag(
        "lease",
        tuple(_CHANGING),
        "break: take the cluster from a command that is gone",
        {"choices": ("break",)},
    ),
)


def of(command: str) -> list[Flag]:
    """The flags of one command."""
    return [flag for flag in FLAGS if command in flag.commands]


def read(command: str, words: Sequence[str]) -> Options:
    """The arguments. UsageError for a flag of another command or one that looks like a slip; argparse ends others."""
    given, extra = _parser(command).parse_known_args(list(words))
    extra = [word for word in extra if word != "--"]
    _refuse(command, extra)
    known = {field.name for field in fields(Options)}
    values = {name: value for name, value in vars(given).items() if name in known and value is not None}
    if command in OF_A_NODE and not given.node:
        raise UsageError(f"say which: {about_hosts(command, node='NAME')}")
    return Options(**values, extra=tuple(extra))


def _refuse(command: str, extra: Sequence[str]) -> None:
    own = [f"--{flag.name}" for flag in of(command)]
    look = f"'{help_of(command)}' says what it takes"
    for word in extra:
        name = word.partition("=")[0]
        if belongs := [one for flag in FLAGS if f"--{flag.name}" == name for one in flag.commands]:
            raise UsageError(f"{name} belongs to {', '.join(belongs)}; {look}")
        near = difflib.get_close_matches(name, own, 1, _NEAR) if name[:2] == "--" else []
        if near:
            raise UsageError(f"there is no flag {name}, did you mean {near[0]}? {look}")
    if extra and command in _WITHOUT_ANSIBLE:
        raise UsageError(f"{command} takes no '{extra[0]}'; {look}")


def _parser(command: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=about_hosts(command),
        description=f"{ABOUT_HOSTS[command][0].upper()}{ABOUT_HOSTS[command][1:]}.",
        epilog=None
        if command in _WITHOUT_ANSIBLE
        else "Further arguments go to ansible-playbook, for example -e ray_gcs_port=7000 or --diff.",
        allow_abbrev=False,
    )
    for flag in of(command):
        names = [*(f"-{letter}" for letter in flag.short), f"--{flag.name}"]
        parser.add_argument(*names, help=flag.help, **flag.reading)
    return parser
