"""The same program under several frameworks, in turns: what all its runs share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from regatta import paths
from regatta.errors import UsageError
from regatta.frameworks import plan
from regatta.records import record
from regatta.run import elastic, naming
from regatta.run.request import Request
from regatta.run.session import Session


@dataclass(frozen=True)
class Course:
    """What all runs of a comparison have in common; `single` is the single process's program where it differs."""

    program: plan.Program
    parameters: Mapping[str, object]
    single: plan.Program | None = None

    def request(self, base: Request, framework: record.Framework) -> Request:
        """A run of it under a framework."""
        program = self.single if self.single and framework == "single" else self.program
        return replace(
            base,
            program=replace(program, argv=(*program.argv, f"--framework={framework}")),
            framework=framework,
            root=paths.PROJECT,
            parameters=self.parameters,
        )


def in_turns(
    session: Session,
    request: Request,
    course: Course,
    frameworks: Sequence[record.Framework],
    *,
    workers: int | None,
    repeats: int,
) -> dict[str, list[record.Record]]:
    """Run a course `repeats` times under each framework, their order reversed every other time."""
    if repeats < 1:
        raise UsageError(f"--repeats must be at least 1, not {repeats}")
    done: dict[str, list[record.Record]] = {framework: [] for framework in frameworks}
    label = f"{course.program.label}-{naming.new_run_name('series', 'x').rpartition('x-')[2]}"
    for index in range(repeats):
        for framework in frameworks if index % 2 == 0 else list(reversed(frameworks)):
            name = request.name and (
                request.name if len(frameworks) == repeats == 1 else _name(request, framework, index)
            )
            series = record.Series(label, index + 1, repeats)
            base = replace(request, workers=workers, name=name, series=series)
            done[framework].append(elastic.run(session, course.request(base, framework)))
    return done


def _name(request: Request, framework: str, index: int) -> str:
    return f"{request.name}-{framework}-{index + 1}"
