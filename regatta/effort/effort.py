"""What a workload takes under a framework, as reports and `--json` have it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FirstRun:
    """Seconds of a first run, end to end, and with provisioning of the bare hosts before it where that is known."""

    seconds: float
    from_bare: float | None = None


@dataclass(frozen=True)
class Effort:
    """What a workload takes under a framework; null (None): not known here.

    `lines`: those of Regatta beyond the plain loop. `bare`: those of a program for items that is written without
    Regatta. `packages`, `bytes`: of the environment. `ports`: of its services; `ranged`: ranges besides. `steps`: what
    to type or to set from bare hosts to an answer. `seconds`: of its first run; `from_bare`: with provisioning of the
    bare hosts. `seen`: what shows the work.
    """

    workload: str
    framework: str
    lines: int | None
    bare: int | None
    packages: int | None
    bytes: int | None
    services: tuple[str, ...]
    ports: int
    ranged: bool
    steps: tuple[str, ...]
    seconds: float | None
    from_bare: float | None
    seen: tuple[str, ...]
