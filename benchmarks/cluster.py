"""`make bench`: measure the figures of docs/results/overhead.md on their own labs (`--help` says more)."""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import figures, labs, machine, report, shell
from benchmarks.shell import BenchError
from regatta import paths
from regatta.errors import RegattaError
from regatta.hosts import inventories

RESULTS = paths.PROJECT / "docs/results/overhead.md"
SYNC_ROUNDS = 7
_ON_BARE_HOSTS = {"provision", "again", "teardown"}
_ON_A_CLUSTER = {"sync", "run", "death"}


class Bench:
    """Takes the wanted samples; what fails is noted and does not keep the rest from being measured."""

    def __init__(self, wanted: set[str], repeats: int, name: str) -> None:
        self.wanted = wanted
        self.repeats = repeats
        self.name = name
        self.samples: dict[str, list[float]] = {}
        self.failed: dict[str, str] = {}
        self.phases: dict[str, list[figures.Phases]] = {}

    def on_own_labs(self) -> None:
        """Everything wanted, on labs that are made and removed here."""
        if self.wanted & (_ON_BARE_HOSTS | _ON_A_CLUSTER):
            self._cycles()
        if "cold" in self.wanted:
            with self._part("cold"), labs.lab(self.name, 3) as inventory:
                self._keep({"cold": [figures.provision_cold(inventory)]})
        if "sync16" in self.wanted:
            with self._part("sync16"), labs.lab(f"{self.name}16", 16) as inventory:
                labs.give_rsync(inventories.load(str(inventory)))
                self._keep(figures.sync(inventory, SYNC_ROUNDS, "sync16"))

    def on_cluster(self, inventory: Path) -> None:
        """Measure what needs a provisioned cluster and leaves it as it was."""
        if "sync" in self.wanted:
            with self._part("sync"):
                self._keep(figures.sync(inventory, SYNC_ROUNDS, "sync"))
        if "run" in self.wanted:
            with self._part("run"):
                samples, self.phases = figures.run_ppr(inventory, self.repeats)
                self._keep(samples)
        if "death" in self.wanted:
            with self._part("death"):
                self._keep(figures.death(inventory, self.repeats))

    def measured(self) -> tuple[report.Measured, ...]:
        """Every figure that was wanted; where all but the cold one were, that one too, without samples."""
        return tuple(
            report.Measured(figure, tuple(self.samples.get(figure.key, ())), self.failed.get(figure.group))
            for figure in figures.FIGURES
            if self.complete or figure.group in self.wanted
        )

    @property
    def complete(self) -> bool:
        """Whether what docs/results/overhead.md shows was measured."""
        return self.wanted >= set(figures.GROUPS) - {"cold"}

    def _cycles(self) -> None:
        """Bare hosts, provisioned, used, torn down; so often as wanted, and once more where the first filled caches."""
        left = self.repeats if self.wanted & _ON_BARE_HOSTS else 1
        spare = 1 if "provision" in self.wanted else 0
        while left and not self.failed.get("provision"):
            left -= 1
            with self._part("provision"), labs.lab(self.name, 3) as inventory:
                taken, warm = figures.provision(inventory)
                if warm or not spare:
                    self._keep({"provision": [taken]})
                else:
                    print(f"provision: {taken:.1f} s filled the caches and does not count", flush=True)
                    left, spare = left + 1, 0
                if "again" in self.wanted:
                    with self._part("again"):
                        self._keep({"again": [figures.provision_again(inventory)]})
                if not left:
                    figures.ray_up(inventory)
                    self.on_cluster(inventory)
                if "teardown" in self.wanted:
                    with self._part("teardown"):
                        self._keep({"teardown": [figures.teardown(inventory)]})

    def _keep(self, taken: Mapping[str, Sequence[float]]) -> None:
        for key, values in taken.items():
            self.samples.setdefault(key, []).extend(values)
            print(f"{key}: {', '.join(report.seconds(value) for value in values)}", flush=True)

    @contextlib.contextmanager
    def _part(self, group: str) -> Iterator[None]:
        try:
            yield
        except (BenchError, RegattaError, OSError) as error:
            self.failed[group] = str(error)
            print(f"{group} FAILED: {error}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables, write the JSON file and, where everything was measured, docs/results/overhead.md."""
    options = _parser().parse_args(arguments)
    wanted = _wanted(options)
    shell.interruptible()
    found = machine.describe()
    if not found.quiet:
        print(f"WARNING: the load average is {found.load:.2f}: the figures will mean little", file=sys.stderr)
    bench = Bench(wanted, options.repeats, options.name)
    try:
        if options.inventory:
            bench.on_cluster(inventories.choose(options.inventory))
        else:
            bench.on_own_labs()
    except RegattaError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("bench: interrupted; its labs are gone, nothing was written", file=sys.stderr)
        return 130
    made = report.Report(found, bench.measured(), bench.phases)
    print(f"\n{report.markdown(made)}\n")
    print(f"every sample: {machine.keep('cluster', made.machine.date, report.samples(made))}")
    if bench.failed:
        print(f"failed: {', '.join(bench.failed)}; {RESULTS} is as it was", file=sys.stderr)
        return 1
    if bench.complete:
        report.write_results(RESULTS, made)
        print(f"written: {RESULTS}")
    else:
        print(f"a part was measured, so {RESULTS} is as it was")
    return 0


def _wanted(options: argparse.Namespace) -> set[str]:
    if options.only:
        wanted = set(options.only.split(",")) | ({"cold"} if options.cold else set())
    else:
        wanted = set(_ON_A_CLUSTER if options.inventory else figures.GROUPS)
        wanted -= set() if options.cold else {"cold"}
    if unknown := wanted - set(figures.GROUPS):
        raise SystemExit(f"bench: --only knows {', '.join(figures.GROUPS)}, not {', '.join(sorted(unknown))}")
    if options.inventory and (foreign := wanted - _ON_A_CLUSTER):
        raise SystemExit(f"bench: {', '.join(sorted(foreign))} needs its own lab: leave --inventory out")
    return wanted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description="Measure Regatta's figures.")
    parser.add_argument("--only", metavar="LIST", help=f"some of: {','.join(figures.GROUPS)}")
    parser.add_argument("--cold", action="store_true", help="also provision with empty caches (downloads everything)")
    parser.add_argument("--repeats", type=_count, default=3, help=f"of all but syncs ({SYNC_ROUNDS}); default 3")
    parser.add_argument("--name", default="bench", help="name of the labs that are made (default bench, bench16)")
    parser.add_argument("--inventory", help="measure sync, run and death on this provisioned cluster instead")
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of repeats")
    return int(text)


if __name__ == "__main__":
    raise SystemExit(main())
