"""Everything that decides how a run is started, as values: what each framework's module is given.

Nothing is started here.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from regatta.hosts.cluster import Node
from regatta.options.declaration import RunOptions
from regatta_protocol.run import PlanKept

IMPORTS = "PYTHONPATH"
"""A person's folders in it are added to those of the run, named from the folder in which the run begins."""
PORTS = (29400, 29499)
FUNCTION = "workloads.common.items.function"
"""The program that applies the function of a user's project to items."""
SEARCH = "workloads.common.search.function"
"""The program that does trials of it."""


@dataclass(frozen=True)
class Program:
    """The program to run: a script of the synced tree or a module of it, with its arguments.

    `library`: it needs Regatta's own `workloads.common`, which the synced tree does not have. `any_node`: where a
    framework lets it, it starts tasks on any node, not only on those of its ranks. `gpus`: its ranks may use GPUs.
    """

    argv: tuple[str, ...]
    label: str
    library: bool = False
    any_node: bool = False
    gpus: bool = True

    @classmethod
    def script(cls, path: str, args: Sequence[str]) -> "Program":
        """`python path args...`; `path` is relative to the tree."""
        return cls((path, *args), _label(path.rpartition("/")[2].removesuffix(".py")), any_node=True)

    @classmethod
    def own_module(cls, name: str, args: Sequence[str]) -> "Program":
        """`python -m name args...`, of the project's own."""
        return cls(("-m", name, *args), _label(name.rpartition(".")[2]), any_node=True)

    @classmethod
    def module(cls, name: str, args: Sequence[str], label: str) -> "Program":
        """A program that starts as `python -m name args...`, with its own label."""
        return cls(("-m", name, *args), label)

    @classmethod
    def of_items(cls, name: str, args: Sequence[str], *, library: bool, search: bool = False) -> "Program":
        """The function of a workload's card, over its items or in trials; the card is in the synced tree."""
        return cls(("-m", SEARCH if search else FUNCTION, name, *args), name, library, gpus=False)


def _label(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:20] or "run"


@dataclass(frozen=True)
class Rank:
    """A rank and its place: `local` is its number on its host."""

    rank: int
    local: int
    node: Node


@dataclass(frozen=True)
class Cards:
    """GPUs of a node for a run: by their names for CUDA, and by UUID; `each` for a rank. Without any: none is seen."""

    visible: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    each: int = 1

    def of(self, local: int) -> tuple[int, ...]:
        """The indices, for a process that sees all of these, of the GPUs of a rank: LOCAL_RANK is the first."""
        ranks = len(self.visible) // self.each
        return (local, *(ranks + local * (self.each - 1) + further for further in range(self.each - 1)))


@dataclass(frozen=True)
class Plan:
    """Everything that decides how a run is started. `threads` is a rank's, equal for all ranks.

    `options`: what was given for the run; `launcher`: the one that it has, also by default. `master_port`: a
    free port of the first rank's node. `ports`: one for each rank of a node, by the node's name, where the framework
    wants that. `cards`: the GPUs that it has, `cpus`: the cores to which it is bound, by the node's name.

    `below`: the folder of the synced tree in which the program begins (empty: the tree); `folder`: its project's.

    `imports`: folders of the synced tree, besides itself, from which the project's own packages are imported.

    `layer`: the packages that the run has beyond the nodes' environment, by key. `variables`: those that a person gives
    its processes; `hidden`: those whose values other users do not see. `project`: the key under which it shares kept
    folders with other runs; `former`: the key that it had once.
    """

    run: str
    framework: str
    program: Program
    release: str
    ranks: tuple[Rank, ...]
    threads: int
    launcher: str
    options: RunOptions = field(default_factory=RunOptions)
    master_port: int | None = None
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    cards: Mapping[str, Cards] = field(default_factory=dict)
    cpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    first_run: str | None = None
    layer: str | None = None
    below: str = ""
    folder: str = ""
    imports: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict, repr=False)
    project: str | None = None
    former: str | None = None

    @property
    def shared(self) -> str:
        """The name of its part of the shared folder, the same for all generations."""
        return self.first_run or self.run

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that have ranks, in rank order."""
        return tuple({rank.node.name: rank.node for rank in self.ranks}.values())

    def on(self, node: Node) -> tuple[Rank, ...]:
        """The ranks of one node."""
        return tuple(rank for rank in self.ranks if rank.node.name == node.name)

    @property
    def addresses(self) -> list[str]:
        """The cluster address of each rank's host, by rank."""
        return [rank.node.cluster_address for rank in self.ranks]


def thread_environment(threads: int) -> dict[str, str]:
    """The variables by which numeric libraries learn how many threads to use."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


def layer_folder(plan: Plan, node: Node) -> str | None:
    """Return where a node has the plan's layer; None where there is none."""
    return f"{node.root}/layers/{plan.layer}" if plan.layer else None


def common_environment(plan: Plan, node: Node) -> dict[str, str]:
    """Return what every process of a run has in its environment, under any framework."""
    import json

    release = f"{node.root}/releases/{plan.release}"
    layer = layer_folder(plan, node)
    first = {"REGATTA_FIRST_RUN": plan.first_run} if plan.first_run else {}
    project = {"REGATTA_PROJECT": f"{node.state}/shared/projects/{plan.project}"} if plan.project else {}
    # This user may be root, who writes compiled modules even into a read-only release.
    unwritten = {"PYTHONDONTWRITEBYTECODE": "1"} if node.local and os.geteuid() == 0 else {}
    return {
        **first,
        **project,
        **unwritten,
        **thread_environment(plan.threads),
        **plan.variables,
        "PATH": f"{layer + '/bin:' if layer else ''}{node.python.rpartition('/')[0]}:/usr/local/bin:/usr/bin:/bin",
        IMPORTS: ":".join(_imports(plan, release, layer)),
        "PYTHONUNBUFFERED": "1",
        "REGATTA_FRAMEWORK": plan.framework,
        "REGATTA_RUN_ID": plan.run,
        "REGATTA_RELEASE": release,
        "REGATTA_SHARED": f"{node.state}/shared/runs/{plan.shared}",
        "REGATTA_WORKERS": str(len(plan.ranks)),
        "REGATTA_RANK_MAP": json.dumps(plan.addresses),
        "REGATTA_PG_TIMEOUT": str(plan.options.pg_timeout),
        "REGATTA_PORTS": f"{PORTS[0]}-{PORTS[1]}",
    }


def _imports(plan: Plan, release: str, layer: str | None) -> list[str]:
    """Folders from which Python imports: the project's, those that a person adds, the layer."""
    more = [folder for folder in plan.variables.get(IMPORTS, "").split(":") if folder]
    added = [os.path.normpath(os.path.join(release, plan.below, folder)) for folder in more]
    return [release, *(f"{release}/{name}" for name in plan.imports), *added, *filter(None, [layer])]


def describe(plan: Plan) -> PlanKept:
    """The plan as the nodes keep it, so that a run can be attached to without the controller that started it."""
    return PlanKept(
        framework=plan.framework,
        program=plan.program.argv,
        label=plan.program.label,
        ranks={str(rank.rank): rank.node.name for rank in plan.ranks},
        threads=plan.threads,
        launcher=plan.launcher,
        restarts=plan.options.restarts,
        master_port=plan.master_port,
        ports=tuple(sorted({port for own in plan.ports.values() for port in own})),
        release=plan.release,
        layer=plan.layer,
        shared=plan.shared,
        project=plan.project,
        keep=plan.options.keep,
        script=plan.program.any_node,
    )
