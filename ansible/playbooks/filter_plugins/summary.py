"""The findings of verify on all nodes, for a person, and what provisioning would restart."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

SLOW = 0.8
Found = Mapping[str, Any]
Answers = Mapping[str, Found]


def summary(hostvars: Answers, hosts: Sequence[str], services: Iterable[Sequence[str]]) -> dict[str, list[str]]:
    """Return {lines, problems} of what roles have registered as `<role>_verified` on each of these hosts.

    `services`: pairs of a role and whether a `node` answers for itself, or one answer is that of the `cluster`.
    """
    mesh, torchrun = (_answers(hostvars, hosts, role) for role in ("ssh_mesh", "python_env"))
    found = {role: _found(hostvars, hosts, role, of) for role, of in services}
    problems = _problems(mesh) + _problems(torchrun)
    problems += [text for role, answers in found.items() for text in _problems(answers, role)]
    versions = {node: answer.get("versions", {}) for node, answer in torchrun.items()}
    problems += _unequal(versions)
    first: Mapping[str, str] = next(iter(versions.values()), {})
    lines = [
        f"SSH: each of {len(hosts)} node(s) reaches every node, host keys checked",
        "Versions equal: " + ", ".join(f"{name} {version}" for name, version in first.items()),
        f"torchrun: all-reduce over {len(hosts)} node(s) is right",
        *_pairs(torchrun, hosts),
        *(text for answers in found.values() for answer in answers.values() for text in answer.get("lines", [])),
    ]
    return {"lines": [] if problems else list(dict.fromkeys(lines)), "problems": problems}


def _pairs(torchrun: Answers, hosts: Sequence[str]) -> Iterator[str]:
    """Say how fast an all-reduce of two hosts is, and whose is slow with every other host."""
    rates = {
        (one, hosts[int(other)]): rate
        for one, answer in torchrun.items()
        for other, rate in answer.get("rates", {}).items()
    }
    if not rates:
        return
    worst, best = (chosen(rates, key=rates.__getitem__) for chosen in (min, max))
    yield (
        f"all-reduce of two hosts: {_shown(rates[worst])} ({', '.join(worst)}) to {_shown(rates[best])} "
        f"({', '.join(best)})"
    )
    own = {host: max(rate for pair, rate in rates.items() if host in pair) for host in torchrun}
    for host, rate in own.items():
        others = [other for name, other in own.items() if name != host]
        if len(others) > 1 and rate < SLOW * statistics.median(others):
            yield f"{host} is slow in an all-reduce with every other host: {_shown(rate)}"


def _shown(rate: float) -> str:
    return f"{rate / 1e6:.0f} MB/s"


def _answers(hostvars: Answers, hosts: Sequence[str], role: str) -> dict[str, Found]:
    return {host: hostvars[host].get(f"{role}_verified", {}) for host in hosts}


def _found(hostvars: Answers, hosts: Sequence[str], role: str, of: str) -> dict[str, Found]:
    answers = _answers(hostvars, hosts, role)
    return answers if of == "node" else {"head": answers[hosts[0]]}


def _problems(answers: Answers, role: str = "") -> list[str]:
    unchecked = [f"{role} was not checked".strip()]
    return [f"{node}: {text}" for node, answer in answers.items() for text in answer.get("problems", unchecked)]


def _unequal(versions: Mapping[str, Mapping[str, str]]) -> list[str]:
    found = []
    for name in sorted({name for held in versions.values() for name in held}):
        held = {node: values[name] for node, values in versions.items() if name in values}
        if len(set(held.values())) > 1:
            found.append(f"{name} differs: " + ", ".join(f"{node} has {value}" for node, value in held.items()))
    return found


def restarted_units(hostvars: Answers, hosts: Sequence[str], roles: Sequence[str]) -> dict[str, list[str]]:
    """{host: units that run, and restart or go}, from what roles have registered as `_removed` and `_started`."""
    found = {}
    for host in hosts:
        said = hostvars[host]
        units = [unit for role in roles for unit in said.get(f"{role}_removed", {}).get("units", [])]
        units += [unit for role in roles for unit in said.get(f"{role}_started", {}).get("restarts", [])]
        if units:
            found[host] = units
    return found


class FilterModule:
    """`hostvars | verify_summary(hosts, services)` -> {lines, problems}; `hostvars | restarted_units(hosts, roles)`."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return what Ansible finds here."""
        return {"verify_summary": summary, "restarted_units": restarted_units}
