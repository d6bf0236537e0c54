"""Debian packages that a project names (`apt` in its `regatta.toml`): there before its run, or the run is refused."""

from collections.abc import Callable, Mapping

from regatta.errors import EnvironmentFault
from regatta.hosts.remote import Remote
from regatta.program import about_hosts
from regatta_protocol.operations.debian import InstallDebian
from regatta_protocol.operations.launch import Inspected

SECONDS = 600.0


def ready(remote: Remote, answers: Mapping[str, Inspected], say: Callable[[str], None]) -> None:
    """Install what nodes lack, where Regatta may. EnvironmentFault names each node that still lacks a package."""
    lacking = {name: answer.lacking for name, answer in answers.items() if answer.lacking}
    if not lacking:
        return
    for packages, where in _folded({name: ", ".join(packages) for name, packages in lacking.items()}):
        say(f"environment: installing the Debian package(s) {packages} on {where}")
    nodes = [remote.cluster.node(name) for name in lacking]
    done, failed = remote.gather(
        nodes, lambda node: remote.call(node, InstallDebian(tuple(lacking[node.name])), timeout=SECONDS)
    )
    wrong = {name: said.error for name, said in done.items() if said.error}
    wrong |= {name: str(error) for name, error in failed.items()}
    if wrong:
        told = _folded({name: f"{', '.join(lacking[name])}: {why}" for name, why in wrong.items()})
        lines = "\n".join(f"  {where}: {what}" for what, where in told)
        raise EnvironmentFault(
            f"the project needs Debian packages (apt in regatta.toml) that could not be installed:\n{lines}\n"
            f"Install them there, or name them in the inventory's base_more_packages: '{about_hosts('provision')}' "
            "installs them, also on hosts without internet"
        )


def _folded(said: Mapping[str, str]) -> list[tuple[str, str]]:
    """The nodes' texts, each once, with the names of its nodes."""
    return [(text, ", ".join(name for name in said if said[name] == text)) for text in dict.fromkeys(said.values())]
