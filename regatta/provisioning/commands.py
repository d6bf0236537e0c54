"""Commands about hosts: `regatta provision`, `verify`, `teardown`, ...; `make` calls them as a module of this name."""

import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from regatta.errors import InventoryError, PrivilegeError, RegattaError, UsageError
from regatta.hosts import inventories, inventory_lint, lease, login_words, sudo
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import WITHOUT_SUDO, Remote
from regatta.program import ABOUT_HOSTS, about_hosts, hint, option
from regatta.provisioning import (
    bundling,
    flags,
    forget,
    interruption,
    membership,
    playbook,
    rollback,
    rotate,
    support,
    verified,
)
from regatta.provisioning.flags import Options
from regatta.run import probe, services
from regatta.services import parts
from regatta.terminal import screen
from regatta.terminal.confirm import confirmed


@screen.ends_with_its_reader()
def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    screen.install()
    command, *words = (sys.argv[1:] if arguments is None else arguments) or [""]
    if command not in ABOUT_HOSTS:
        print(f"there is no command '{command}': {', '.join(ABOUT_HOSTS)}", file=sys.stderr)
        return UsageError.exit_code
    try:
        return run(command, flags.read(command, words))
    except RegattaError as error:
        print(f"{command}: {error}", file=sys.stderr)
        return error.exit_code


def run(command: str, options: Options) -> int:
    """`command` on an inventory; see `program.ABOUT_HOSTS`."""
    if meant := inventory_lint.arguments(list(options.extra)):
        said = "; ".join(f"nothing reads {name}, did you mean {near}?" for name, near in meant.items())
        raise UsageError(f"-e: {said}")
    own = list(options.extra)
    if wrong := login_words.given(own, inventory_lint.given_names(own)) or login_words.of_environment():
        raise UsageError(wrong)
    if options.ask_become_pass:
        sudo.ask()
    path = inventories.choose(options.inventory)
    chosen = inventories.load(str(path))
    if chosen.local:
        raise InventoryError(
            f"{chosen.name} is this machine only and needs no {command}: "
            f"'{hint('torchrun')}' and '{hint('run NAME')}' work as they are"
        )
    refuse_member(chosen, command)
    if options.check or command in flags.UNCHANGING:
        return _carry_out(command, path, chosen, options)
    told = _confirm([node.name for node in chosen.nodes], chosen.name, options) if command == "teardown" else []
    named = f"{command} {option(node=options.node)}" if options.node else command
    with lease.held(chosen, named, options.lease == "break"):
        return _carry_out(command, path, chosen, options, told)


def refuse_member(chosen: Cluster, command: str) -> None:
    """Raise PrivilegeError for a command that needs sudo, where this copy is a member's."""
    if member := next((node for node in chosen.nodes if node.member), None):
        raise PrivilegeError(member.name, f"{command}: {WITHOUT_SUDO}")


def _carry_out(  # noqa: PLR0911 (one a command)
    command: str, path: Path, chosen: Cluster, options: Options, told: Sequence[str] = ()
) -> int:
    node, check = str(options.node), options.check or command == "check"
    words = [*(["--check"] if check else []), *options.of_ansible, *told]
    if command == "support-bundle":
        print(f"{support.bundle(chosen, options.out or Path())}: look through it before you give it away")
        return 0
    if command == "rollback":
        return rollback.rollback(chosen, options.force)
    if command == "forget":
        return forget.forget(chosen, node, check=check, yes=_agreed(options))
    if command == "remove-node":
        return membership.remove(path, chosen, node, words, check=check, force=options.force)
    if command == "rotate-secrets":
        return rotate.rotate(path, chosen, words, check=check, force=options.force)
    if command == "bundle":
        return playbook.play("bundle", path, chosen, ["-e", json.dumps(bundling.variables(options)), *words])
    if command == "verify":
        silent, bare = services.unready(services.status(Remote(chosen)))
        if silent or bare:  # not after minutes of waiting
            raise RegattaError("\n".join([*silent, *bare]))
        if options.json:
            return verified.verify(path, chosen, words)
        return playbook.play(command, path, chosen, words) or _probe(chosen)
    if command == "teardown":
        return _teardown(path, chosen, words, options)
    return _provision(command, path, chosen, words, options)


def _probe(chosen: Cluster) -> int:
    """Name hosts that are slower than the others: that is no failure."""
    for line in probe.words(probe.probe(Remote(chosen), functools.partial(print, flush=True))):
        print(line, flush=True)
    return 0


def _teardown(path: Path, chosen: Cluster, words: Sequence[str], options: Options) -> int:
    if not options.check:
        remote = Remote(chosen)
        going = interruption.going(remote)
        why = f"still running: {interruption.named(going)}"
        interruption.refuse_or_cancel(remote, going, why, about_hosts("teardown"), force=options.force)
    return playbook.play("teardown", path, chosen, words)


def _provision(command: str, path: Path, chosen: Cluster, words: list[str], options: Options) -> int:
    node, check = str(options.node), options.check or command == "check"
    if command == "rebuild" and not forget.renew(chosen, chosen.node(node).name, check=check, yes=_agreed(options)):
        again = about_hosts("forget", node=node)
        print(f"{node}: what provisioning would change there can be said once its key is pinned: {again}")
        return 0
    if command == "add-node":
        membership.must_be_known(chosen, node)
    if command == "hdfs-restore-metadata":
        _confirm_restore(chosen.name, check or _agreed(options))
        words += ["-e", "hdfs_restore=true"]
    if check and options.json:
        return verified.check(path, chosen, words, options.bundle)
    if check:
        return interruption.check(path, chosen, words, options.bundle)
    named = about_hosts(command, node=node) if options.node else about_hosts(command)
    return interruption.provision(path, chosen, words, options.bundle, named, force=options.force)


def _agreed(options: Options) -> bool:
    return options.confirm == "yes"


def _confirm(nodes: list[str], name: str, options: Options) -> list[str]:
    """Ask, and return what to tell Ansible: data go only with `--data destroy` and the cluster's name."""
    given, destroy = options.confirm, options.data == "destroy"
    words = [word for part in parts.with_data() for word in ("-e", f"{part.role}_destroy={name}") if destroy]
    if given == name or (given == "yes" and not destroy):
        return words
    data = f"ALL FILES IN {parts.places_of_data().upper()}" if destroy else "its runs"
    what = f"This removes Regatta, {data} from {', '.join(nodes)} (inventory {name})."
    what += "" if destroy else f" Files in {parts.places_of_data()} stay on the hosts."
    asked = name if destroy else "yes"
    way = _spelled(asked)
    if given:
        raise UsageError(f"{what} {_spelled(given)} does not confirm that: say {way}")
    if not sys.stdin.isatty():
        raise UsageError(f"{what} Say {way} to do so without being asked.")
    if screen.ask(f"{what} Type {asked} to continue:").strip() != asked:
        raise UsageError("not confirmed; nothing was changed")
    return words


def _spelled(word: str) -> str:
    """`CONFIRM=yes`, `--yes` or `--confirm NAME`."""
    return option(yes=True) if word == "yes" else option(confirm=word)


def _confirm_restore(name: str, agreed: bool) -> None:
    """Ask: what HDFS was given after the copy is lost for good. UsageError where the person declines."""
    lost = (
        "import the newest copy of HDFS's metadata: files written after it was made are lost, and their blocks deleted"
    )
    if not agreed and not confirmed(f"{lost} ({name}; look for the NameNode's own disk first)", False):
        raise UsageError("not confirmed; nothing was changed")


if __name__ == "__main__":
    raise SystemExit(main())
