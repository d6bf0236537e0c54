"""The declarations of services in `ansible/roles/<role>/service.yml`, but for what Ansible evaluates on a host."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from regatta import paths
from regatta.errors import RegattaError

ROLES = paths.PROJECT / "ansible/roles"
LAST = 1000
"""The place of a service that says no order: behind the others."""
FIELDS = {
    "title": "what people call it",
    "order": "its place among services; without it the last",
    "enabled": "whether the cluster has it; without it always",
    "environment": "true: it runs in the Python environment of nodes, and is set up after that",
    "units": "its systemd units, `regatta-*`",
    "starts": "how `up` starts them: `together` on all nodes, or `head first`; without it `up` and `down` leave them",
    "restart_ends": "runs that end when it restarts: `all`, or those that it takes (`own`)",
    "packages": "Debian packages that this host needs; `one|other`: either",
    "known_packages": "patterns of all that these may be, for a teardown that finds no note of what was installed",
    "unstarted": "packages whose own unit is kept from starting",
    "java_names": "whether it needs names of hosts that Java accepts",
    "java_home": "the variable that names a Java where no package has one",
    "javas": "the Java that it names here, as variable and home, oldest, newest",
    "accounts": "its accounts, which may connect to guarded ports; `tasks/account.yml` makes them before the firewall",
    "ports": "variables with the ports at which it listens",
    "listens": "whether it does on this host; without it always",
    "port_ranges": "ranges at which only accounts of the cluster may connect",
    "run_accounts": "accounts of one person's runs: `name`, `number`, and `ports`, where only these runs connect",
    "guarded": "true: it believes whoever connects, so that its ports are for accounts of the cluster only",
    "ways_in": "networks beyond the cluster that reach ports: `networks`, `ports`",
    "secrets": "tokens by name, see `Secret`",
    "foreign": "the file of `secrets/` with the address of such a service that is not Regatta's",
    "hidden": "paths that the metrics of runs may not read",
    "files": "patterns of configuration for the support bundle",
    "verify": "whose answer `tasks/verify.yml` registers as `<role>_verified`: each `node`'s or the `cluster`'s",
    "metrics": "jobs of Prometheus: `job`, `path`, `relabel`, `often`, `honor_labels`, `targets` (port, hosts, labels)",
    "metrics_module": "what tells of it to Prometheus on nodes: a file below `regatta/`",
    "panels": "charts for Grafana: rows by title, of `title`, `unit`, maybe `min` and `max`, and `series` by legend",
    "alerts": "rules for Prometheus: `alert`, `expr`, `for`, and `summary`, a sentence",
    "pages": "its web pages on the head: `title`, `port`, and `host` where that is not the head's loopback",
    "data": "where people's files are, as they call it; a teardown removes them if `<role>_destroy` is the cluster",
    "bundle": "the archive that `tasks/bundle.yml` has fetched: `path`, and the fields of `Archive` of a bundle",
    "removed": "paths outside of Regatta's folders that a teardown removes",
    "gone": "paths that must be gone after a teardown",
}
"""The fields that a service may declare. Strings may be Jinja with the role's variables, but for what `Part` holds."""
TOGETHER, HEAD_FIRST = "together", "head first"


@dataclass(frozen=True)
class Secret:
    """A token by which the daemons of a service know each other.

    `path`: the file on nodes that holds it, whole, or as the value of the setting `line`. `optional`: it exists only
    where the cluster has the service.
    """

    name: str
    path: str
    line: str = ""
    optional: bool = False


@dataclass(frozen=True)
class Part:
    """The fields of a service that the controller reads; see `FIELDS`."""

    role: str
    title: str
    order: int = LAST
    units: tuple[str, ...] = ()
    starts: str = ""
    restart_ends: str = ""
    secrets: tuple[Secret, ...] = ()
    foreign: str = ""
    files: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    ranged: bool = False
    """Whether it has ranges of ports, too."""
    enabled: str = ""
    panels: int = 0
    """Its charts for Grafana."""
    data: str = ""


@functools.cache
def every(roles: Path = ROLES) -> tuple[Part, ...]:
    """Return the services in the order in which they are set up. Raises RegattaError where a declaration is wrong."""
    found = (read(path) for path in sorted(roles.glob("*/service.yml")))
    return tuple(sorted(found, key=lambda part: (part.order, part.role)))


def read(path: Path) -> Part:
    """Return what one file declares. Raises RegattaError, with the fields that are unknown or missing."""
    try:
        said: dict[str, Any] = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise RegattaError(f"{path}: {error}") from error
    if unknown := sorted({*said} - {*FIELDS}):
        raise RegattaError(f"{path}: there is no field {', '.join(unknown)}; there are {', '.join(sorted(FIELDS))}")
    if not {"title", "units"} <= {*said}:
        raise RegattaError(f"{path}: a service has a title and units")
    if said.get("starts", TOGETHER) not in (TOGETHER, HEAD_FIRST):
        raise RegattaError(f"{path}: starts is '{TOGETHER}' or '{HEAD_FIRST}', not '{said['starts']}'")
    return Part(
        path.parent.name,
        said["title"],
        said.get("order", LAST),
        tuple(said["units"]),
        said.get("starts", ""),
        said.get("restart_ends", ""),
        tuple(Secret(name, **value) for name, value in said.get("secrets", {}).items()),
        said.get("foreign", ""),
        tuple(said.get("files", ())),
        tuple(said.get("ports", ())),
        "port_ranges" in said,
        said.get("enabled", ""),
        sum(len(charts) for charts in said.get("panels", {}).values()),
        said.get("data", ""),
    )


def find(role: str) -> Part:
    """Return the service of a role. Raises RegattaError where it is none."""
    for part in every():
        if part.role == role:
            return part
    raise RegattaError(f"{ROLES / role} declares no service")


def units(starts: Sequence[str] = (TOGETHER, HEAD_FIRST)) -> tuple[str, ...]:
    """Return the units that `up` starts in one of these ways."""
    return tuple(unit for part in every() if part.starts in starts for unit in part.units)


def with_data() -> tuple[Part, ...]:
    """Return the services that keep people's files, which a teardown leaves."""
    return tuple(part for part in every() if part.data)


def places_of_data() -> str:
    """Where these files are, for a person: `HDFS and in ...`."""
    return " and in ".join(part.data for part in with_data())


def secrets() -> tuple[Secret, ...]:
    """Return the secrets of all services."""
    return tuple(secret for part in every() for secret in part.secrets)
