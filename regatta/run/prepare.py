"""A request made ready to start: the release on every node, ranks in their places, services that answer."""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from regatta import paths
from regatta.cards import project
from regatta.environment import python_range
from regatta.environment.layer_cache import Layer, Layers
from regatta.environment.own import OwnPackage
from regatta.environment.requirements import Requirements
from regatta.environment.variables import Variables
from regatta.errors import EnvironmentFault, UsageError
from regatta.frameworks import plan, registry
from regatta.frameworks.api import Framework, JobService
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.program import hint
from regatta.projects import packages, place
from regatta.records.clocks import Clocks
from regatta.release import sync, tree
from regatta.run import catalogue, firewall, gpus, kept_folders, naming, placement, queue, recording, system_packages
from regatta.run.request import Request
from regatta.terminal.console import Console
from regatta_protocol.operations.launch import Inspect, Inspected
from regatta_protocol.operations.layers import WantedLayer
from regatta_protocol.operations.queue import HoldNodes

LOCK = paths.PROJECT / "requirements/layers.lock"
"""Versions and hashes of what Regatta itself brings as layers: what its frameworks and workloads need."""
MOST_PORTS = 64
"""Ports of a node that a run has for its ranks, of those that are kept from other accounts."""


@dataclass(frozen=True)
class Ready:
    """A run that can be started: all that its start and its record need.

    `nodes`: those that take part; `facts`: of each what it is. `about`: what the record says of the run before it
    starts. `asked_at` and `synced_at`: when it was asked for, and the release was proven, by time.monotonic(), without
    the time in the queue. `turn`: the nodes that it holds there.
    """

    plan: plan.Plan
    framework: Framework
    service: JobService | None
    nodes: tuple[Node, ...]
    facts: Mapping[str, Mapping[str, Any]]
    about: Mapping[str, Any]
    asked_at: float
    synced_at: float
    turn: queue.Turn | None = None

    def leave(self) -> None:
        """Give back the nodes that it holds in the cluster's queue."""
        if self.turn:
            self.turn.close()

    @property
    def places(self) -> dict[int, str]:
        """The name of each rank's node."""
        return {rank.rank: rank.node.name for rank in self.plan.ranks}

    def clocks(self) -> Clocks:
        """The run's timers, of which that of its launch goes since the release was proven."""
        made = Clocks(len(self.plan.ranks), driver=self.framework.driver)
        made.sync_seconds = self.synced_at - self.asked_at
        made.start(self.synced_at)
        return made

    def at(self, now: float) -> "Ready":
        """The same, as if its release had been proven just now: of a run that waited for another to be ready."""
        return replace(self, asked_at=now - (self.synced_at - self.asked_at), synced_at=now)

    def kept_on(self, node: Node) -> dict[str, Any]:
        """Return what a node keeps for the record."""
        return {**self.about, "facts": self.facts[node.name]}


@dataclass(frozen=True)
class _Brought:
    """The parts of a run that nodes have: `imports` are the folders of the tree from which it imports."""

    source: tree.Tree
    variables: Variables
    answers: Mapping[str, Inspected]
    layer: Layer | None
    imports: tuple[str, ...]


class Preparer:
    """Makes requests ready on one cluster; what it has reached and said serves all of them."""

    def __init__(self, remote: Remote, console: Console) -> None:
        self._remote = remote
        self._cluster = remote.cluster
        self._console = console
        self._stack = contextlib.ExitStack()
        self._pool = ThreadPoolExecutor(1)
        self._services: dict[str, Future[JobService]] = {}
        self._told: set[str] = set()
        self.held: queue.Turn | None = None
        """The nodes that all its runs have together."""
        self._layers = Layers(remote, console.note)

    def close(self) -> None:
        """Leave the services that were reached."""
        self._pool.shutdown(wait=True)
        self._stack.close()

    def reconnect(self) -> None:
        """Reach services again at the next run: the head was away."""
        self._services.clear()

    def ready(self, request: Request) -> Ready:
        """Sync, place the ranks, wait for the service that takes the run. Raises RegattaError."""
        started, asked_at = recording.now(), time.monotonic()
        framework = registry.find(request.framework)
        if why := framework.available(self._cluster):
            raise UsageError(f"{framework.name} cannot be used on {self._cluster.name}: {why}")
        if framework.walled:
            firewall.check(self._remote, framework)
        service = self._open(framework) if framework.served(self._cluster) else None
        seen = self._looked(service)
        brought = self._bring(request, framework)
        synced_at = time.monotonic()
        turn, told = None, set[str]()
        made = self._plan(request, framework, brought, told)
        with contextlib.ExitStack() as unless_ready:
            if wanted := self._wanted(request, made, framework, brought):
                turn = queue.Turn(self._remote, wanted, self._console.note)
                unless_ready.callback(turn.close)
            moved = turn and not {node.name for node in made.nodes} <= {*turn.nodes}
            if turn and (turn.waited or turn.cpus or made.cards or moved):
                asked_at += time.monotonic() - synced_at
                seen, brought = self._looked(service), self._bring(request, framework, turn.cpus)
                synced_at = time.monotonic()
                made = self._plan(request, framework, brought, told, turn)
            nodes = self._checked(made, framework, brought, service, seen)
            unless_ready.pop_all()
        source, answers, layer = brought.source, brought.answers, brought.layer
        facts = {name: answer.facts for name, answer in answers.items()}
        versions = (layer.packages if layer else {}, answers[self._cluster.head.name].packages)
        about = recording.asked(self._cluster, request, made, started, source.commit, source.dirty, *versions)
        open_service = service.result() if service else None
        return Ready(made, framework, open_service, nodes, facts, about, asked_at, synced_at, turn)

    def _looked(self, service: "Future[JobService] | None") -> "Future[Any] | None":
        return self._pool.submit(lambda: service.result().look()) if service else None

    def _wanted(self, request: Request, made: plan.Plan, framework: Framework, brought: _Brought) -> HoldNodes | None:
        """The turn for which the run has to wait, if it has to. UsageError where it cannot share nodes."""
        said, slurm = request.options, brought.answers[self._cluster.head.name].slurm
        waits = not (said.now or self.held or said.detach)
        if said.cores and not said.detach and not (waits and slurm):
            raise UsageError("--cores needs a turn in Slurm's queue: leave it out, or --now and --repeats")
        facts = {name: answer.facts for name, answer in brought.answers.items()}
        return queue.wanted(made, framework, self._cluster, facts, slurm=slurm) if waits else None

    def _checked(
        self,
        made: plan.Plan,
        framework: Framework,
        brought: _Brought,
        service: "Future[JobService] | None",
        seen: "Future[Any] | None",
    ) -> tuple[Node, ...]:
        """Prove that a plan can be carried out now; returns the nodes that take part. Raises RegattaError."""
        if made.options.memory and queue.places_itself(made, framework, self._cluster):
            raise UsageError(f"--memory: {framework.name} has its own limits: leave it out")
        going = [] if made.options.detach else self._end_what_is_left(brought.answers)
        framework.check(made)
        for line in kept_folders.clashes(made, going):
            self._console.warn(line)
        nodes = framework.nodes(made, self._cluster)
        if service and seen:
            told = {name: answer.told for name, answer in brought.answers.items()}
            service.result().wait(nodes, seen.result(), told, self._console.note)
            if why := service.result().capacity_error(made):
                raise UsageError(why)
        self._console.note(_headline(framework, made, self._cluster))
        return nodes

    def bring(self, request: Request) -> None:
        """Bring the tree and the packages of a run to the nodes before its times begin. Raises RegattaError."""
        self._bring(request, registry.find(request.framework))

    def _bring(
        self, request: Request, framework: Framework, granted: Mapping[str, Sequence[int]] | None = None
    ) -> _Brought:
        """Return the tree that every node has, variables, what each node says, and the layer of packages.

        `granted`: by node the CPUs that the run has there, counted from 0; without it all.
        """
        source = request.source or tree.read(request.root)
        variables = request.variables.beside(request.folder)
        variables.check_synced(source.root, {path for path, _, _ in source.entries})
        kept_folders.check(source, request.options.keep)
        self._tell(source.notes)
        wanted = self._layers.asked(
            _wish(request, framework), request.folder, framework.fixed, framework.provides(self._cluster)
        )
        mine = wanted.wanted.own if wanted else ()
        _must_be_synced(source, mine)
        ask = self._asked(framework, wanted.question() if wanted else None, request)
        answers = sync.sync(self._remote, source, self._cluster.nodes, ask=ask).answers
        if half := _half(request):
            answers = _halved(answers, half)
        if granted:
            answers = _shared(answers, granted)
        self._check_python(request, answers[self._cluster.head.name])
        system_packages.ready(self._remote, answers, self._console.note)
        imports = packages.folders(source.root, request.folder, tuple(source.root / one.path for one in mine))
        layer = self._layers.ready(wanted, answers) if wanted else None
        return _Brought(source, variables, answers, layer, imports)

    def _open(self, framework: Framework) -> "Future[JobService]":
        """Reach the service that takes a run while the release is being proven."""
        known = self._services.get(framework.name)
        if known is None or (known.done() and known.exception()):
            known = self._pool.submit(lambda: self._stack.enter_context(framework.open(self._remote)))
            self._services[framework.name] = known
        return known

    def _asked(self, framework: Framework, layer: WantedLayer | None, request: Request) -> dict[str, Inspect]:
        """Return what each node is asked with the release: free ports where ranks may be, and what the service
        needs.
        """
        asks = dict(framework.asks(self._cluster)) if framework.served(self._cluster) else {}
        apt = project.read(request.folder).apt
        every = Inspect(versions=registry.packages(), layer=layer, asks=asks, apt=apt)
        found = {node.name: every for node in self._cluster.nodes}
        free = min(request.options.workers or MOST_PORTS, MOST_PORTS) if framework.port_each_rank else 1
        for node in (self._cluster.head, *self._cluster.workers):
            packages = node.name == self._cluster.head.name
            found[node.name] = every.changed(ports=_range(request), free=free, packages=packages)
        return found

    def _check_python(self, request: Request, answer: Inspected) -> None:
        """Refuse a project for another Python than the nodes'; a line about a `.python-version`. EnvironmentFault."""
        python = answer.facts["versions"]["python"]
        if python and not request.environment.off:
            python_range.check(python, request.folder, request.script)
            if line := python_range.pinned(python, request.root.resolve(), request.folder):
                self._tell([line])

    def _tell(self, lines: Sequence[str]) -> None:
        """Say once what of a tree is not synced."""
        _once(lines, self._told, self._console.note)

    def _end_what_is_left(self, answers: Mapping[str, Inspected]) -> list[catalogue.RunInfo]:
        """End what is left of runs that have ended elsewhere; gives, and names, those that still run."""
        if not any(answer.unfinished for answer in answers.values()):
            return []
        for node, run in catalogue.end_stale(self._remote):
            self._console.warn(f"{node}: ended what was left there of {run}, which has ended elsewhere")
        going = [info for info in catalogue.listing(self._remote)[0] if info.state == "running"]
        for info in going:
            self._console.warn(
                f"{info.run} is running on {', '.join(node.name for node in info.nodes)}: times taken meanwhile are "
                f"marked, and left out of verdicts. For clean ones wait for its end, or '{hint('cancel', info.run)}'"
            )
        return going

    def _plan(
        self,
        request: Request,
        framework: Framework,
        brought: _Brought,
        told: set[str],
        turn: queue.Turn | None = None,
    ) -> plan.Plan:
        """Place the ranks, on the nodes of a turn if there is one. Lines that are in `told` are not told again."""
        source, answers, layer, variables = brought.source, brought.answers, brought.layer, brought.variables
        well, sick = gpus.well(framework, self._cluster, answers)
        if turn:
            well = {*well} - {node.name for node in self._cluster.workers} | ({*well} & {*turn.nodes})
        _once(sick, told, self._console.warn)
        cores = {name: answer.facts["cores"] for name, answer in answers.items() if name in well}
        said = request.options
        has = {**answers[self._cluster.head.name].packages, **(layer.packages if layer else {})}
        cluster = self._cluster.ordered(request.hosts)
        waits = not (turn or said.now or self.held) and answers[self._cluster.head.name].slurm
        cards = {name: gpus.granted(answers[name], turn.gpus.get(name) if turn else None, waits=waits) for name in well}
        chosen = gpus.choose(framework, request.program, said, cluster, cards, has)
        _once(chosen.lines, told, self._console.note)
        ranks = chosen.ranks or placement.placed(framework, said.workers, cluster, cores)
        _once(placement.crowded(ranks, cores), told, self._console.warn)
        name = naming.check_run_name(said.name) if said.name else turn.run if turn else None
        return plan.Plan(
            run=name or naming.new_run_name(request.program.label, request.framework),
            framework=request.framework,
            program=request.program,
            release=source.release,
            ranks=ranks,
            threads=placement.threads(ranks, cores, said.threads_per_rank),
            launcher=said.launcher or framework.launcher(said.restarts),
            options=said,
            master_port=next(iter(answers[ranks[0].node.name].ports), None),
            ports=_ports(ranks, answers) if framework.port_each_rank else {},
            cards=chosen.cards,
            cpus={
                name: tuple(answer.facts["cpus"])
                for name, answer in answers.items()
                if _half(request) or (turn and name in turn.cpus)
            },
            first_run=request.first_run,
            layer=layer.key if layer else None,
            below=place.inside(source.root, request.begins),
            folder=place.inside(source.root, request.folder),
            imports=brought.imports,
            variables=variables.public,
            hidden=variables.hidden,
            project=kept_folders.project(request.folder) if said.keep else None,
            former=kept_folders.former(request.folder) if said.keep else None,
        )


def _once(lines: Iterable[str], told: set[str], tell: Callable[[str], None]) -> None:
    for line in lines:
        if line not in told:
            told.add(line)
            tell(line)


def _half(request: Request) -> int | None:
    return request.series.half if request.series else None


def _range(request: Request) -> tuple[int, int]:
    """The ports from which a run gets its own; of a duet, whose runs ask before either has begun, each has a half."""
    low, high = plan.PORTS
    middle = (low + high) // 2
    return {None: (low, high), 1: (low, middle), 2: (middle + 1, high)}[_half(request)]


def _halved(answers: Mapping[str, Inspected], half: int) -> dict[str, Inspected]:
    """What nodes say of themselves, with one half of their cores; of an odd number one is left out."""
    made = {}
    for name, answer in answers.items():
        cpus = answer.facts["cpus"]
        own = (cpus[: len(cpus) // 2] if half == 1 else cpus[-(len(cpus) // 2) :]) if len(cpus) > 1 else cpus
        made[name] = _on(answer, own)
    return made


def _shared(answers: Mapping[str, Inspected], granted: Mapping[str, Sequence[int]]) -> dict[str, Inspected]:
    """What nodes say of themselves, with only the CPUs that the cluster's queue has given."""
    return {
        name: _on(answer, [answer.facts["cpus"][number] for number in granted[name]]) if name in granted else answer
        for name, answer in answers.items()
    }


def _on(answer: Inspected, cpus: Sequence[int]) -> Inspected:
    return answer.changed(facts={**answer.facts, "cpus": cpus, "cores": len(cpus)})


def _must_be_synced(source: tree.Tree, mine: Sequence[OwnPackage]) -> None:
    """EnvironmentFault for a package of the project's own of which nothing is synced."""
    for package in mine:
        if package.path and not any(path.startswith(f"{package.path}/") for path, _, _ in source.entries):
            raise EnvironmentFault(
                f"{package.path} has the package {package.name}, and nothing of it is synced, as git ignores it: add "
                f"'!/{package.path}/' to {tree.IGNORE_FILE}"
            )


def _wish(request: Request, framework: Framework) -> Requirements:
    """The packages that a run has: its project's, and those of its framework, with Regatta's own lock for these."""
    more = dict.fromkeys((*framework.requirements, *request.environment.more))
    asked = replace(request.environment, more=tuple(more), script=request.script)
    return replace(asked, lock=LOCK) if framework.requirements else asked


def _ports(ranks: Sequence[plan.Rank], answers: Mapping[str, Inspected]) -> dict[str, tuple[int, ...]]:
    """A free port for each rank, by node. Raises UsageError where a node has more ranks than ports."""
    found: dict[str, tuple[int, ...]] = {}
    for node in {rank.node.name: rank.node for rank in ranks}.values():
        wanted = sum(rank.node.name == node.name for rank in ranks)
        free = answers[node.name].ports
        if wanted > len(free):
            raise UsageError(
                f"{node.name} would have {wanted} ranks, and has ports for {len(free)}; use fewer --workers"
            )
        found[node.name] = free[:wanted]
    return found


def _headline(framework: Framework, made: plan.Plan, cluster: Cluster) -> str:
    places = ", ".join(f"{len(made.on(node))} on {node.name}" for node in made.nodes)
    ranks = f"{len(made.ranks)} rank(s) x {made.threads} thread(s): {places}"
    return f"{made.run}: {framework.headline(made)}, {ranks}; release {made.release[:8]} on {cluster.name}"
