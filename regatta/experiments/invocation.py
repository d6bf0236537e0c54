"""The task of a workload, and the arguments that its program gets for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from regatta.cards import values
from regatta.cards.card import Value, Workload, flag
from regatta.errors import UsageError
from regatta.experiments.plans import Point
from regatta.hdfs import client as hdfs
from regatta.release import objects

OWN_CHECKPOINT = "checkpoint.pt"
SHARED_CHECKPOINT = "hdfs:///checkpoints/{run}.pt"
RUN_PLACE = "{run}"
"""Placeholder of the run's id in the path of a checkpoint."""


@dataclass(frozen=True)
class Invocation:
    """A workload with the `values` that were given for its options (what is not given has the program's default).

    `input`: a path here, an address in HDFS, or a word of the card's. `checkpoint`: where rank 0 keeps its state after
    each epoch, in the run's own folder where `restarts` need one, in HDFS where hosts may be lost (`elastic`). `keep`:
    the flag for a prepared input that is kept.
    """

    workload: Workload
    values: Mapping[str, Value] = field(default_factory=dict)
    input: str | None = None
    checkpoint: str | None = None
    restarts: int = 0
    elastic: bool = False
    keep: str | None = None

    def words(self, ranks: int, *, alone: bool = False) -> list[str]:
        """Options of the program, without its input; `alone`: of one process that does what all ranks do."""
        words = values.words(self.workload.card, self.values, ranks, alone=alone)
        words += [flag(self.keep)] if self.keep else []
        own = SHARED_CHECKPOINT if self.elastic else OWN_CHECKPOINT
        if checkpoint := self.checkpoint or (own if self.restarts else None):
            words += [f"--checkpoint={checkpoint}", "--checkpoint-every=1"]
        if self.restarts:
            words.append(f"--restarts={self.restarts}")
        if self.elastic and not alone:
            words.append(f"--elastic={ranks}")
        return words

    def keeping(self) -> "Invocation":
        """The same, with its prepared input kept on the hosts for later runs, where the program can do that."""
        given = self.workload.card.input
        if given is None or given.keep is None:
            return self
        together = values.together(self.workload.card, {**self.values, given.keep: True})
        return self if together else replace(self, keep=given.keep)

    def unsupported(self, framework: str) -> str | None:
        """Return what of it cannot be done under a framework, as one sentence; None where all can."""
        return values.together(self.workload.card, self.values, framework)

    def check(self, runs: int) -> None:
        """UsageError where options do not go together; `runs` is how many runs there will be."""
        if wrong := values.together(self.workload.card, self.values):
            raise UsageError(wrong)
        given = self.workload.card.input
        if given and self.input is None and given.default is None:
            option = self.workload.card.options[given.option]
            if option.required:
                raise UsageError(f"{self.workload.name} needs {flag(given.option)}: {given.what}")
        if self.checkpoint and RUN_PLACE not in self.checkpoint and runs > 1:
            raise UsageError(
                f"--checkpoint {self.checkpoint}: of several runs the second would continue where the first has ended; "
                f"write {RUN_PLACE} in it, which becomes each run's id"
            )
        kept = self.checkpoint
        if self.elastic and kept and not hdfs.is_address(kept) and not objects.is_address(kept):
            raise UsageError(
                f"--elastic --checkpoint {kept}: a checkpoint that is to outlive its host is in HDFS or an object "
                f"store; write hdfs:///checkpoints/{RUN_PLACE}.pt or s3://bucket/{RUN_PLACE}.pt, or leave it out"
            )


def of_point(point: Point, data: str | None) -> Invocation:
    """Return what a point of a plan asks for, with its data in place."""
    card, given = point.of.card, dict(point.parameters)
    if point.size is not None and card.generate is None and card.size:
        given[card.size] = point.size
    return Invocation(point.of, given, data)


def options(point: Point) -> list[str]:
    """The workload's options, as a run's record keeps them."""
    return of_point(point, None).words(point.workers)
