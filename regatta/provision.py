"""What `make provision | verify | teardown` call: `python -m regatta.provision COMMAND [--inventory DIR] [MORE]`."""

import argparse
import os
import sys

from regatta import cluster
from regatta.errors import InventoryError, RegattaError, UsageError
from regatta.provisioning import playbook

_COMMANDS = {
    "provision": "bare hosts -> a cluster; again: nothing changes",
    "check": "say what provision would change, and change nothing",
    "verify": "prove that the cluster works",
    "teardown": "remove from the hosts what provision made, and prove it",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code. Arguments that are not ours go to ansible-playbook."""
    options, extra = _parser().parse_known_args(arguments)
    try:
        return run(options.command, options.inventory, [word for word in extra if word != "--"], check=options.check)
    except RegattaError as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return error.exit_code


def run(command: str, inventory: str | None, extra: list[str], *, check: bool = False) -> int:
    """`command` on an inventory; see `_COMMANDS`."""
    path = cluster.choose(inventory)
    chosen = cluster.load(str(path))
    if chosen.local:
        raise InventoryError(
            f"{chosen.name} is this machine alone and needs no {command}: 'fab run-ppr' works as it is"
        )
    check = check or command == "check"
    if command == "teardown" and not check:
        _confirm([node.name for node in chosen.nodes], chosen.name)
    book = "provision" if command == "check" else command
    return playbook.play(book, path, chosen, [*(["--check"] if check else []), *extra])


def _confirm(nodes: list[str], name: str) -> None:
    if os.environ.get("CONFIRM") == "yes":
        return
    what = f"This removes Regatta, its data and its runs from {', '.join(nodes)} (inventory {name})."
    if not sys.stdin.isatty():
        raise UsageError(f"{what} Set CONFIRM=yes to do so without being asked.")
    if input(f"{what} Type yes to go on: ").strip() != "yes":
        raise UsageError("not confirmed; nothing was changed")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m regatta.provision",
        description="Make hosts into a cluster, prove it, undo it.",
        epilog="Further arguments go to ansible-playbook, for example -e ray_gcs_port=7000 or --diff.",
        allow_abbrev=False,
    )
    parser.add_argument("command", choices=_COMMANDS, help="; ".join(f"{k}: {v}" for k, v in _COMMANDS.items()))
    parser.add_argument("--inventory", help="folder or file (default: $REGATTA_INVENTORY, $INVENTORY, inventory/lab)")
    parser.add_argument("--check", action="store_true", help="only say what would change")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
