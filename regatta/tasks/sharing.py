"""Tasks of people who share a cluster: join, pull (imports: see `regatta.tasks.runs`)."""

from invoke.context import Context

from regatta.errors import UsageError
from regatta.hosts import inventories
from regatta.program import about_hosts, hint
from regatta.tasks.common import task


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
        print(f"The firewall lets {made.user} reach Ray and HDFS through SSH once you have run '{provision}'")
    print(f"Next: {hint('runs' if made.member else 'status', f'--inventory {made.folder}')}")
    print(f"For all commands of this shell: export REGATTA_INVENTORY={made.folder.absolute()}")


@task(help={"yes": "do not ask (also CONFIRM=yes)"})
def pull(c: Context, inventory: str | None = None, yes: bool = False) -> None:
    """Say how an inventory differs from what its head keeps, and bring it up to date (hosts, keys, secrets)."""
    from regatta.provisioning import joining

    path = inventories.choose(inventory)
    cluster = inventories.load(str(path))
    done = joining.pull(path, cluster, yes=yes)
    print(f"{cluster.folder}: {'brought up to date' if done else 'is up to date'}")
