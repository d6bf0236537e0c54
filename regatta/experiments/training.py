"""Training workloads under several frameworks, with the same global batch for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regatta.errors import DataError, UsageError
from regatta.experiments.experiment import Course, in_turns
from regatta.frameworks import plan
from regatta.hdfs import client as hdfs
from regatta.records.record import Framework, Record
from regatta.release import inputs
from regatta.run.request import Request
from regatta.run.session import Session

BATCHES = {"digits": 64, "stars": 128}
"""Rows a rank and step where nobody says otherwise."""

OWN_CHECKPOINT = "checkpoint.pt"
SHARED_CHECKPOINT = "hdfs:///checkpoints/{run}.pt"
RUN_PLACE = "{run}"
"""Stands for the run's id in the path of a checkpoint."""

MADE = ("generated", "handwritten")


@dataclass(frozen=True)
class Training:
    """What a training was asked for; `None` leaves the workload's own default. `batch`: rows a rank and step.

    `checkpoint`: where rank 0 keeps its state after each epoch, in the run's own folder where `restarts` need one, in
    HDFS where hosts may be lost (`elastic`).
    """

    workload: str
    data: str | None = None
    size: str | None = None
    model: str | None = None
    epochs: str | None = None
    batch: int | None = None
    learning_rate: str | None = None
    seed: str | None = None
    scale_batch: bool = False
    checkpoint: str | None = None
    restarts: int = 0
    elastic: bool = False

    def options(self, places: str | None, times: int, ranks: int) -> list[str]:
        """Command-line options; the batch is multiplied by `times`, the learning rate by `ranks` if at all."""
        names = ("size", "model", "epochs", "learning_rate", "seed")
        given = [(name, getattr(self, name)) for name in names]
        words = [f"--{name.replace('_', '-')}={value}" for name, value in given if value is not None]
        words.append(f"--batch={(self.batch or BATCHES[self.workload]) * times}")
        if self.scale_batch:
            words.append(f"--scale-batch={ranks}")
        own = SHARED_CHECKPOINT if self.elastic else OWN_CHECKPOINT
        checkpoint = self.checkpoint or (own if self.restarts else None)
        if checkpoint:
            words += [f"--checkpoint={checkpoint}", "--checkpoint-every=1"]
        if self.restarts:
            words.append(f"--restarts={self.restarts}")
        if self.elastic and times == 1:
            words.append(f"--elastic={ranks}")
        return [*words, f"--data={places}"] if places else words


def prepare(session: Session, asked: str | None) -> tuple[str | None, dict[str, object]]:
    """Put a file, or the files of a folder, on every node, outside the clocks; gives where runs read them and what they
    are. DataError where there are none.
    """
    if asked is None or asked in MADE or hdfs.is_address(asked):
        return asked, {"data": asked or MADE[0]}
    path = Path(asked).expanduser()
    if not path.exists():
        raise DataError(f"there is no file or folder {asked}")
    inside = sorted(path.iterdir()) if path.is_dir() else [path]
    files = [inputs.identify(file) for file in inside if file.is_file() and file.name[0] != "."]
    if not files:
        raise DataError(f"the folder {asked} has no files")
    nodes = session.cluster.nodes
    if len({node.state for node in nodes}) > 1:
        raise UsageError("the nodes have different regatta_state folders; data need the same path on all of them")
    for file in files:
        if sent := inputs.place(session.remote, file, nodes):
            session.console.note(f"{file.path.name} ({file.size / 1e6:.1f} MB) put on {', '.join(sent)}")
    return ",".join(file.on(nodes[0]) for file in files), {"data": {file.path.name: file.sha256 for file in files}}


def course(session: Session, asked: Training, ranks: int) -> Course:
    """Put the data in place, outside the clocks; the single process takes as many rows a step as all ranks together."""
    places, described = prepare(session, asked.data)
    options = asked.options(places, 1, ranks)
    module = f"workloads.{asked.workload}"
    return Course(
        plan.Program.module(module, options, asked.workload),
        {**described, "options": [word for word in options if not word.startswith("--data=")]},
        plan.Program.module(module, asked.options(places, ranks, ranks), asked.workload),
    )


def train(
    session: Session,
    asked: Training,
    frameworks: Sequence[Framework],
    *,
    workers: int | None,
    repeats: int,
    request: Request,
) -> dict[str, list[Record]]:
    """Train under each framework in turns."""
    if asked.checkpoint and RUN_PLACE not in asked.checkpoint and len(frameworks) * repeats > 1:
        raise UsageError(
            f"--checkpoint {asked.checkpoint}: of several runs the second would go on where the first has ended; "
            f"write {RUN_PLACE} in it, which becomes each run's id"
        )
    if asked.elastic and asked.checkpoint and not hdfs.is_address(asked.checkpoint):
        raise UsageError(
            f"--elastic --checkpoint {asked.checkpoint}: a checkpoint that is to outlive its host is in HDFS; "
            f"write hdfs:///checkpoints/{RUN_PLACE}.pt, or leave it out"
        )
    chosen = course(session, asked, workers if workers is not None else session.cores())
    return in_turns(session, request, chosen, frameworks, workers=workers, repeats=repeats)
