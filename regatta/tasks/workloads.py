"""Tasks that run Regatta's own workloads and compare the frameworks (imports: see `regatta.tasks.runs`)."""

from pathlib import Path
from typing import TYPE_CHECKING

from invoke.context import Context

from regatta import paths
from regatta.tasks.common import seconds, task, whole
from regatta.tasks.runs import LAUNCH_HELP, session

if TYPE_CHECKING:
    from regatta.experiments.training import Training
    from regatta.hosts.selection import Selection
    from regatta.records.record import Record
    from regatta.run.session import Session

FRAMEWORKS = ("single", "torch", "ray")
"""Those that our own workloads run under."""


@task(
    name="run-ppr",
    help={
        **LAUNCH_HELP,
        "framework": "torch, ray, single, or several with commas; both (default), all",
        "graph": "SNAP edge list, .gz or hdfs:// too (default: this machine's package dependencies)",
        "sources": "ids or names of nodes: a,b,c (default: the first --count nodes)",
        "count": "the first K nodes as sources (default 4)",
        "top": "nodes to name for each source (default 10)",
        "alpha": "teleport probability (default 0.05)",
        "tolerance": "L1 residual to stop at (default 1e-6)",
        "max-iterations": "iterations at most (default 1000)",
        "engine": "csr, push (local, approximate), cg (faster) or torch-ppr; the last two need --undirected",
        "partition": "what a rank has: some of the sources (default), or some rows of the graph",
        "undirected": "follow edges both ways",
        "repeats": "runs under each framework, in turns (default 1)",
        "json": "write the comparison to this file",
        "no-single": "leave out the single process that the cluster has to beat",
        "launcher": "how torch ranks meet: env, static or c10d",
    },
)
def run_ppr(
    c: Context,
    workers: str | None = None,
    framework: str = "both",
    graph: str | None = None,
    sources: str | None = None,
    count: str | None = None,
    top: str | None = None,
    alpha: str | None = None,
    tolerance: str | None = None,
    max_iterations: str | None = None,
    engine: str | None = None,
    partition: str | None = None,
    undirected: bool = False,
    repeats: str = "1",
    json: str | None = None,
    no_single: bool = False,
    launcher: str = "env",
    name: str | None = None,
    time_limit: str | None = None,
    inventory: str | None = None,
    nodes: str | None = None,
    without: str | None = None,
    skip_lost: bool = False,
) -> None:
    """PageRank under torch and Ray: timed, recorded, compared."""
    from regatta.experiments import pagerank
    from regatta.frameworks import choice, plan
    from regatta.hosts.selection import Selection
    from regatta.run.request import Request

    wanted = whole("workers", workers)
    times = whole("repeats", repeats) or 1
    limit = seconds("time-limit", time_limit)
    asked = pagerank.Ppr(graph, sources, count, top, alpha, tolerance, max_iterations, engine, partition, undirected)
    base = Request(plan.Program((), "ppr"), "single", paths.PROJECT, name=name, launcher=launcher, time_limit=limit)
    with session(inventory, Selection(nodes, without, skip_lost)) as made:
        frameworks = choice.chosen(framework, FRAMEWORKS, made.cluster)
        choice.check_launcher(launcher, frameworks)
        if framework == "both" and not no_single:
            frameworks = ("single", *frameworks)
        _show(made, pagerank.ppr(made, asked, frameworks, workers=wanted, repeats=times, request=base), json)


TRAINING_HELP = {
    **LAUNCH_HELP,
    "framework": "torch, ray, single, or several with commas; both (default), all",
    "epochs": "default 3",
    "batch": "rows a rank and step (the single process takes as many as all ranks)",
    "learning-rate": "default 0.01",
    "scale-batch": "grow the learning rate with the number of ranks, over the first epoch",
    "seed": "of weights, order and generated data (default 0)",
    "repeats": "runs under each framework, in turns (default 1)",
    "json": "write the comparison to this file",
    "no-single": "leave out the single process that the cluster has to beat",
    "checkpoint": "where rank 0 keeps its state after each epoch, to go on from; hdfs:// too; {run} is the run's id",
    "restarts": "start lost ranks again so many times; they go on from the checkpoint (torch: --launcher c10d)",
    "elastic": "go on without hosts that are lost, as many times (default 1), from the checkpoint, then in HDFS",
    "launcher": "how torch ranks meet: env, static or c10d (default env; with --restarts c10d)",
}


@task(
    name="run-digits",
    help={
        **TRAINING_HELP,
        "data": "folder of IDX files, also hdfs://; handwritten, or generated (default)",
        "size": "images to generate (default 20000)",
        "model": "perceptron (default) or cnn",
    },
)
def run_digits(
    c: Context,
    workers: str | None = None,
    framework: str = "both",
    data: str | None = None,
    size: str | None = None,
    model: str | None = None,
    epochs: str | None = None,
    batch: str | None = None,
    learning_rate: str | None = None,
    scale_batch: bool = False,
    seed: str | None = None,
    repeats: str = "1",
    json: str | None = None,
    no_single: bool = False,
    checkpoint: str | None = None,
    restarts: str | None = None,
    elastic: bool = False,
    launcher: str | None = None,
    name: str | None = None,
    time_limit: str | None = None,
    inventory: str | None = None,
    nodes: str | None = None,
    without: str | None = None,
    skip_lost: bool = False,
) -> None:
    """Train on digit images under torch and Ray Train: timed, recorded, compared."""
    from regatta.experiments.training import Training
    from regatta.hosts.selection import Selection

    lost = whole("restarts", restarts) or int(elastic)
    rows = whole("batch", batch)
    asked = Training(
        "digits", data, size, model, epochs, rows, learning_rate, seed, scale_batch, checkpoint, lost, elastic
    )
    hosts = Selection(nodes, without, skip_lost)
    _train(asked, inventory, hosts, framework, no_single, workers, repeats, json, name, launcher, time_limit)


@task(
    name="run-stars",
    help={
        **TRAINING_HELP,
        "data": "CSV of SDSS, .gz too, also hdfs://, or generated (default)",
        "size": "rows to generate (default 100000)",
    },
)
def run_stars(
    c: Context,
    workers: str | None = None,
    framework: str = "both",
    data: str | None = None,
    size: str | None = None,
    epochs: str | None = None,
    batch: str | None = None,
    learning_rate: str | None = None,
    scale_batch: bool = False,
    seed: str | None = None,
    repeats: str = "1",
    json: str | None = None,
    no_single: bool = False,
    checkpoint: str | None = None,
    restarts: str | None = None,
    elastic: bool = False,
    launcher: str | None = None,
    name: str | None = None,
    time_limit: str | None = None,
    inventory: str | None = None,
    nodes: str | None = None,
    without: str | None = None,
    skip_lost: bool = False,
) -> None:
    """Tell stars from galaxies under torch and Ray Train: timed, recorded, compared."""
    from regatta.experiments.training import Training
    from regatta.hosts.selection import Selection

    lost = whole("restarts", restarts) or int(elastic)
    rows = whole("batch", batch)
    asked = Training(
        "stars", data, size, None, epochs, rows, learning_rate, seed, scale_batch, checkpoint, lost, elastic
    )
    hosts = Selection(nodes, without, skip_lost)
    _train(asked, inventory, hosts, framework, no_single, workers, repeats, json, name, launcher, time_limit)


def _train(
    asked: "Training",
    inventory: str | None,
    hosts: "Selection",
    framework: str,
    no_single: bool,
    workers: str | None,
    repeats: str,
    json: str | None,
    name: str | None,
    launcher: str | None,
    time_limit: str | None,
) -> None:
    from regatta.experiments import training
    from regatta.frameworks import choice, plan
    from regatta.run.request import Request

    wanted, times, limit = whole("workers", workers), whole("repeats", repeats) or 1, seconds("time-limit", time_limit)
    program = plan.Program((), asked.workload)
    base = Request(
        program,
        "single",
        paths.PROJECT,
        name=name,
        launcher=launcher or ("c10d" if asked.restarts else "env"),
        time_limit=limit,
        restarts=asked.restarts,
        elastic=asked.elastic,
    )
    with session(inventory, hosts) as made:
        frameworks = choice.chosen(framework, FRAMEWORKS, made.cluster)
        choice.check_launcher(launcher, frameworks)
        if framework == "both" and not no_single:
            frameworks = ("single", *frameworks)
        _show(made, training.train(made, asked, frameworks, workers=wanted, repeats=times, request=base), json)


def _show(made: "Session", done: "dict[str, list[Record]]", json: str | None) -> None:
    """The answer, then the comparison, which also goes to the file `json`."""
    from regatta.records import compare
    from regatta.terminal import comparison

    shown = next(records[-1] for records in done.values())
    made.console.note("\n".join(["", *shown.show]))
    result = compare.compare(done)
    if json:
        comparison.write_json(result, Path(json))
    comparison.show(result, made.console)
