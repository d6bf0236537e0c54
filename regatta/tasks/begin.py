"""Tasks that one begins with: init, join, pull, demo (imports: see `regatta.tasks.runs`)."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from invoke.context import Context
from invoke.exceptions import Exit

from regatta import files, paths
from regatta.cards import project
from regatta.errors import UsageError
from regatta.hosts import inventories
from regatta.program import about_hosts, hint
from regatta.tasks.common import JSON_HELP, task
from regatta.tasks.launching import opened
from regatta.tasks.workloads import show

DEMO = "demo"
"""The plan whose first point is shown."""
NAME = "of the inventory, which becomes inventory/NAME (default: mine)"
"""Help of init's `--name`: of other commands it names a run."""
PROJECT = """\
# This folder is a project: each run has it whole. What its runs take; all keys: docs/reference/options.md
# workers = 4                       # ranks over the cluster (default: one a core)
# outputs = ["out/*.txt"]           # files that come back at the end of a run

# [environment]
# requirements = "requirements.txt" # packages that the nodes get for its runs

# A script as a workload, which is timed and compared: docs/how-to/own-workload.md
# [workloads.own]
# about = "What it does"
# command = "train.py"
# frameworks = ["single", "torch", "ray"]
"""


@task(
    iterable=["host"],
    help={
        "name": NAME,
        "host": "[NAME=][USER@]ADDRESS[:PORT][,CLUSTER_ADDRESS], ADDRESS as SSH knows it; again for each host",
        "user": "that logs in where a host says none; needs sudo without a password",
        "key": "path of the private key, or agent, for hosts to which your SSH configuration gives none",
        "head": "name of the host that has the services (default: the first)",
        "head_only": "the head runs no ranks",
        "services": "with commas between, or none (a wrong name is answered with all)",
        "yes": "ask nothing: what is not said is as offered",
        "no_check": "write it, and do not look at the hosts",
    },
)
def init(
    c: Context,
    name: str | None = None,
    host: Sequence[str] | None = None,
    user: str | None = None,
    key: str | None = None,
    head: str | None = None,
    head_only: bool = False,
    services: str | None = None,
    yes: bool = False,
    no_check: bool = False,
) -> None:
    """Ask for your hosts, write an inventory of them and a regatta.toml, and check the hosts; overwrites nothing."""
    from regatta.provisioning import commands, questions
    from regatta.terminal.confirm import Questions

    if not yes and not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask on: add --host [USER@]ADDRESS for each host, and --yes; "
            f"'{hint('init --help')}' has the flags for all else"
        )
    given = questions.Given(name, host or (), user, key, head, head_only or (False if yes else None), services)
    try:
        made = questions.draft(Questions(yes=yes), given)
    except (EOFError, KeyboardInterrupt) as error:
        print("\nnothing was written", file=sys.stderr)
        raise Exit(code=130 if isinstance(error, KeyboardInterrupt) else UsageError.exit_code) from None
    folder = made.write(questions.PARENT)
    print(f"{folder}: made, {len(made.hosts)} host(s), head {made.head}; edit {folder / 'hosts.yml'} as you like")
    print(_project(Path.cwd()))
    if not no_check:
        checked = about_hosts("check", inventory=str(folder))
        print(f"\n{checked}", flush=True)
        if code := commands.main(["check", "--inventory", str(folder)]):
            print(f"\nThe inventory stays. Solve what is named above, then '{checked}'", file=sys.stderr)
            raise Exit(code=code)
    print(f"\nNext: {about_hosts('provision', inventory=str(folder))}")
    print(f"For all commands of this shell: export REGATTA_INVENTORY={folder.absolute()}")


def _project(folder: Path) -> str:
    """Write a `regatta.toml` where there is none; what was done."""
    if there := project.find(folder):
        return f"{there / project.FILE}: is there already, and is left as it is"
    if folder == paths.PROJECT:
        return (
            f"{project.FILE} (what runs of a project fetch and keep): not made, because this folder is Regatta's own; "
            "make one in the folder of your program"
        )
    files.write(folder / project.FILE, PROJECT)
    return f"{project.FILE}: made; it says what runs of this folder take"


@task(
    positional=["head"],
    further="name",
    help={
        "head": "[USER@]ADDRESS[:PORT] of the cluster's head, as your ssh knows it; you need sudo there, or membership",
        "name": "of the inventory, which becomes inventory/NAME (default: the cluster's)",
        "key": "path of your private key (default: what your SSH configuration says)",
        "fingerprint": "SHA256:... that the head must show: then no one is asked",
    },
)
def join(c: Context, head: str, name: list[str], key: str | None = None, fingerprint: str | None = None) -> None:
    """Make an inventory of a cluster that is there, from what its head keeps, over your own login."""
    from regatta.provisioning import joining, questions

    if len(name) > 1:
        raise UsageError(f"one name is enough for an inventory, not {', '.join(name)}")
    made = joining.join(head, name[0] if name else None, key, fingerprint, questions.PARENT)
    print(
        f"{made.folder}: made, {len(made.kept.hosts)} host(s), head {made.kept.head}; your login: {made.folder}/own.yml"
    )
    if made.member:
        print(f"{made.user} is a member without sudo: for runs, and nothing else (own.yml has regatta_member)")
    elif made.user not in made.kept.accounts:
        provision = about_hosts("provision", inventory=str(made.folder))
        print(f"The firewall lets {made.user} reach the pages of Ray and HDFS once you have run '{provision}'")
    print(f"Next: {hint('runs' if made.member else 'status', f'--inventory {made.folder}')}")
    print(f"For all commands of this shell: export REGATTA_INVENTORY={made.folder.absolute()}")


@task(help={"yes": "do not ask (also CONFIRM=yes)", "json": f"at the end {JSON_HELP}"})
def pull(c: Context, inventory: str | None = None, yes: bool = False, json: bool = False) -> None:
    """Say how an inventory differs from what its head keeps, and bring it up to date (hosts, keys, secrets)."""
    from regatta.provisioning import joining

    path = inventories.choose(inventory)
    cluster = inventories.load(str(path))
    done = joining.pull(path, cluster, yes=yes, told=sys.stderr if json else sys.stdout)
    if json:
        from regatta.tasks import shown

        shown.say(shown.Pulled(str(cluster.folder), [*done]))
    else:
        print(f"{cluster.folder}: {'brought up to date' if done else 'is up to date'}")


@task(help={"local": "on this machine only, with what pip has installed"})
def demo(c: Context, local: bool = False) -> None:
    """Show all of it: hosts made on this machine (in a checkout), provisioned, one workload compared; or --local."""
    script = paths.PROJECT / "tools/demo.sh"
    if local:
        _here()
    elif paths.INSTALLED or not script.is_file():
        raise UsageError(
            f"only a checkout can make hosts for it: '{hint('demo --local')}' runs on this machine only, and "
            f"'{hint('init')}' begins with hosts of your own"
        )
    else:
        sys.stdout.flush()
        os.execv(script, [str(script)])


def _here() -> None:
    from regatta.experiments import plan_file, plans

    plan = plan_file.load(DEMO, folder=paths.PROJECT)
    point, *_ = plans.expand(plan, 1)
    own = {point.of.card.size: point.size} if point.of.card.size else {}
    with opened(str(paths.PROJECT / "inventory/local")) as cluster:
        root = cluster.remote.cluster.head.root
        print(f"{DEMO}: {plan.about}\nOn this machine only: {', '.join(point.frameworks)}. Ctrl-C ends it.")
        print(f"Records go to {paths.results_dir()}/, all else to {root}; you may delete both.\n", flush=True)
        asked = {"framework": ",".join(point.frameworks), "workers": point.workers, "repeats": plan.repeats}
        show(cluster.console, cluster.compare(point.workload, **own, **point.parameters, **asked), None)
    print(f"\nMore of it: '{hint('runs')}', '{hint('report')}'; your own script: see '{hint('torchrun --help')}'.")
    print(f"Hosts of your own: '{hint('init')}'.")
