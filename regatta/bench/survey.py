"""A plan on a cluster now: its points, its runs in order, which are recorded, how long the rest takes."""

import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regatta.bench import fits, inputs, order, until
from regatta.bench.estimate import Estimates, span
from regatta.bench.order import Entry
from regatta.errors import PlanError, RecordError
from regatta.experiments import plans
from regatta.experiments.plans import BenchPlan, Point
from regatta.frameworks import registry
from regatta.hosts.remote import Remote
from regatta.program import hint
from regatta.records.record import Record
from regatta.records.store import Store
from regatta.release import tree
from regatta.terminal.table import aligned

RECORD_BYTES = 64 << 10
LEAST_FREE_BYTES = 16 << 20


@dataclass(frozen=True)
class Survey:
    """A plan on a cluster. `set` names this bench in its records, `done` are those there are, `left` what is to run."""

    plan: BenchPlan
    points: tuple[Point, ...]
    set: str
    source: tree.Tree
    done: tuple[Record, ...]
    left: tuple[Entry, ...]
    total: int
    estimates: Estimates
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    cores_shared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """For each point the frameworks under which ranks have to share cores."""

    def lines(self, width: int | None = None) -> list[str]:
        """The plan for a person, with what it may take; see `table.aligned` on `width`."""
        plan, guessed = self.plan, {entry.point.name for entry in self.left if not self.estimates.seconds(entry)[1]}
        most = f"up to {plan.repeats}" if plan.until is not None else f"{plan.repeats}"
        rounds = f"{most} repeats" + (f" after {plan.warm_ups} warm-up(s)" if plan.warm_ups else "")
        shown = [
            f"plan {plan.name}: {len(self.points)} points, {rounds}, caches {plan.cache}, {self.total} runs",
            *([plan.about] if plan.about else []),
            *([f"duet: {' and '.join(plan.duet)} run at the same moment, each on half of the cores"] * bool(plan.duet)),
            *(["hosts: another order in each repeat, the same for all runs of a pair"] * plan.shuffled),
            "",
        ]
        rows = [("point", "frameworks", "workers", "cores", "runs left", "about")]
        for point in self.points:
            mine = [entry for entry in self.left if entry.point.name == point.name]
            rough = " (rough)" if point.name in guessed else ""
            about = span(self.estimates.total(mine)) + rough if mine else "-"
            cores = self._cores(point)
            rows.append((point.name, ",".join(point.frameworks), str(point.workers), cores, str(len(mine)), about))
        shown += aligned(rows, width=width)
        if any(self.cores_shared.values()):
            shown += ["", "cores shared: ranks have to share cores there, so that no verdict on scaling comes of it"]
        seconds = self.estimates.total(self.left)
        shown += ["", f"{len(self.left)} runs to go, about {span(seconds)}; data are made before, outside the timers"]
        if plan.budget is not None and seconds > plan.budget:
            shown.append(
                f"the budget is {span(plan.budget)}: what it does not reach is left for the next `{hint('bench')}`"
            )
        return shown

    def _cores(self, point: Point) -> str:
        shared = self.cores_shared.get(point.name, ())
        alone = {name for name in point.frameworks if registry.of_run(name).single}
        if not shared:
            return "own"
        return "shared" if {*shared} >= {*point.frameworks} - alone else f"shared: {','.join(shared)}"


def survey(remote: Remote, plan: BenchPlan, results: Path, *, fresh: bool = False, retry: bool = False) -> Survey:
    """Prove that the cluster can carry the plan, and find what is left of it.

    An interrupted bench continues where plan, cluster and release are the same; else, and with `fresh`, a new set
    begins. Raises PlanError, RecordError, NodesError, InventoryError.
    """
    found = fits.hosts(remote)
    if plan.duet:
        found = fits.halves(remote.cluster, found, plan.duet)
    points = plans.expand(plan, sum(found[node.name].cores for node in remote.cluster.workers))
    points, notes = fits.available(remote.cluster, found, points)
    points, same = plans.once(points)
    notes += [f"{name} is measured by the runs of {other}, which are the same" for name, other in same.items()]
    shared = {point.name: fits.cores_shared(remote.cluster, found, point) for point in points}
    warnings = fits.check(remote.cluster, found, points)
    inputs.check(remote, points)
    source = tree.read(tree.find_root(_root(plan)))
    listing = Store(results).list()
    warnings += [f"left out: {broken}" for broken in listing.broken]
    if plan.shuffled and len(remote.cluster.workers) == 1:
        warnings.append(f"{remote.cluster.name} has one host that runs ranks: --shuffle-hosts changes nothing there")
    estimates = Estimates.of(listing.records, remote.cluster.name)
    entries = order.ordered(plan, points)
    begin = f"{plan.name}-{plans.digest(plan, points)}-"
    sets = _sets(listing.records, begin, remote.cluster.name)

    def of_set(name: str, done: Sequence[Record], left: tuple[Entry, ...]) -> Survey:
        told = (tuple(warnings), tuple(notes), shared)
        return Survey(plan, points, name, source, tuple(done), left, len(entries), estimates, *told)

    for name in reversed(sets):
        keys = order.recorded(sets[name], retry=retry)
        left = order.remaining(until.left(plan, entries, sets[name]), keys)
        if fresh or not left:
            break
        if {r.identity.release for r in sets[name]} - {None, source.release}:
            notes.append(
                f"{name} is unfinished, but its code was another: a new set begins ({len(left)} runs were left)"
            )
            break
        if len(left) < len(entries):
            notes.append(f"{name} continues: {len(entries) - len(left)} of {len(entries)} runs are recorded")
        return of_set(name, sets[name], left)
    name = f"{begin}{time.strftime('%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"
    return of_set(name, [], entries)


def _root(plan: BenchPlan) -> Path:
    """The project that the plan's workloads are of. PlanError where they are of several."""
    roots = {one.of.root: one.of for one in plan.experiments}
    if len(roots) > 1:
        named = " and ".join(f"{of.name} ({of.where})" for of in roots.values())
        raise PlanError(f"plan {plan.name}: {named} are of different projects: make a plan for each")
    return next(iter(roots))


def check_room(results: Path, runs: int) -> None:
    """RecordError where the disk cannot take the records of so many runs."""
    folder = next(path for path in (results.absolute(), *results.absolute().parents) if path.exists())
    if not folder.is_dir():
        raise RecordError(f"{folder} is no folder: records cannot be kept in {results}; choose one by REGATTA_RESULTS")
    needed, free = runs * RECORD_BYTES + LEAST_FREE_BYTES, shutil.disk_usage(folder).free
    if free < needed:
        raise RecordError(
            f"{folder} has {free / 1e6:.0f} MB free, the records of {runs} runs may need {needed / 1e6:.0f} MB: "
            "free some, or choose another folder by REGATTA_RESULTS"
        )


def _sets(records: Sequence[Record], begin: str, cluster: str) -> dict[str, list[Record]]:
    """Records by the set they are of, the latest set last."""
    sets: dict[str, list[Record]] = {}
    for record in records:
        name = record.series.set if record.series else None
        if name and name.startswith(begin) and record.cluster.name == cluster:
            sets.setdefault(name, []).append(record)
    return sets
