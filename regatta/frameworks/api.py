"""A framework as the controller sees it: one adapter, which has everything that differs between frameworks.

To add a framework, write `regatta/frameworks/NAME/adapter.py` with a class of `Framework` and one object of it,
`FRAMEWORK`; one that is another by its own name is an entry of `table.py`. A user's own package names that
object as an entry point of the group `regatta.frameworks`. Nothing else of the controller changes. Only `specs` must
be written; all else has a default, that of plain ranks:

- **Ranks that are started one by one** (MPI, a queue, sockets): `specs` gives each rank its program and the variables
  by which ranks find each other; `regatta.frameworks.spec` has the parts that all share. `torch/adapter.py` does so.
- **One host only** (multiprocessing): `hosts` gives the head.
- **A driver** that speaks for all ranks, as rank -1 on the head: `driver = True`, and `nodes` has the head. Its end
  is the run's end; other processes end by themselves then.
- **A service of the cluster** that takes runs (Ray, Spark's master): `served`, `asks` and `open` with a
  `JobService`, and a `Judge` that asks the service how the run goes; `service`, `units` and `pages` for `fab up`,
  `down`, `status` and `dashboard`. `ray/` and `spark/` do so.

Code that answers requests about it on nodes is in `node/` of its folder, code that goes with a run in `run/`. The
workloads' side of a framework is `workloads/common/frameworks/NAME.py`; neither imports the other.
"""

import abc
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regatta.errors import UsageError
from regatta.frameworks.plan import Plan, Program
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta_protocol.run import Spec, Started

UNWALLED = (
    "its ranks listen on all addresses of a host and believe whoever reaches them, and on this machine no firewall of "
    "ours keeps others away: --framework single works here, and clusters have a firewall"
)
MIB = 1 << 20
SETTLE_SECONDS = 6.0
"""Seconds to wait for a run that is over where nodes have not yet reported their end."""


class JobService(abc.ABC):
    """The service that takes a framework's runs on a cluster, reached from here: one object for all runs of a
    session.
    """

    @abc.abstractmethod
    def look(self) -> Any:
        """Return what the service says of its members now. It is asked while the release is being proven."""

    @abc.abstractmethod
    def wait(
        self, nodes: Sequence[Node], seen: Any, answers: Mapping[str, Mapping[str, Any]], say: Callable[[str], None]
    ) -> None:
        """Wait until the nodes are members. `seen` is what `look` gave, `answers` what nodes said to `asks`.

        `say` gets the names of nodes that are waited for. Raises LaunchError with the names of those that do not come.
        """

    def capacity_error(self, plan: Plan) -> str | None:
        """Return what a plan asks that the service has not, now that its members are there; None where it has all."""
        return None

    @abc.abstractmethod
    def members(self, nodes: Sequence[Node], answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Addresses of the nodes that are members now, each as often as the service counts it. `answers`: see `wait`.

        A node that could not be asked has no answer.
        """


@dataclass(frozen=True)
class Page:
    """A web page of a framework's service on the head, and its port there.

    `check` proves that it answers at a local port that leads there, and returns what a person reads with its address.
    Raises LaunchError. `host`: where the port is, if that is not the head's loopback. `passing`: of a run in progress,
    with which it ends.
    """

    name: str
    port: int
    check: Callable[[int], str]
    host: str | None = None
    passing: bool = False


@dataclass(frozen=True)
class StartedRun:
    """A run that has been started: what it takes to follow, end and record it.

    `ranks`: the name of each rank's node. `service`: what runs it, where that is a service of the cluster and can be
    asked. `answers`: what each node said when it was started there.
    """

    run: str
    cluster: Cluster
    nodes: tuple[Node, ...]
    framework: "Framework"
    ranks: Mapping[int, str]
    service: JobService | None = None
    answers: Mapping[str, Started] = field(default_factory=dict)

    @property
    def interfaces(self) -> dict[str, str | None]:
        """The interface that holds each node's address in the cluster."""
        return {name: answer.interface for name, answer in self.answers.items()}

    @property
    def owner(self) -> str:
        """Whose run it is, by the login on its nodes; '' where it is not known."""
        return next((answer.owner for answer in self.answers.values() if answer.owner), "")

    def strangers(self, node: Node) -> dict[str, float] | None:
        """Return what processes outside of Regatta had used on a node, see `regatta.node.contention`; None: not
        known.
        """
        return self.answers[node.name].strangers if node.name in self.answers else None

    def energy(self, node: Node) -> dict[str, float] | None:
        """The counters of the energy of a node's processors and GPUs at the run's start; None: not known."""
        return self.answers[node.name].energy if node.name in self.answers else None


@dataclass(frozen=True)
class Blame:
    """The process because of which a run failed: its node, its rank where that is known, and how it ended."""

    node: str
    rank: int | None
    cause: str


class Judge:
    """Decides of one run that is followed when it is over and whose failure it is. This one: plain ranks.

    It is over when every node reports its end, and the first failure is to blame. All methods but `poll` are called by
    one thread. `whole_log`: whether it hears every line, or only the events.
    """

    def __init__(self, handle: StartedRun, *, whole_log: bool = True) -> None:
        self.handle = handle
        self.whole_log = whole_log

    def poll(self) -> Any:
        """Ask the service of the run, again and again in its own thread, until this gives what is not None."""
        return None

    def on_state(self, answer: Any) -> None:
        """Take the answer of `poll`."""

    def on_line(self, rank: int | None, text: str) -> None:
        """A line that a rank or a driver has printed."""

    def over(self, ended: Mapping[str, float]) -> bool:
        """Whether the run is over; `ended` maps nodes that have told their end to the time of time.monotonic()."""
        return all(node.name in ended for node in self.handle.nodes)

    def outlives(self, node: str) -> bool:
        """Whether the run continues without a node that is lost, or that has lost the run."""
        return False

    def failed(self) -> bool:
        """Whether the service says that a run which is over has not succeeded."""
        return False

    def blame(self, rank: int | None, last_lines: Sequence[str]) -> Blame | None:
        """Whom to blame for a process that failed, where that is another one; `last_lines` are what it printed last."""
        return None

    def failure_message(self) -> str | None:
        """Return what the service says of a run that failed without a word of any process."""
        return None

    def died(self, node: str, daemons: Sequence[str]) -> str:
        """In words that daemons of the service have died on a node in mid-run."""
        return f"{' and '.join(daemons)} on {node} died in mid-run"


class Framework(abc.ABC):
    """Everything that differs between one framework and others, on the controller's side. It has no state."""

    name: str
    """As in `--framework`, in records and in names of runs: a-z, 0-9 and `-`."""
    title: str = ""
    """As a person calls it, where that is not its name."""

    command: str = ""
    """The command that runs a person's script under it: `torchrun`."""
    single: bool = False
    """Whether it is one process on the head that takes the work of all ranks: what a cluster has to beat."""
    driver: bool = False
    """Whether a driver on the head (rank -1) speaks for all ranks: the run is ready, and ends, when the driver says."""
    followed: str = ""
    """Why its runs need a controller that follows them to their end; empty where the nodes alone do."""
    launchers: tuple[str, ...] = ()
    """The values of `--launcher`; empty where ranks meet in one way only."""
    packages: tuple[str, ...] = ()
    """Packages of the nodes' environment that it is: versions of them are recorded, and no layer brings another one
    where that can be avoided."""
    companions: frozenset[str] = frozenset()
    """Packages that are compiled for one build of these, and have the same local label in their versions: `+cpu`."""
    cpu_builds: str = ""
    """The index that has builds of these without CUDA."""
    sets: str = ""
    """Names of variables, as a regular expression, by which its processes find each other: users may not set them."""
    fixed: tuple[str, ...] = ()
    """Packages that its runs have as the nodes have them, whatever their lists say: its services are made of them."""
    requirements: tuple[str, ...] = ()
    """Packages that its runs need beyond the nodes' environment, as in a list of requirements: `dask>=2024`."""
    meets: str = ""
    """Files, as a regular expression, of functions in which a rank waits for others, as far as Python runs there."""
    secondary_exit_codes: frozenset[int] = frozenset()
    """Codes with which a rank exits where another one is gone: who has exited otherwise is to blame."""
    service: str = ""
    """The name of the service that takes its runs on a cluster, where it is `served`: as people call it."""
    units: tuple[str, ...] = ()
    """Systemd units of that service, which `fab up` and `down` start and stop; a new start ends its runs."""
    foreign_file: str = ""
    """The file next to it in which provisioning keeps the address of such a service that is not Regatta's."""

    port_each_rank: bool = False
    """Whether each rank is to have its own free port (`Plan.ports`)."""

    walled: bool = False
    """Whether its ranks believe whoever reaches them, at all addresses: without our firewall it is refused."""

    backend: str | None = None
    """The protocol by which ranks talk, for the record."""
    gpu_backend: str | None = None
    """The same where the run has GPUs of its own; None: `backend`."""
    token: bool = False
    """Whether its processes know each other by a token, for the record."""
    interfaces: bool = False
    """Whether ranks talk over the interface of `cluster_address`, so that the record names it."""

    own_cores: bool = False
    """Whether its service starts no more workers than the cluster has cores."""
    rank_bytes: int = 400 * MIB
    """A rank's own memory by estimate: Python, the framework, its buffers."""
    driver_bytes: int = 0
    """The processes of a run besides its ranks, on the head."""
    start_seconds: float = 10.0
    """Everything but the work by estimate, on a machine of 2 cores."""

    def without_gpus(self, program: Program, packages: Mapping[str, str]) -> str | None:
        """Why ranks of a program, with these packages, use no GPUs; empty where no one expects it. None: they do."""
        return ""

    def available(self, cluster: Cluster) -> str | None:
        """Why the cluster cannot run it, in words that follow the name of the framework; None where it can."""
        return UNWALLED if self.walled and cluster.local else None

    def headline(self, plan: Plan) -> str:
        """Return how a run is started, in the first line that a person sees."""
        return self.title or self.name

    def launcher(self, restarts: int) -> str:
        """Return how ranks meet where no launcher is named; `restarts`: how often lost ranks are started again."""
        return "env"

    def rendezvous(self, plan: Plan) -> str | None:
        """Return how ranks meet, for the record."""
        return None

    def check(self, plan: Plan) -> None:
        """Raise UsageError where it cannot do what the plan asks, before anything is started."""
        if self.launchers and plan.launcher not in self.launchers:
            raise UsageError(f"--launcher must be one of {', '.join(self.launchers)}, not '{plan.launcher}'")

    def hosts(self, cluster: Cluster) -> tuple[Node, ...]:
        """The nodes that ranks may be on."""
        return (cluster.head,) if self.single else cluster.workers

    def nodes(self, plan: Plan, cluster: Cluster) -> tuple[Node, ...]:
        """The nodes that take part in a run: those with ranks, and where there is a separate driver its node."""
        return plan.nodes

    @abc.abstractmethod
    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """Return what each node that takes part starts, by its name. A pure function."""

    def secrets(self, plan: Plan) -> Mapping[str, str]:
        """Variables made for this run only, by which its processes know each other; their values are hidden."""
        return {}

    def served(self, cluster: Cluster) -> bool:
        """Whether a service of the cluster takes its runs: nodes then have the run's folder, and not its processes."""
        return False

    def foreign(self, cluster: Cluster) -> str | None:
        """The address of another service, not Regatta's, that takes its runs on this cluster; None: there is none."""
        if not self.foreign_file or cluster.local:
            return None
        path = cluster.folder / "secrets" / self.foreign_file
        return path.read_text().strip() if path.is_file() else None

    def provides(self, cluster: Cluster) -> Mapping[str, str]:
        """Return the versions of packages that its service has on this cluster, besides the nodes' environment."""
        return {}

    def asks(self, cluster: Cluster) -> Mapping[str, str]:
        """Return what every node is asked with the release, for `JobService.wait`: functions of `node/` in the
        framework's folder, as `framework.module.function`, by the name of each answer.
        """
        return {}

    def open(self, remote: Remote) -> contextlib.AbstractContextManager[JobService]:
        """The service that takes its runs, where it is `served`. Raises RegattaError where it cannot be reached."""
        raise NotImplementedError(f"{self.name} has no service")

    def pages(self, remote: Remote) -> Sequence[Page]:
        """The web pages of its service and of runs in progress, for `fab dashboard`."""
        return ()

    def stalls(self, remote: Remote, run: str) -> list[str]:
        """Sentences about what a run in progress asks of the service that takes it, and does not get."""
        return []

    def judge(self, handle: StartedRun, *, whole_log: bool = True) -> Judge:
        """Return who decides how a run goes that is followed from here: an object for only this run."""
        return Judge(handle, whole_log=whole_log)
