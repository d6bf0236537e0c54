"""`make docs`: the page of the effort of each framework, but for what depends on a machine."""

import math
from collections.abc import Iterable

from regatta.cards import discovery
from regatta.effort.counted import efforts
from regatta.effort.effort import Effort
from regatta.report.effort import ports

PAGE = """# Effort of each framework

Made by `make docs` from `regatta/effort/`, which counts the sources, the cards and `ansible/roles/*/service.yml`: edit
those, not this page.

`regatta effort` shows these figures for each workload, with the packages of the environment, their size, and the
seconds of the first run that has a record, alone and from bare hosts: with the last provisioning of bare hosts on that
cluster, as this machine remembers it. `--json` prints them for programs. The report has the same table for its
workloads and frameworks.

- *Lines*: code of Regatta that a workload has under the framework and not in a plain loop. It is the framework's module
  as a diff with that of the loop, further modules that only it brings, and modules of the workload that import the
  framework. From the workload with the fewest to that with the most, two digits each.
- *Bare program*: the diff between two programs for the same items without Regatta, one with the framework and one with
  a loop ([`bare_items.py`](../../benchmarks/programs/bare_items.py)).
- *Services, ports*: services of the cluster that take its runs, and the ports at which these listen.
- *Steps*: commands and settings from bare hosts to an answer.
- *Seen*: what shows the work in progress, besides logs.

You write none of the lines of Regatta: a workload is written once, and `--framework` names the framework. They are the
size of what stands between a loop and the cluster.

Sources are compared as `ast.unparse` writes them without docstrings. So comments, blank lines and line breaks do not
count. Code that the plain loop has as well counts for no framework: the exchange of gradients in a training is part of
the one training that all have. A framework's module counts whole, though a workload may use a part of it: that of Ray
spreads items, starts actors and trains.

[Provisioning](../results/provisioning.md) has measured figures of provisioning.

| framework | workloads | lines | bare program | services | ports | steps | seen |
|---|---|---|---|---|---|---|---|"""


def page() -> str:
    """Return docs/reference/effort.md."""
    found: dict[str, list[Effort]] = {}
    for one in efforts(discovery.ours().values(), {}, {}):
        found.setdefault(one.framework, []).append(one)
    return "\n".join(
        [PAGE, *(_row(name, found[name]) for name in sorted(found, key=lambda name: _place(found[name]))), ""]
    )


def _place(some: list[Effort]) -> tuple[int, str]:
    return max(one.lines or 0 for one in some), some[0].framework


def _row(name: str, some: list[Effort]) -> str:
    first = some[0]
    cells = (
        f"`{name}`",
        str(len(some)),
        _span(_rounded(one.lines) for one in some),
        _span(one.bare for one in some),
        ", ".join(first.services) or "-",
        ports(first).replace("–", "-"),
        "; ".join(f"`{step}`" for step in first.steps),
        "; ".join(first.seen),
    )
    return f"| {' | '.join(cells)} |"


def _rounded(value: int | None) -> int | None:
    """Two digits of it, so that the page is not behind with each line of a workload."""
    return value if value is None or value < 100 else round(value, 1 - int(math.log10(value)))


def _span(values: Iterable[int | None]) -> str:
    known = sorted({value for value in values if value is not None})
    return "-" if not known else str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"
