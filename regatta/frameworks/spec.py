"""The arguments of `run.start` on a node: the parts that adapters share."""

from collections.abc import Callable, Mapping, Sequence

from regatta.frameworks.plan import Plan, Rank, common_environment, describe
from regatta.hosts import sources
from regatta.hosts.cluster import Node
from regatta.hosts.sources import library_files, source, supervisor_files
from regatta_protocol.run import Process, Spec
from regatta_protocol.states import Mode


def common(plan: Plan, node: Node) -> Spec:
    """A run of no process yet: its own unit, on inventory/local a session."""
    return Spec(
        id=plan.run,
        mode=Mode.SESSION if node.local else Mode.UNIT,
        framework=plan.framework,
        release=plan.release,
        layer=plan.layer,
        shared=plan.shared,
        project=plan.project,
        former=plan.former,
        keep=plan.options.keep,
        folder=plan.folder,
        cwd="/".join(filter(None, (f"{node.state}/runs/{plan.run}/work", plan.below))),
        env={**sees(plan, node), **common_environment(plan, node)},
        gpus=plan.cards[node.name].uuids if node.name in plan.cards else (),
        cpus=plan.cpus.get(node.name, ()),
        time_limit=plan.options.time_limit,
        limits=node.limits.changed(memory=int(plan.options.memory * 1e9)) if plan.options.memory else node.limits,
        files=supervisor_files(),
        plan=describe(plan),
    )


def sees(plan: Plan, node: Node) -> dict[str, str]:
    """The variables by which CUDA shows only the run's GPUs, numbered as nvidia-smi numbers them."""
    if node.name not in plan.cards:
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(plan.cards[node.name].visible)}


def process(rank: int, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Process:
    """One process of a node, with its own variables."""
    return Process(rank, tuple(argv), dict(env or {}))


def one_by_one(
    plan: Plan, node: Node, environment: Callable[[Rank], Mapping[str, str]] = lambda rank: {}
) -> list[Process]:
    """The program once for each rank of a node, with the variables that `environment` gives for it."""
    return [process(rank.rank, [node.python, *plan.program.argv], environment(rank)) for rank in plan.on(node)]


def python_ranks(plan: Plan, node: Node, ranks: Sequence[Process]) -> Spec:
    """A run of these processes, each of which starts Python as `regatta.node.sitecustomize_rank` has it."""
    made = common(plan, node).changed(ranks=tuple(ranks))
    return python_begins_with(made, plan, node, source("sitecustomize_rank"))


def python_begins_with(made: Spec, plan: Plan, node: Node, text: str) -> Spec:
    """The run in which each Python begins with a module, its `sitecustomize`, of this text."""
    made = variables(made, PYTHONPATH=f"{made.env['PYTHONPATH']}:{boot_folder(plan, node)}")
    made = files(made, {"boot/sitecustomize.py": text, "boot/below.txt": plan.below})
    made = beside_python(made, sources.NODE, "imports", "meeting", "spawn_guard")
    library = library_files() if plan.program.library else {}
    return files(made, {f"boot/{path}": text for path, text in library.items()})


def beside_python(made: Spec, package: str, *modules: str) -> Spec:
    """The run in which what Python begins with finds these modules of a package, as `regatta_<name>`."""
    return files(made, {f"boot/regatta_{name}.py": source(name, package) for name in modules})


def variables(made: Spec, **more: str) -> Spec:
    """The run with more variables, or others, for all its processes."""
    return made.changed(env={**made.env, **more})


def files(made: Spec, more: Mapping[str, str]) -> Spec:
    """The run with more files in its folder."""
    return made.changed(files={**made.files, **more})


def boot_folder(plan: Plan, node: Node) -> str:
    """The path on a node of the file that Python begins with."""
    return f"{node.state}/runs/{plan.run}/boot"
