"""What each framework takes of a person, for each workload: by sources, declarations and what is installed."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

import yaml

from regatta.cards.card import Workload
from regatta.effort import code, installed
from regatta.effort.effort import Effort, FirstRun
from regatta.frameworks import registry
from regatta.frameworks.api import Framework
from regatta.services import parts
from regatta.services.parts import Part

PROVISION, RUN = "regatta provision", "regatta run"
_SWITCH = re.compile(r"\{\{ *(\w+) *\| *bool *\}\}")


def efforts(
    workloads: Iterable[Workload],
    of: installed.Known,
    first: Mapping[tuple[str, str], FirstRun],
    only: Collection[tuple[str, str]] | None = None,
) -> Iterator[Effort]:
    """The effort of Regatta's own workloads under each of their frameworks, or `only` of some.

    `of`: what is installed. `first`: the first run by workload and framework, where there was one.
    """
    bare = code.bare()
    for workload in workloads:
        package = (workload.card.module or "").rpartition(".")[2]
        for name in workload.card.frameworks:
            if workload.own or not package or (only is not None and (workload.name, name) not in only):
                continue
            adapter = registry.find(name)
            services = [part for part in parts.every() if adapter.units and {*adapter.units} <= {*part.units}]
            names, begun = packages(adapter, of), first.get((workload.name, name))
            yield Effort(
                workload.name,
                name,
                code.of_workload(package, name),
                bare.get(name) if workload.card.group == "items" else None,
                None if names is None else len(names),
                None if names is None else installed.size(names, of),
                tuple(part.title for part in services),
                sum(len(part.ports) for part in services),
                any(part.ranged for part in services),
                (PROVISION, *(switch for part in services for switch in _switches(part)), RUN),
                begun.seconds if begun else None,
                begun.from_bare if begun else None,
                tuple(_seen(adapter, services)),
            )


def packages(adapter: Framework, of: installed.Known) -> set[str] | None:
    """Names of the distributions that a framework is made of; None where one of them is not installed here."""
    said = (*adapter.packages, *adapter.requirements)
    return installed.needed(said or installed.providing(code.outside(adapter.name), of), of)


def _switches(part: Part) -> Iterator[str]:
    """The variable of the inventory that turns a service on, where it is off without it."""
    found = _SWITCH.fullmatch(part.enabled)
    specs = parts.ROLES / part.role / "meta/argument_specs.yml"
    if found and specs.is_file():
        options = yaml.safe_load(specs.read_text())["argument_specs"]["main"]["options"]
        if options.get(found[1], {}).get("default") is False:
            yield f"{found[1]}: true"


def _seen(adapter: Framework, services: Iterable[Part]) -> Iterator[str]:
    yield "progress"
    if type(adapter).pages is not Framework.pages:
        yield f"dashboard of {adapter.service}"
    if charts := sum(part.panels for part in services):
        yield f"{charts} charts in Grafana"
