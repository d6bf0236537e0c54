"""Services that would restart under runs: `make check` says which runs that ends, provisioning refuses it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from regatta.errors import RegattaError, RunError
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.program import hint, option
from regatta.provisioning import playbook
from regatta.run import catalogue, services
from regatta.run.catalogue import RunInfo
from regatta.services import parts
from regatta_protocol.states import State

Restarts = Mapping[str, Sequence[str]]


def provision(
    inventory: Path, cluster: Cluster, extra: Sequence[str], bundle: Path | None, command: str, *, force: bool = False
) -> int:
    """Provision, unless that ends runs in progress; returns Ansible's exit code.

    Only where runs are in progress, Ansible is first asked what it would restart. RunError names runs that this would
    end, unless `force`, which cancels them. `command` is what was typed.
    """
    remote = Remote(cluster)
    if runs := going(remote):
        code, said = playbook.foresee("provision", inventory, cluster, extra, bundle)
        if code:
            print(said, flush=True)
            names = ", ".join(info.run for info in runs)
            what = f"what provisioning would restart is not known (see above), and still running: {names}"
            refuse_or_cancel(remote, runs, what, command, force=force)
        elif hit := ended_by(runs, playbook.restarts(cluster)):
            restarted = _sentence(playbook.restarts(cluster))
            refuse_or_cancel(remote, hit, f"{restarted}, which ends {named(hit)}", command, force=force)
    return playbook.play("provision", inventory, cluster, extra, bundle)


def check(inventory: Path, cluster: Cluster, extra: Sequence[str], bundle: Path | None) -> int:
    """Say what provisioning would change, and which runs it would end. Returns Ansible's exit code."""
    code = playbook.play("provision", inventory, cluster, extra, bundle)
    if restarts := playbook.restarts(cluster):
        hit = ended_by(going(Remote(cluster)), restarts)
        refused = f"which ends {named(hit)}: it refuses that without {option(force=True)}"
        more = refused if hit else "no run needs it now"
        restarted = _sentence(restarts)
        print(f"{cluster.name}: {restarted}; {more}", flush=True)
    return code


def ended_by(runs: Sequence[RunInfo], restarts: Restarts) -> list[RunInfo]:
    """Runs that do not outlive these units: those of a service that restarts, and of HDFS all that may read it."""
    units = [unit for held in restarts.values() for unit in held]
    everybody = any({*part.units} & {*units} for part in parts.every() if part.restart_ends == "all")
    return [info for info in runs if everybody or set(info.adapter.units) & set(units)]


def refuse_or_cancel(remote: Remote, runs: Sequence[RunInfo], why: str, command: str, *, force: bool = False) -> None:
    """Raise RunError with the reason and the command to run again, unless `force`, which cancels the runs."""
    if runs and not force:
        raise RunError(
            f"{why}. Wait for them, cancel them ({hint('cancel', 'RUN')}), or all: {command} "
            f"{option(force=True)}. Nothing was changed"
        )
    for info in runs:
        catalogue.cancel(remote, info)
        print(f"{info.run}: cancelled", flush=True)


def going(remote: Remote) -> list[RunInfo]:
    """Runs in progress, as far as nodes answer: those of a bare or dead host are preflight's."""
    try:
        found, _ = catalogue.listing(remote)
    except RegattaError:
        return []
    return [info for info in found if info.state is State.RUNNING]


def named(runs: Sequence[RunInfo]) -> str:
    """`ppr-1 (ray), train-2 (torch)`."""
    return ", ".join(f"{info.run} ({info.framework})" for info in runs)


def _sentence(restarts: Restarts) -> str:
    parts = []
    for service, units in services.every().items():
        if hosts := [host for host, held in restarts.items() if {*held} & {*units}]:
            parts.append(f"{service} on {', '.join(hosts)}")
    return f"{' and '.join(parts)} would restart or be removed"
