"""What verify found on all nodes, for a person, and what provisioning would start anew."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Found = Mapping[str, Any]


def summary(
    mesh: Mapping[str, Found],
    torchrun: Mapping[str, Found],
    ray: Found,
    hdfs: Mapping[str, Found],
    monitoring: Found,
    shared: Mapping[str, Found] | None = None,
    spark: Found | None = None,
) -> dict[str, list[str]]:
    """`mesh`, `torchrun`, `hdfs` and `shared` are each node's answers, the others are the head's."""
    nodes, shared = list(mesh), shared or {}
    problems = [
        f"{node}: {text}"
        for answers in (mesh, torchrun, shared)
        for node, answer in answers.items()
        for text in answer.get("problems", ["was not checked"])
    ]
    problems += [f"head: {text}" for text in ray.get("problems", ["Ray was not checked"])]
    problems += [f"{node}: {text}" for node, answer in hdfs.items() for text in answer.get("problems", [])]
    problems += [f"head: {text}" for text in monitoring.get("problems", [])]
    problems += [f"head: {text}" for text in (spark or {}).get("problems", [])]
    versions = {node: answer.get("versions", {}) for node, answer in torchrun.items()}
    problems += _unequal(versions)
    first: Mapping[str, str] = next(iter(versions.values()), {})
    lines = [
        f"SSH: each of {len(nodes)} node(s) reaches every node, host keys checked",
        "Versions equal: " + ", ".join(f"{name} {version}" for name, version in first.items()),
        f"torchrun: all-reduce over {len(nodes)} node(s) is right",
        "Ray: a task has run on " + ", ".join(nodes),
        f"Ray: without the token the API answers {' and with a wrong one '.join(map(str, ray.get('refused', [])))}",
        *(["Shared folder: what each node writes, every node reads"] if shared else []),
        *(text for answer in hdfs.values() for text in answer.get("lines", [])),
        *(spark or {}).get("lines", []),
        *monitoring.get("lines", []),
    ]
    return {"lines": [] if problems else lines, "problems": problems}


def _unequal(versions: Mapping[str, Mapping[str, str]]) -> list[str]:
    found = []
    for name in sorted({name for held in versions.values() for name in held}):
        held = {node: values[name] for node, values in versions.items() if name in values}
        if len(set(held.values())) > 1:
            found.append(f"{name} differs: " + ", ".join(f"{node} has {value}" for node, value in held.items()))
    return found


def units_anew(hostvars: Mapping[str, Mapping[str, Any]], hosts: Sequence[str]) -> dict[str, list[str]]:
    """{host: units of Ray, HDFS and Spark that run, and start anew or go}, from what the roles have registered."""
    found = {}
    for host in hosts:
        said = hostvars[host]
        units = [unit for role in ("ray", "hdfs", "spark") for unit in said.get(f"{role}_removed", {}).get("units", [])]
        units += [unit for role in ("ray", "hdfs", "spark") for unit in said.get(f"{role}_started", {}).get("anew", [])]
        if units:
            found[host] = units
    return found


class FilterModule:
    """`hostvars of nodes | verify_summary` -> {lines, problems}; `hostvars | units_anew(hosts)` -> {host: units}."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """What Ansible finds here."""
        return {"verify_summary": summary, "units_anew": units_anew}
