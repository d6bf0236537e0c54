"""What `make provision | verify | teardown | ...` call: `python -m regatta.provisioning.commands COMMAND [MORE]`."""

import argparse
import json
import os
import sys
from pathlib import Path

from regatta.errors import InventoryError, RegattaError, UsageError
from regatta.hosts import inventories, inventory_lint, lease
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.provisioning import bundling, forget, interruption, membership, playbook, rollback, rotate, support
from regatta.terminal import screen
from regatta.terminal.confirm import confirmed

COMMANDS = {
    "provision": "bare hosts -> a cluster; again: nothing changes",
    "check": "say what provision would change, and change nothing",
    "verify": "prove that the cluster works",
    "teardown": "remove from the hosts what provision made, and prove it",
    "add-node": "make a host that was added to the inventory a member",
    "remove-node": "move a node's data away, then remove its services",
    "forget": "drop the pinned host key of a node, and pin the one it shows now",
    "rotate-secrets": "a new token for Ray and a new key between the nodes, everywhere",
    "support-bundle": "one archive with versions, states, logs and configuration of all nodes, without secrets",
    "rebuild": "provision a host that was made anew: its new host key is asked for, its data comes from the others",
    "rollback": "back to the Python environment that was there before",
    "bundle": "everything that provision would download, in one archive: OUT=file SUITE=bookworm MACHINE=x86_64",
    "hdfs-restore-metadata": "make the NameNode anew from the newest copy of its metadata, then provision",
}
_WITHOUT_LEASE = ("check", "forget", "support-bundle", "bundle")
"""Commands that change nothing on the hosts."""
_OF_A_NODE = ("add-node", "remove-node", "forget", "rebuild")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code. Arguments that are not ours go to ansible-playbook."""
    screen.install()
    options, extra = _parser().parse_known_args(arguments)
    try:
        return run(
            options.command, options.inventory, [word for word in extra if word != "--"], options.check, options.node
        )
    except RegattaError as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return error.exit_code


def run(command: str, inventory: str | None, extra: list[str], check: bool = False, node: str | None = None) -> int:
    """`command` on an inventory; see `COMMANDS`."""
    if meant := inventory_lint.arguments(extra):
        said = "; ".join(f"nothing reads {name}, did you mean {near}?" for name, near in meant.items())
        raise UsageError(f"-e: {said}")
    path = inventories.choose(inventory)
    chosen = inventories.load(str(path))
    if chosen.local:
        raise InventoryError(
            f"{chosen.name} is this machine alone and needs no {command}: "
            "'fab torchrun' and 'fab run NAME' work as they are"
        )
    if (node is not None) != (command in _OF_A_NODE):
        belongs = f"NODE=name belongs to {', '.join(_OF_A_NODE)}"
        raise UsageError(belongs if node else f"say which: {command} NODE=name")
    if check or command in _WITHOUT_LEASE:
        return _carry_out(command, path, chosen, extra, check or command == "check", node)
    if command == "teardown":
        extra = [*extra, *_confirm([node.name for node in chosen.nodes], chosen.name)]
    with lease.held(chosen, f"{command} NODE={node}" if node else command):
        return _carry_out(command, path, chosen, extra, check, node)


def _carry_out(command: str, path: Path, chosen: Cluster, extra: list[str], check: bool, node: str | None) -> int:
    if command == "support-bundle":
        print(f"{support.bundle(chosen, Path(os.environ.get('OUT') or '.'))}: look through it before you give it away")
        return 0
    if command == "rollback":
        return rollback.rollback(chosen)
    if command == "forget":
        return forget.forget(chosen, str(node), check=check)
    if command == "rebuild" and not forget.renew(chosen, chosen.node(str(node)).name, check=check):
        print(
            f"{node}: what provisioning would change there can be said once its key is pinned: make forget NODE={node}"
        )
        return 0
    words = [*(["--check"] if check else []), *extra]
    if command == "teardown" and not check:
        remote = Remote(chosen)
        going = interruption.going(remote)
        interruption.refuse_or_cancel(remote, going, f"still running: {interruption.named(going)}", command)
    if command == "add-node":
        membership.must_be_known(chosen, str(node))
    if command == "remove-node":
        return membership.remove(path, chosen, str(node), words, check=check)
    if command == "rotate-secrets":
        return rotate.rotate(path, chosen, words, check=check)
    if command == "bundle":
        return playbook.play("bundle", path, chosen, ["-e", json.dumps(bundling.wish(os.environ)), *words])
    if command == "hdfs-restore-metadata":
        _confirm_restore(chosen.name, check)
        words += ["-e", "hdfs_restore=true"]
    book = command if command in ("verify", "teardown") else "provision"
    bundle = os.environ.get("BUNDLE") if book == "provision" else None
    if book != "provision":
        return playbook.play(book, path, chosen, words)
    opened = Path(bundle).expanduser() if bundle else None
    if check:
        return interruption.check(path, chosen, words, opened)
    named = f"{command} NODE={node}" if node else command
    return interruption.provision(path, chosen, words, opened, named)


def _confirm(nodes: list[str], name: str) -> list[str]:
    """Ask, and return what to tell Ansible: data go only with DATA=destroy and the cluster's name."""
    wish, given = os.environ.get("DATA", ""), os.environ.get("CONFIRM", "")
    if wish not in ("", "keep", "destroy"):
        raise UsageError(f"DATA is 'keep' (so it is without it) or 'destroy', not '{wish}'")
    destroy = wish == "destroy"
    words = ["-e", f"hdfs_destroy={name}", "-e", f"shared_folder_destroy={name}"] if destroy else []
    if given == name or (given == "yes" and not destroy):
        return words
    data = "ITS HDFS AND ITS SHARED FOLDER WITH ALL FILES" if destroy else "its runs"
    what = f"This removes Regatta, {data} from {', '.join(nodes)} (inventory {name})."
    what += "" if destroy else " Files in HDFS and in the shared folder stay on the hosts."
    asked = name if destroy else "yes"
    if given:
        raise UsageError(f"{what} CONFIRM={given} does not confirm that: say CONFIRM={asked}")
    if not sys.stdin.isatty():
        raise UsageError(f"{what} Set CONFIRM={asked} to do so without being asked.")
    if screen.ask(f"{what} Type {asked} to go on:").strip() != asked:
        raise UsageError("not confirmed; nothing was changed")
    return words


def _confirm_restore(name: str, check: bool) -> None:
    """Ask: what HDFS was given after the copy is lost for good. UsageError where nobody wants that."""
    lost = (
        "import the newest copy of HDFS's metadata: files written after it was made are lost, and their blocks deleted"
    )
    if not check and not confirmed(f"{lost} ({name}; look for the NameNode's own disk first)", False):
        raise UsageError("not confirmed; nothing was changed")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="regatta",
        description="Make hosts into a cluster, prove it, undo it.",
        epilog="Further arguments go to ansible-playbook, for example -e ray_gcs_port=7000 or --diff.",
        allow_abbrev=False,
    )
    parser.add_argument("command", choices=COMMANDS, help="; ".join(f"{k}: {v}" for k, v in COMMANDS.items()))
    parser.add_argument("--inventory", help="folder or file (default: $REGATTA_INVENTORY, $INVENTORY, inventory/lab)")
    parser.add_argument("--node", help=f"which, for {', '.join(_OF_A_NODE)}")
    parser.add_argument("--check", action="store_true", help="only say what would change")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
