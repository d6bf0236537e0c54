"""Which rank runs where, with what: values and pure functions, nothing is started here."""

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regatta.cluster import Node
from regatta.errors import UsageError

NAME_LENGTH = 60
RUN_NAME = re.compile(rf"[a-z0-9]([a-z0-9-]{{0,{NAME_LENGTH - 2}}}[a-z0-9])?\Z")
PORTS = (29400, 29499)
PG_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Program:
    """What a person asked to run: a script of the synced tree or a module of it, with its arguments."""

    argv: tuple[str, ...]
    label: str

    @classmethod
    def script(cls, path: str, args: Sequence[str]) -> "Program":
        """`python path args...`; `path` is relative to the tree."""
        stem = re.sub(r"[^a-z0-9]+", "-", path.rpartition("/")[2].removesuffix(".py").lower()).strip("-")
        return cls((path, *args), stem[:20] or "run")

    @classmethod
    def module(cls, name: str, args: Sequence[str], label: str) -> "Program":
        """A program that starts as `python -m name args...`, with a label of its own."""
        return cls(("-m", name, *args), label)


@dataclass(frozen=True)
class Rank:
    """A rank and its place: `local` is its number on its host."""

    rank: int
    local: int
    node: Node


@dataclass(frozen=True)
class Plan:
    """Everything that decides how a run is started. `threads` is a rank's, equal for all ranks."""

    run: str
    framework: str
    program: Program
    release: str
    ranks: tuple[Rank, ...]
    threads: int
    launcher: str
    pg_timeout: int = PG_TIMEOUT_SECONDS
    master_port: int | None = None
    time_limit: float | None = None
    restarts: int = 0
    first_run: str | None = None

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


def new_run_name(label: str, framework: str) -> str:
    """A name that nobody else makes: label, framework, UTC time, four random digits."""
    return f"{label}-{framework}-{time.strftime('%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def check_run_name(name: str) -> str:
    """A name for a run as a person gives it; UsageError where it cannot be one."""
    if not RUN_NAME.match(name):
        raise UsageError(
            f"'{name}' cannot name a run: use up to 60 of a-z, 0-9 and '-', beginning with a letter or digit"
        )
    return name


def spread(workers: int, nodes: Sequence[Node], cores: Mapping[str, int]) -> tuple[Rank, ...]:
    """Spread ranks over hosts in proportion to their cores; the ranks of a host are numbered one after the other."""
    if workers < 1:
        raise UsageError(f"--workers must be at least 1, not {workers}")
    count = dict.fromkeys((node.name for node in nodes), 0)
    for _ in range(workers):
        emptiest = min(nodes, key=lambda node: (count[node.name] + 1) / max(1, cores[node.name]))
        count[emptiest.name] += 1
    ranks: list[Rank] = []
    for node in nodes:
        ranks += [Rank(len(ranks) + local, local, node) for local in range(count[node.name])]
    return tuple(ranks)


def threads(ranks: Sequence[Rank], cores: Mapping[str, int]) -> int:
    """Threads of each rank: the cores of the tightest host shared by its ranks, at least one."""
    on_host: dict[str, int] = {}
    for rank in ranks:
        on_host[rank.node.name] = on_host.get(rank.node.name, 0) + 1
    return max(1, min(cores[name] // number for name, number in on_host.items()))


def crowded(ranks: Sequence[Rank], cores: Mapping[str, int]) -> list[str]:
    """A warning for each host that has more ranks than cores."""
    on_host: dict[str, int] = {}
    for rank in ranks:
        on_host[rank.node.name] = on_host.get(rank.node.name, 0) + 1
    return [
        f"{name} runs {number} ranks on {cores[name]} core(s): they take turns, and times say so"
        for name, number in on_host.items()
        if number > cores[name]
    ]


def thread_environment(threads: int) -> dict[str, str]:
    """The variables by which numeric libraries learn how many threads to use."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


def common_environment(plan: Plan, node: Node) -> dict[str, str]:
    """What every process of a run has in its environment, under either framework."""
    import json

    release = f"{node.root}/releases/{plan.release}"
    first = {"REGATTA_FIRST_RUN": plan.first_run} if plan.first_run else {}
    return {
        **first,
        **thread_environment(plan.threads),
        "PATH": f"{node.python.rpartition('/')[0]}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": release,
        "PYTHONUNBUFFERED": "1",
        "REGATTA_RUN_ID": plan.run,
        "REGATTA_RELEASE": release,
        "REGATTA_WORKERS": str(len(plan.ranks)),
        "REGATTA_RANK_MAP": json.dumps(plan.addresses),
        "REGATTA_PG_TIMEOUT": str(plan.pg_timeout),
    }


def describe(plan: Plan) -> dict[str, object]:
    """The plan as the nodes keep it, so that a run can be attached to without the controller that started it."""
    return {
        "framework": plan.framework,
        "program": list(plan.program.argv),
        "label": plan.program.label,
        "ranks": {str(rank.rank): rank.node.name for rank in plan.ranks},
        "threads": plan.threads,
        "launcher": plan.launcher,
        "restarts": plan.restarts,
        "master_port": plan.master_port,
        "release": plan.release,
    }
