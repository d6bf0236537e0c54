"""Command line: python3 -m lab COMMAND."""

import argparse
import os
import sys
import time

from . import cgroups, check, image, lifecycle, nodes
from .model import MOST_NODES, TOPOLOGIES, Node, all_labs
from .system import Interrupted, LabError, become_root, catch_signals, lock, say

LEAST_PART = 0.05


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MOST_NODES:
        raise argparse.ArgumentTypeError(f"{text!r} nodes: a lab has 1 to {MOST_NODES}")
    return int(text)


def _cores(text: str) -> float:
    there = len(os.sched_getaffinity(0))
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not LEAST_PART <= found <= there:
        raise argparse.ArgumentTypeError(
            f"{text!r} cores a node: this machine has {there}, so say 1 to {there}, or a part of a core such as 0.4"
        )
    return int(found) if found.is_integer() else found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    main = argparse.ArgumentParser(prog="python3 -m lab", description="Temporary hosts on this machine.")
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(word: str, text: str, *, lab: bool = True, node: bool = False) -> argparse.ArgumentParser:
        one = commands.add_parser(word, help=text, description=text)
        if lab:
            one.add_argument("--name", default="lab", help="the lab's name (default: lab)")
        if node:
            one.add_argument("node", nargs="+", metavar="NODE", help="node1, node2, ...")
        return one

    up = command("up", "make a lab, let it grow, or start again what does not run")
    up.add_argument("--nodes", type=_count, metavar="N", help=f"1 to {MOST_NODES} (default: 3)")
    up.add_argument("--egress", choices=("yes", "no"), help="access to the internet (default: yes)")
    up.add_argument("--suite", help=f"Debian or Ubuntu release (default: {image.default_suite()})")
    up.add_argument("--mirror", metavar="URL", help="package archive (default: the one this machine uses)")
    up.add_argument("--subnet", metavar="NET", help="a private /24 (default: one of 10.98.x.0/24 by the name)")
    up.add_argument("--topology", choices=TOPOLOGIES, help="private: only node1 is reached from here (default: flat)")
    up.add_argument(
        "--cores",
        type=_cores,
        metavar="N",
        help="cores that each node has to itself, or 0.4 of one (default: all share)",
    )
    up.add_argument("--kept", metavar="KEY", help="start from the lab of this name that `keep` laid aside")
    keep = command("keep", "lay aside what the hosts are now (they boot again), for `up --kept`")
    keep.add_argument("--key", required=True, help="hexadecimal digits that say from what it was made")
    command("down", "remove a lab and everything of it but the cached base image")
    status = command("status", "list the labs and whether their nodes run", lab=False)
    status.add_argument("--name", help="only the lab of this name")
    command("off", "cut the power of nodes", node=True)
    command("on", "boot nodes with the state they had", node=True)
    command("stop", "shut nodes down cleanly", node=True)
    rebuild = command("rebuild", "replace nodes by fresh ones with other host keys", node=True)
    rebuild.add_argument("--keep-known-hosts", action="store_true", help="leave the old host keys in known_hosts")
    base = command("image", "make the cached base image only", lab=False)
    base.add_argument("--suite", default=image.default_suite())
    base.add_argument("--mirror", metavar="URL")
    command("check", "say what this machine lacks to run a lab", lab=False)
    return main


def status(name: str | None) -> None:
    """Print a line a lab and a line a node."""
    labs = [lifecycle.existing(name)] if name else all_labs()
    if not labs:
        say("no local test cluster here: make lab")
    for lab in labs:
        way = "yes" if lab.egress else "no"
        kind = ", private" if lab.private else ""
        say(f"{lab.name}: {lab.nodes} nodes of {lab.suite} on {lab.bridge} {lab.subnet}, egress {way}{kind}")
        if lab.cores is not None:
            say(f"  cores {lifecycle.cores_text(lab)}")
        for node in lab.all_nodes():
            say(f"  {node.name:8} {node.address:15} {'runs' if cgroups.supervisor(node) else 'off'}")


def act(chosen: argparse.Namespace) -> None:
    """Carry out one command."""
    match chosen.command:
        case "up":
            egress = None if chosen.egress is None else chosen.egress == "yes"
            wanted = (chosen.name, chosen.nodes, egress, chosen.suite, chosen.mirror, chosen.subnet, chosen.topology)
            lifecycle.up(lifecycle.Wanted(*wanted, cores=chosen.cores, kept=chosen.kept))
        case "down":
            started = time.monotonic()
            if lifecycle.down(chosen.name):
                say(f"lab {chosen.name}: removed in {time.monotonic() - started:.1f} s")
            else:
                say(f"there is no lab {chosen.name}: nothing to remove")
        case "keep":
            with lock(f"lab-{chosen.name}"):
                say(f"kept: {lifecycle.keep(lifecycle.existing(chosen.name), chosen.key)}")
        case "status":
            status(chosen.name)
        case "image":
            say(str(image.ensure(chosen.suite, chosen.mirror)))
        case "check":
            say("a lab can run here")
        case _:
            lab = lifecycle.existing(chosen.name)
            with lock(f"lab-{lab.name}"):
                some = lifecycle.pick(lab, chosen.node)
                _act_on(some, chosen)


def _act_on(some: list[Node], chosen: argparse.Namespace) -> None:
    started, names = time.monotonic(), ", ".join(node.name for node in some)
    match chosen.command:
        case "off":
            nodes.power_off(some)
        case "on":
            lifecycle.on(some)
        case "stop":
            nodes.stop(some)
        case "rebuild":
            lifecycle.rebuild(some, keep_known_hosts=chosen.keep_known_hosts)
    done = {"off": "power cut", "on": "up", "stop": "shut down", "rebuild": "replaced and up"}[chosen.command]
    say(f"lab {chosen.name}: {names} {done} in {time.monotonic() - started:.1f} s")


def main(arguments: list[str]) -> int:
    """Run one command; return the exit status."""
    os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"
    chosen = parser().parse_args(arguments)
    if os.geteuid() and sys.platform == "linux":
        become_root(arguments, image.cache_dir())
    catch_signals()
    try:
        if chosen.command in ("up", "keep", "image", "check", "on", "rebuild") or os.geteuid():
            found = check.problems()
            if found:
                raise LabError(check.advice(found))
        act(chosen)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except Interrupted as stop:
        print(f"lab: stopped by {stop}", file=sys.stderr)
        return 128 + stop.number
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
