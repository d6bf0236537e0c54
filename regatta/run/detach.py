"""A run without a controller: the job that starts it on the nodes that it is given, whichever these are."""

import itertools
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from regatta.errors import UsageError
from regatta.frameworks.api import Framework
from regatta.frameworks.plan import Cards, Plan, Rank
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.options.declaration import RunOptions
from regatta.run import launch, naming, placement, queue
from regatta_protocol.decoding import encode
from regatta_protocol.operations.queue import Candidate, Carried, Further, Notify, QueuedRun, SubmitRun

MOST_FORMS = 40
"""Ways of placing a run that its job carries: with more kinds of hosts than that the nodes are chosen at once."""

Facts = Mapping[str, Mapping[str, Any]]


def request(
    remote: Remote, plan: Plan, framework: Framework, about: Mapping[str, Any], facts: Facts, after: int | None
) -> SubmitRun:
    """The request of a run that starts without a controller. UsageError where the queue gives none of its nodes.

    `about`: what its record says of it, `facts`: and of each node.
    """
    nodes, workers, said = framework.nodes(plan, remote.cluster), remote.cluster.workers, plan.options
    if idle := [node.name for node in nodes if node not in workers]:
        raise UsageError(f"the queue starts nothing on {', '.join(idle)}, which is no worker: leave --detach out")
    if framework.driver:
        nodes = workers
    free = framework.hosts(remote.cluster) == workers and not framework.driver
    queue.check_cores(plan, framework, remote.cluster)
    asked, fixed = carried(remote.cluster, plan, about, facts, () if free else nodes)
    if said.cores and fixed:
        raise UsageError("--cores with --detach: the nodes are of too many kinds, or chosen already: leave one out")
    cores = said.cores or (queue.cores_of_rank(plan, facts) if asked.shares else None)
    gpus = queue.cards_of_node(plan) if asked.shares else 0
    further = _further(remote, plan, about, facts, fixed=fixed) if said.elastic else ()
    first = QueuedRun(
        plan.run,
        _at(remote, asked),
        len(nodes),
        framework.driver,
        fixed,
        said.time_limit,
        after,
        nice=queue.nice(said.priority),
        notify=_told(remote, said),
        memory=queue.mebibytes(said),
        ranks=most_ranks(plan),
        cores=cores,
        gpus=gpus,
    )
    return SubmitRun(first, further)


def _at(remote: Remote, asked: Carried) -> Carried:
    """The same with the places on each node."""
    places = {name: dict(remote.place(remote.cluster.node(name))) for name in asked.nodes}
    return asked.changed(nodes={name: one.changed(place=places[name]) for name, one in asked.nodes.items()})


def _further(remote: Remote, plan: Plan, about: Mapping[str, Any], facts: Facts, *, fixed: bool) -> tuple[Further, ...]:
    """The generations after the first one: the same run, on as many nodes or fewer."""
    found = []
    for number in range(2, plan.options.restarts + 2):
        next_one = replace(plan, run=naming.generation(plan.run, number))
        said = {**about, "warnings": [*about["warnings"], f"generation {number} of {plan.run}, after a lost host"]}
        asked, bound = carried(remote.cluster, next_one, said, facts, counts=range(1, len(plan.nodes) + 1))
        if fixed or bound or plan.options.cores:
            raise UsageError(
                "--elastic with --detach needs whole nodes that the queue chooses: leave out Ray, --cores, --gpus, "
                "hosts of unlike kinds, or --detach"
            )
        found.append(Further(next_one.run, _at(remote, asked)))
    return tuple(found)


def most_ranks(plan: Plan) -> int:
    """Ranks of a node, where nodes have the same number, or one less."""
    return -(-len(plan.ranks) // len(plan.nodes))


def _told(remote: Remote, said: RunOptions) -> Notify | None:
    if not said.notify:
        return None
    from regatta.run import notices

    return Notify(notices.resolved(said.notify), remote.cluster.name)


def carried(
    cluster: Cluster,
    plan: Plan,
    about: Mapping[str, Any],
    facts: Facts,
    only: Sequence[Node] = (),
    counts: Sequence[int] = (),
) -> tuple[Carried, bool]:
    """What the job brings, without places, and whether only certain nodes will do, as where `only` names them.

    `counts`: numbers of nodes that will do, with as many ranks as these have cores (default: those of the plan).

    See `regatta.node.detached.part`.
    """
    token = secrets.token_hex(8)
    cards = queue.cards_of_node(plan)
    kinds = {} if only or (plan.cards and not cards) else _kinds(cluster, facts, cards)
    there = [node for node in cluster.workers if node.name in kinds]
    placed = _placed(plan, there, kinds, facts, token, counts or [len(plan.nodes)])
    fixed = placed is None
    if placed is None:
        nodes = tuple(only or plan.nodes)
        kinds = {node.name: number for number, node in enumerate(nodes)}
        placed = {tuple(kinds.values()): (nodes, plan)}
    files: list[dict[str, str]] = []
    forms = {
        ",".join(map(str, form)): tuple(
            _part(part, files) for part in _parts(cluster, on, made, _renamed(about, made) if counts else about)
        )
        for form, (on, made) in placed.items()
    }
    own = {name: Candidate(kind, cluster.node(name).cluster_address, dict(facts[name])) for name, kind in kinds.items()}
    return Carried(token, own, forms, tuple(files), plan.options.cores is not None or bool(cards and not fixed)), fixed


def _renamed(about: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """What the record says of a generation, by its own name and number of ranks."""
    identity = about["identity"]
    parameters = {**identity["parameters"], "workers": len(plan.ranks)}
    return {**about, "identity": {**identity, "run_id": plan.run, "parameters": parameters}}


def _kinds(cluster: Cluster, facts: Facts, cards: int) -> dict[str, int]:
    """The kind of each worker, by its name, that is well and has so many cards: hosts of one kind have the same cores,
    folders, limits.
    """
    alike: dict[tuple[Any, ...], int] = {}
    return {
        node.name: alike.setdefault(
            (facts[node.name]["cores"], node.root, node.state, node.python, node.limits), len(alike)
        )
        for node in cluster.workers
        if not (gpus := facts[node.name].get("gpus") or {}).get("sick") and len(gpus.get("cards", ())) >= cards
    }


def _placed(
    plan: Plan, workers: Sequence[Node], kinds: Mapping[str, int], facts: Facts, token: str, counts: Sequence[int]
) -> dict[tuple[int, ...], tuple[tuple[Node, ...], Plan]] | None:
    """The plan on stand-ins for each choice of kinds that may be granted; None where these are too many, or a host
    would have more ranks than ports for them.
    """
    example = {kinds[node.name]: node for node in workers}
    there = Counter(kinds.values())
    on_gpus = queue.cards_of_node(plan) and queue.cores_of_rank(plan, facts)
    found: dict[tuple[int, ...], tuple[tuple[Node, ...], Plan]] = {}
    before = {node.name: facts[node.name]["cores"] for node in plan.nodes}
    for count in counts:
        for form in itertools.combinations_with_replacement(sorted(there), count):
            if not Counter(form) <= there:
                continue
            nodes = tuple(_stand_in(example[kind], token, number) for number, kind in enumerate(form))
            cores = {node.name: facts[example[kind].name]["cores"] for node, kind in zip(nodes, form, strict=True)}
            wanted = len(plan.ranks)
            if count < len(plan.nodes):
                wanted = placement.ranks_left(wanted, before, sum(cores.values()))
            if each := plan.options.cores or on_gpus:
                cores = dict.fromkeys(cores, each * most_ranks(plan))
            ranks = placement.spread(wanted, nodes, cores)
            ports = _ports(plan, ranks)
            if ports is None or len(found) == MOST_FORMS:
                return None
            threads = placement.threads(ranks, cores, plan.options.threads_per_rank)
            made = replace(plan, ranks=ranks, threads=threads, ports=ports)
            found[form] = (nodes, replace(made, cards=_cards(made, token)) if on_gpus else made)
    return found or None


def _cards(plan: Plan, token: str) -> dict[str, Cards]:
    """Stand-ins, in whose place each node puts the cards that it is granted."""
    each = max(cards.each for cards in plan.cards.values())
    names = {
        node.name: tuple(f"{token}-card-{number}" for number in range(len(plan.on(node)) * each)) for node in plan.nodes
    }
    return {name: Cards(own, own, each) for name, own in names.items()}


def _stand_in(node: Node, token: str, number: int) -> Node:
    return replace(node, name=f"{token}-{number}-name", cluster_address=f"{token}-{number}-address")


def _ports(plan: Plan, ranks: Sequence[Rank]) -> dict[str, tuple[int, ...]] | None:
    """A port for each rank of a host, where ranks have their own; None: one has more ranks than there are ports."""
    if not plan.ports:
        return {}
    most = max(plan.ports.values(), key=len)
    counts = Counter(rank.node.name for rank in ranks)
    return {name: most[:count] for name, count in counts.items()} if max(counts.values()) <= len(most) else None


def _parts(
    cluster: Cluster, nodes: Sequence[Node], plan: Plan, about: Mapping[str, Any]
) -> Iterator[dict[str, Any] | None]:
    """Yield what each node is asked; None where it gets no rank."""
    asked = launch.requests(cluster, plan, lambda _: about)
    for node in nodes:
        yield encode(asked[node.name]) if node.name in asked else None


def _part(asked: dict[str, Any] | None, files: list[dict[str, str]]) -> dict[str, Any] | None:
    """The same with the number of its files, which many parts share, in `files`."""
    if asked is None:
        return None
    own = asked["spec"]["files"]
    if own not in files:
        files.append(own)
    return {**asked, "spec": {**asked["spec"], "files": files.index(own)}}
