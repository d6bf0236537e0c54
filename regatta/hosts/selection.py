"""Which hosts of a cluster a run may use: those that a person names, and those that answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from regatta.errors import NodesError, UnreachableError, UsageError
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta_protocol.operations.launch import Inspect

ASK_SECONDS = 12.0
HINT = "To run on the hosts that answer: --skip-lost; or name those to leave out: --without {lost}"


@dataclass(frozen=True)
class Selection:
    """`nodes` and `without` as typed: names with commas between them. `skip_lost`: leave out who does not answer."""

    nodes: str | None = None
    without: str | None = None
    skip_lost: bool = False

    def of(self, cluster: Cluster, say: Callable[[str], None]) -> Cluster:
        """The cluster of the chosen hosts; `say` gets a line that names the others.

        UsageError for names that are none, and where the head or all workers would be left out. NodesError where a host
        cannot be asked for another reason than that it does not answer.
        """
        chosen = _names(cluster, "nodes", self.nodes) if self.nodes is not None else [n.name for n in cluster.nodes]
        unwanted = _names(cluster, "without", self.without) if self.without is not None else []
        left = _only(cluster, [name for name in chosen if name not in unwanted], "--nodes and --without")
        lost = _silent(left) if self.skip_lost else []
        left = _only(
            left,
            [node.name for node in left.nodes if node.name not in lost],
            f"no answer from {', '.join(lost)}: --skip-lost",
        )
        if left.left_out:
            silent = f" (no answer from {', '.join(lost)})" if lost else ""
            say(f"left out: {', '.join(left.left_out)}{silent}")
        return left


def without(cluster: Cluster, lost: Sequence[str]) -> Cluster | None:
    """The cluster of the other hosts; None where no worker is left, or the head is lost."""

    def others(nodes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(node for node in nodes if node.name not in lost)

    workers = others(cluster.workers)
    if not workers or cluster.head.name in lost:
        return None
    return replace(cluster, nodes=others(cluster.nodes), workers=workers)


def hint(error: NodesError, cluster: Cluster) -> str:
    """Return what to do about hosts that do not answer; nothing where that is not it, or it is the head."""
    lost = [name for name, cause in error.failures.items() if isinstance(cause, UnreachableError)]
    if len(lost) < len(error.failures) or without(cluster, lost) is None:
        return ""
    return HINT.format(lost=",".join(lost))


def _names(cluster: Cluster, option: str, text: str) -> list[str]:
    known = [node.name for node in cluster.nodes]
    names = [name for name in (word.strip() for word in text.split(",")) if name]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        wrong = f"'{unknown[0]}', which is no host of {cluster.name}" if unknown else "no name"
        raise UsageError(f"--{option} has {wrong}; there are {','.join(known)}")
    return names


def _only(cluster: Cluster, names: Sequence[str], option: str) -> Cluster:
    if cluster.head.name not in names:
        raise UsageError(
            f"{option} would leave out the head, {cluster.head.name}, which every run needs: it has Ray's and HDFS' "
            "services, and answers for the run: keep it"
        )
    left = without(cluster, [node.name for node in cluster.nodes if node.name not in names])
    if left is None:
        raise UsageError(f"{option} would leave out every host that runs ranks: keep one of {_workers(cluster)}")
    return left


def _workers(cluster: Cluster) -> str:
    return ", ".join(node.name for node in cluster.workers)


def _silent(cluster: Cluster) -> list[str]:
    """Names of the hosts that do not answer."""
    remote = Remote(cluster)
    asked = Inspect(facts_wanted=False)
    _, failed = remote.gather(cluster.nodes, lambda node: remote.call(node, asked, timeout=ASK_SECONDS))
    remote.rest(cluster.nodes)
    wrong = {name: error for name, error in failed.items() if not isinstance(error, UnreachableError)}
    if wrong:
        raise NodesError("asking who answers", wrong)
    return list(failed)
