"""Tasks by which a person works on the nodes themselves: shell, exec, ssh-config."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence

from invoke.context import Context
from invoke.exceptions import Exit

from regatta.errors import PrivilegeError, RemoteError, UsageError
from regatta.hosts import inventories, sshconfig
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import WITHOUT_SUDO, Remote, explain
from regatta.tasks.common import JSON_HELP, seconds, task
from regatta.tasks.program import of_script
from regatta.text import fit

ACCOUNT = "regatta"
SSH_FAILED = 255
SECONDS = 600.0
COMMAND_HELP = "command to run; all words after it are its own"


@task(
    name="exec",
    positional=["command"],
    runs_script=True,
    help={
        "command": COMMAND_HELP,
        "nodes": "only these nodes: names with commas between them",
        "timeout": f"seconds after which it is ended (default {SECONDS:g})",
        "json": JSON_HELP,
    },
)
def execute(
    c: Context,
    command: str,
    inventory: str | None = None,
    nodes: str | None = None,
    timeout: str | None = None,
    json: bool = False,
) -> None:
    """Run a command on every node as the SSH user; equal outputs are printed once, the worst exit code is passed on."""
    remote = Remote(inventories.load(inventory))
    limit, words = seconds("timeout", timeout) or SECONDS, [command, *(of_script().script or [])]
    done, failed = remote.gather(chosen(remote.cluster, nodes), lambda node: run(remote, node, words, limit))
    if json:
        from regatta.tasks import shown

        shown.say(shown.executed(done, failed))
    for (code, said), names in {} if json else folded(done).items():
        print(f"{', '.join(names)}:{f' exit code {code}' if code else ''}")
        print("".join(f"    {line}\n" for line in fit(said).splitlines()), end="", flush=True)
    for error in failed.values():
        print(f"error: {error}", file=sys.stderr)
    if worst := max([code for code, _ in done.values()] + [1] * bool(failed), default=0):
        raise Exit(code=worst)


def chosen(cluster: Cluster, nodes: str | None) -> tuple[Node, ...]:
    """The nodes that were named; all where none was. InventoryError for another name."""
    return cluster.nodes if nodes is None else tuple(cluster.node(name) for name in nodes.split(",") if name)


def folded(done: Mapping[str, tuple[int, str]]) -> dict[tuple[int, str], list[str]]:
    """The nodes of each exit code and output, in their order."""
    same: dict[tuple[int, str], list[str]] = {}
    for name, result in done.items():
        same.setdefault(result, []).append(name)
    return same


def run(remote: Remote, node: Node, words: Sequence[str], limit: float) -> tuple[int, str]:
    """Exit code and output of a command on a node. RemoteError where it does not answer, or takes too long."""
    late = RemoteError(node.name, f"'{words[0]}' has not ended after {limit:g} s: --timeout gives it longer")
    if not node.local:
        return _there(remote, node, words, limit, late)
    try:
        done = subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise late from None
    except FileNotFoundError:
        raise RemoteError(node.name, f"there is no program '{words[0]}': install it there, or name another") from None
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _there(remote: Remote, node: Node, words: Sequence[str], limit: float, late: RemoteError) -> tuple[int, str]:
    from invoke.exceptions import CommandTimedOut

    from regatta.hosts.connection import Connection

    command = f"{{ {shlex.join(words)}\n}} 2>&1 </dev/null"
    try:
        done = Connection(remote, node).run(
            command, hide=True, warn=True, in_stream=False, timeout=limit, encoding="utf-8"
        )
    except CommandTimedOut:
        raise late from None
    if done.exited == SSH_FAILED and done.stderr:
        raise explain(node, done.exited, done.stderr, remote.config)
    return done.exited, done.stdout


@task(positional=["where"], help={"where": "a node's name, or a run: its id, a beginning of it, or 'last'"})
def shell(c: Context, where: str, inventory: str | None = None) -> None:
    """Open a shell on a node, or in the working directory of a run on the node of its first rank."""
    remote = Remote(inventories.load(inventory))
    raise Exit(code=subprocess.run(shell_command(remote, where), check=False).returncode)


def shell_command(remote: Remote, where: str) -> list[str]:
    """Return what opens a shell there: as the SSH user on a node, as the account of runs in a run's directory."""
    from regatta.run import catalogue

    cluster = remote.cluster
    if where in {node.name for node in cluster.nodes}:
        return _terminal(remote, cluster.node(where), [])
    info = catalogue.find(remote, where)
    node = cluster.node(info.places.get(0, info.nodes[0].name))
    if node.member:
        raise PrivilegeError(node.name, WITHOUT_SUDO)
    work = shlex.quote(f"{node.state}/runs/{info.run}/work")
    inside = f'cd {work} && {{ cd -- "$(cat ../boot/below.txt)"; }} 2>/dev/null; exec bash -i'
    return _terminal(remote, node, [*([] if node.local else ["sudo", "-u", ACCOUNT]), "bash", "-c", inside])


def _terminal(remote: Remote, node: Node, words: Sequence[str]) -> list[str]:
    if node.local:
        return [*words] or [os.environ.get("SHELL", "/bin/sh")]
    ssh = ["-t" if word == "-T" else word for word in remote.ssh(node)]
    return [*ssh, remote.destination(node), *([shlex.join(words)] if words else [])]


@task(name="ssh-config")
def ssh_config(c: Context, inventory: str | None = None) -> None:
    """Print an SSH configuration of the nodes for your own ssh, scp, rsync and editors."""
    cluster = inventories.load(inventory)
    if cluster.local:
        raise UsageError(f"{cluster.name} is this machine: no SSH leads there")
    print(sshconfig.of_person(cluster.folder.resolve(), cluster.everybody), end="")
