"""The options of runs, and of the comparison of runs: to add one, declare it here and use it where it matters."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regatta.options import kinds
from regatta.options.option import (
    BENCH,
    NOTEBOOK,
    RUN,
    SCRIPTS,
    Option,
    declared,
    flag,
    of_command,
    of_comparison,
    option,
)

ONE = (RUN, *SCRIPTS, NOTEBOOK)
"""Commands whose runs are alike: a plan says of each point how many ranks it has."""
NAMED = (RUN, *SCRIPTS)
"""Commands whose runs have a name of the user's, and end by themselves: a notebook is one run, and ends by Ctrl-C."""
GOING_ON = (RUN, "torchrun", "rayrun")
"""Commands whose runs may continue after a rank or host is lost; of workloads those that have checkpoints."""

PRIORITIES = ("low", "normal", "high")
NORMAL = "normal"

_Options = TypeVar("_Options")


@dataclass(frozen=True)
class RunOptions:
    """The options of a run, besides its program and framework; `None` where it is not said."""

    workers: int | None = option(
        None,
        kinds.WHOLE,
        "number of ranks over the cluster (default: one a GPU, or one a core)",
        commands=ONE,
        plan=False,
    )
    name: str | None = flag(None, kinds.TEXT, "the run's name (default: made from script and time)", commands=NAMED)
    gpus: int | None = option(
        None,
        kinds.COUNT,
        "GPUs a rank, 0 for none (default: 1 where the hosts have GPUs and the run's packages can use them)",
        commands=(RUN, "torchrun"),
        plan=False,
        record=True,
    )
    time_limit: float | None = option(None, kinds.SECONDS, "end the run after so many seconds, or 5m, 2h, 1:00:00")
    requirements: Path | None = flag(
        None,
        kinds.PATH,
        "what the run needs beyond the nodes' packages: this file (default: the project's lock or list)",
        case=True,
    )
    with_: tuple[str, ...] = option(
        (),
        kinds.REQUIREMENTS,
        "a package besides these, as in --with 'boto3>=1.34'; several: again, or with commas between",
        project=False,
        case=True,
    )
    extra: tuple[str, ...] = option(
        (),
        kinds.NAMES,
        "an extra of the project, too; several: again, or with commas between",
        project=False,
        case=True,
    )
    group: tuple[str, ...] = option(
        (),
        kinds.NAMES,
        "a dependency group of the project, too; several: again, or with commas between",
        project=False,
        case=True,
    )
    no_environment: bool = option(
        False, kinds.SWITCH, "bring no packages: the nodes' environment as it is", project=False, case=True
    )
    env: tuple[str, ...] = flag(
        (),
        kinds.LIST,
        "a variable of the run's processes: NAME=VALUE, or NAME for this shell's, hidden from records; again for more",
    )
    env_file: tuple[str, ...] = flag(
        (), kinds.LIST, "a file of NAME=VALUE lines, mode 0600, whose values no record, log or list shows"
    )
    keep: tuple[str, ...] = option(
        (),
        kinds.FOLDERS,
        "a folder that all runs of this project share and find as the last one left it: out/ (default: the project's)",
        helps={BENCH: "a folder that all runs of the plan share and find as the last one left it: out/"},
        timed=False,
        record=True,
    )
    inventory: str | None = flag(None, kinds.TEXT, "inventory folder (default: $REGATTA_INVENTORY, then inventory/lab)")
    fetch: tuple[str, ...] = option(
        (),
        kinds.PATTERNS,
        "bring these files of the run here at its end: out/*.pt,logs; or none (default: the project's outputs)",
        helps={BENCH: "bring these files of each run here at its end, outside the timers: out/*.pt,logs"},
        project="outputs",
        timed=False,
    )
    max_gb: float = option(2.0, kinds.GIGABYTES, "bring so many gigabytes at most")
    now: bool = flag(
        False, kinds.SWITCH, "start at once, beside others: do not wait in the cluster's queue", commands=ONE
    )
    cores: int | None = option(
        None,
        kinds.WHOLE,
        "cores a rank: other runs may have the rest of its nodes, where the cluster has a queue (default: whole nodes)",
        commands=ONE,
        plan=False,
        record=True,
    )
    threads_per_rank: int | None = option(
        None,
        kinds.WHOLE,
        "threads of each rank, and of the single process (default: an equal part of its host's cores)",
        record=True,
    )
    memory: float | None = option(
        None,
        kinds.GIGABYTES,
        "gigabytes of memory on each node: with more the run ends, and the cluster's queue gives it only such nodes",
        commands=(RUN, "torchrun"),
        plan=False,
        record=True,
    )
    detach: bool = flag(
        False,
        kinds.SWITCH,
        "put the run into the cluster's queue, and return: it starts and ends without this program",
        commands=(RUN, "torchrun", "rayrun"),
    )
    priority: str = flag(
        NORMAL,
        kinds.Choice(*PRIORITIES),
        "its place among your own runs that wait in the cluster's queue: low, normal or high",
        commands=ONE,
    )
    after: str | None = flag(
        None,
        kinds.TEXT,
        "with --detach: begin when this run of --detach has succeeded",
        commands=(RUN, "torchrun", "rayrun"),
    )
    sweep: tuple[str, ...] = flag(
        (),
        kinds.SWEEP,
        "a run for each of these values: lr=0.1,0.01, which each gets as --lr; again for another name, each with each",
        commands=NAMED,
    )
    notify: tuple[str, ...] = option(
        (),
        kinds.URLS,
        "tell this URL when the run ends, fails or stalls: https://..., or env:NAME of this shell; again for more",
        commands=ONE,
        plan=False,
        timed=False,
    )
    nodes: str | None = flag(None, kinds.TEXT, "use only these hosts: a,b (the head must be among them)")
    without: str | None = flag(None, kinds.TEXT, "leave out these hosts: c,d")
    skip_lost: bool = flag(False, kinds.SWITCH, "leave out hosts that do not answer")
    launcher: str | None = flag(
        None,
        kinds.TEXT,
        "how torch ranks meet: env, static or c10d (default env; with --restarts c10d)",
        helps={
            "torchrun": "env (fastest), static or c10d (torchrun's program with that rendezvous); with --restarts c10d"
        },
        commands=(RUN, "torchrun"),
    )
    pg_timeout: int = flag(
        60,
        kinds.WHOLE,
        "seconds until a process group gives up on a silent peer",
        commands=("torchrun",),
    )
    restarts: int = flag(
        0,
        kinds.WHOLE,
        "start lost ranks again so many times; they continue from the checkpoint (torch: --launcher c10d)",
        helps={
            "torchrun": "let torchrun start all ranks again so many times when one is lost (--launcher c10d)",
            "rayrun": "with --elastic: so many times (default 1)",
        },
        commands=GOING_ON,
    )
    elastic: bool = flag(
        False,
        kinds.SWITCH,
        "continue without hosts that are lost, --restarts times (default 1): $REGATTA_FIRST_RUN names the first run",
        helps={
            RUN: "continue without hosts that are lost, as many times (default 1), from the checkpoint, then in HDFS"
        },
        commands=GOING_ON,
    )

    def __post_init__(self) -> None:
        """An elastic run continues at least once."""
        if self.elastic and not self.restarts:
            object.__setattr__(self, "restarts", 1)

    def kept(self) -> dict[str, Any]:
        """Return what a record keeps of them: of those that it keeps, what is not the default; as JSON."""
        return self._changed(name for name, one in OF_RUNS.items() if one.record)

    def of_case(self) -> dict[str, Any]:
        """Return what makes runs other ones than with the defaults; as JSON."""
        return self._changed(name for name, one in OF_RUNS.items() if one.case or one.record)

    def _changed(self, names: Iterable[str]) -> dict[str, Any]:
        found = {name: value for name in names if (value := getattr(self, name)) != OF_RUNS[name].default}
        return {
            name: list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
            for name, value in found.items()
        }


@dataclass(frozen=True)
class ComparisonOptions:
    """The options of a workload's runs under several frameworks, besides what each run may have."""

    framework: str | None = of_comparison(None, kinds.TEXT, "")
    repeats: int = of_comparison(1, kinds.WHOLE, "runs under each framework, interleaved")
    json: Path | None = of_comparison(None, kinds.PATH, "write the comparison to this file")
    no_single: bool = of_comparison(False, kinds.SWITCH, "leave out the single process that the cluster has to beat")


OF_RUNS: Mapping[str, Option] = declared(RunOptions)
"""All options of runs, by name."""
OF_COMPARISONS: Mapping[str, Option] = declared(ComparisonOptions)
ASK_BECOME_PASS = Option(
    "ask for the password of sudo on the hosts, once", kinds.SWITCH, default=False, name="ask_become_pass"
)
"""Of every command that asks hosts; it is no option of runs, because it goes no further than this process."""
CHECKPOINT = Option(
    "where rank 0 keeps its state after each epoch, to continue from; hdfs:// and s3:// too; {run} is the run's id",
    name="checkpoint",
)
"""Of `run NAME` for workloads with checkpoints; it goes to the workload."""
OF_CHECKPOINTS = ("restarts", "elastic")
"""Options that `run NAME` has for workloads with checkpoints only."""
OF_PROJECTS: Mapping[str, Option] = {one.project: one for one in OF_RUNS.values() if one.project}
"""Options that `regatta.toml` may have, by key."""
OF_PLANS: Mapping[str, Option] = {one.key: one for one in OF_RUNS.values() if one.plan}
"""Options that a bench plan and its experiments may have, by key."""


def of(command: str, *, checkpoints: bool = False) -> dict[str, Option]:
    """The options of a command that starts runs, by name; `checkpoints`: of a workload that has them."""
    found = of_command([*OF_COMPARISONS.values(), *OF_RUNS.values()], command)
    return {name: one for name, one in found.items() if command != RUN or checkpoints or name not in OF_CHECKPOINTS}


def said(of: type[_Options], *layers: Mapping[str, Any]) -> _Options:
    """The options of a class that values by name give: those of later layers come first, other names are ignored."""
    names = declared(of)
    return of(**{name: value for layer in layers for name, value in layer.items() if name in names})


@functools.cache
def reserved() -> frozenset[str]:
    """Words that no option of a card may be: each command that runs a workload has a flag of that name."""
    return frozenset({*of(RUN), ASK_BECOME_PASS.name, "help"})
