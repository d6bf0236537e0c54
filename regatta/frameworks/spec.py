"""What `run.start` takes on a node: the parts that adapters share."""

from collections.abc import Callable, Mapping
from typing import Any

from regatta.frameworks.plan import Plan, Rank, common_environment, describe
from regatta.hosts import sources
from regatta.hosts.cluster import Node
from regatta.hosts.sources import library_files, source, supervisor_files

Spec = dict[str, Any]
"""What `run.start` takes on a node, see `regatta.node.runs`; as JSON."""


def common(plan: Plan, node: Node) -> Spec:
    """A run of no process yet: a unit of its own, on inventory/local a session."""
    return {
        "id": plan.run,
        "mode": "session" if node.local else "unit",
        "framework": plan.framework,
        "release": plan.release,
        "layer": plan.layer,
        "shared": plan.shared,
        "project": plan.project,
        "former": plan.former,
        "keep": list(plan.options.keep),
        "cwd": f"{node.state}/runs/{plan.run}/work",
        "env": common_environment(plan, node),
        "ranks": [],
        "time_limit": plan.options.time_limit,
        "limits": node.limits.spec(),
        "files": supervisor_files(),
        "plan": describe(plan),
    }


def process(rank: int, argv: list[str], env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One process of a node, with variables of its own."""
    return {"rank": rank, "argv": argv, "env": dict(env or {})}


def one_by_one(
    plan: Plan, node: Node, environment: Callable[[Rank], Mapping[str, str]] = lambda rank: {}
) -> list[dict[str, Any]]:
    """The program once for each rank of a node, with the variables that `environment` gives for it."""
    return [process(rank.rank, [node.python, *plan.program.argv], environment(rank)) for rank in plan.on(node)]


def python_ranks(plan: Plan, node: Node, ranks: list[dict[str, Any]]) -> Spec:
    """A run of these processes, each of which starts Python as `regatta.node.sitecustomize_rank` has it."""
    made = common(plan, node)
    made["ranks"] = ranks
    start_python_by(made, plan, node, source("sitecustomize_rank"))
    return made


def start_python_by(made: Spec, plan: Plan, node: Node, text: str) -> None:
    """Let each Python of the run begin with a module, its `sitecustomize`, of this text."""
    made["env"]["PYTHONPATH"] += f":{boot_folder(plan, node)}"
    made["files"]["boot/sitecustomize.py"] = text
    beside_python(made, sources.NODE, "imports", "spawn_guard")
    if plan.program.library:
        made["files"] |= {f"boot/{path}": text for path, text in library_files().items()}


def beside_python(made: Spec, package: str, *modules: str) -> None:
    """Let what Python begins with find these modules of a package, as `regatta_<name>`."""
    made["files"] |= {f"boot/regatta_{name}.py": source(name, package) for name in modules}


def boot_folder(plan: Plan, node: Node) -> str:
    """Where what Python begins with lies on a node."""
    return f"{node.state}/runs/{plan.run}/boot"
